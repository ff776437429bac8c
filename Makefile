# PULC: one Makefile, one rules.mk of sources in each folder, everything built lies under build/.
# `make help` lists the targets. A rules.mk may add to ALL (what `make` builds), GENERATED (headers
# that must exist before anything is compiled), INSTALL (see below) and the TESTS_ lists of tests/rules.mk.

VERSION := 0.1.0
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
DEB ?= build/deb
CC ?= cc
comma := ,

# SAN=address,undefined or SAN=thread builds everything once more beside the plain build.
SAN ?=
B := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
SAN_B := build/san-address-undefined
SAN_THREAD_B := build/san-thread
FUZZ_B := build/fuzz
export PULC_BUILD := $(CURDIR)/$(B)

CFLAGS ?= -O2 -g
WERROR ?= $(CI)
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(if $(WERROR),-Werror)
STD := -std=gnu11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -fno-plt -DPULC_VERSION='"$(VERSION)"'
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined -DPULC_STEPS)
SANFLAGS += $(if $(findstring thread,$(SAN)),-Wno-tsan)# fences, which it does not see
SANFLAGS += $(if $(FUZZ),-fsanitize=fuzzer-no-link)
# What runs in a program's data calls is optimised across files: a message passes through ten of them.
LTO_FOLDERS := base shm wire hal protocols libpulc preload
LTO := $(if $(SAN)$(FUZZ)$(findstring clang,$(CC)),,-flto=auto -ffat-lto-objects)
LINK := -Wl,-z,now -Wl,-z,relro -Wl,-z,noseparate-code -Wl,--sort-section=name -Wl,--as-needed $(if $(LTO),-fno-lto)
# A -fno-lto anywhere would win over -flto=auto.
LINK_LTO := $(filter-out -fno-lto,$(LINK)) $(if $(LTO),$(LTO) $(CFLAGS))

# The include paths that a folder may use: a layer violation does not compile. For "quotes" only, so
# that no header of ours hides one of the system's.
INC_base := -iquotebase
INC_shm := $(INC_base) -iquoteshm
INC_wire := $(INC_base) -iquotepsid/wire -iquote$(B)/gen
INC_hal := $(INC_shm) -iquotehal
INC_protocols := -Iinclude $(INC_hal) -iquoteprotocols
INC_libpulc := $(INC_protocols) $(INC_wire) -iquotekeeper/common -iquotelibpulc
INC_preload := -Iinclude $(INC_base) -iquotepreload -iquote$(B)/gen
INC_job := $(INC_wire) -iquotekeeper/common
INC_keeper := $(INC_job) -iquotekeeper
INC_psid := $(INC_shm) $(INC_job) -iquotepsid -iquotepsid/cluster -iquotepsid/jobs -iquotepsid/partition
INC_tools := -Iinclude $(INC_job) -iquotetools/shared
INC_tests := -Iinclude -iquotetests $(INC_libpulc) $(INC_job) -iquotepsid -iquotepsid/cluster -iquotepsid/jobs -iquotepsid/partition -iquotekeeper -iquotetools -iquotetools/shared
INC_bench := -Iinclude $(INC_hal) -iquotebench

# A make that was given no -j gets one job for each processor where it builds.
PARALLEL = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
BUILD = $(MAKE) --no-print-directory $(PARALLEL)

.DELETE_ON_ERROR:
.SECONDEXPANSION:
ifndef V # V=1 shows the commands
.SILENT:
endif
ALL :=
GENERATED :=
# What `make install` puts where: source:destination:mode, destinations relative to PREFIX unless absolute.
INSTALL :=

.PHONY: all
all: # the default goal; what it builds comes from the rules.mk files
include $(wildcard base/rules.mk shm/rules.mk psid/wire/rules.mk keeper/rules.mk hal/rules.mk protocols/rules.mk \
	libpulc/rules.mk preload/rules.mk psid/rules.mk tools/rules.mk tests/rules.mk bench/rules.mk \
	docs/rules.mk systemd/rules.mk examples/rules.mk)
all: $(ALL) ## build everything under build/

objects = $(patsubst %.c,$(B)/obj/%.o,$(1))

# One rule compiles every folder with its own include paths.
folder = $(firstword $(subst /, ,$(patsubst psid/wire/%,wire/%,$(1))))
$(B)/obj/%.o: %.c | $(GENERATED)
	@mkdir -p $(@D)
	@echo '  CC  $<'
	$(CC) $(STD) $(CFLAGS) $(if $(filter $(LTO_FOLDERS),$(call folder,$<)),$(LTO)) $(WARN) $(SANFLAGS) $(CPPFLAGS) $(INC_$(call folder,$<)) -MMD -MP -c $< -o $@

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

.PHONY: deps demo check check-apps check-boot check-stress check-random check-san check-starved check-suites fuzz bench lint install deb uninstall clean help
deps: ## install the Debian packages that are missing
	@tools/deps.sh

demo: ## the gain, measured here: iperf3, a ping-pong and Redis on the kernel and under PULC
	@tools/deps.sh build demo
	@$(BUILD) all demo-programs
	@tools/demo.sh

check: ## build and run every test (about half an hour on two processors)
	@tools/deps.sh build demo bench check
	@$(BUILD) WERROR=1 all tests bench-programs
	@$(BUILD) WERROR=1 SAN=address,undefined tests-san
	@$(BUILD) WERROR=1 SAN=thread tests-san
	@$(BUILD) CC=clang FUZZ=1 SAN=address,undefined B=$(FUZZ_B) fuzz-programs
	@tests/run $(CHECK_SUITES)

check-apps: ## applications under load, on the kernel and under PULC, content compared (APPS="redis ..." chooses)
	@tools/deps.sh build apps
	@$(BUILD) WERROR=1 all
	@tests/apps/load/run-load $(APPS)

check-boot: ## the packages in containers that boot systemd (root; minutes, the first time more: debootstrap)
	@tools/deps.sh build deb
	@tools/deps.sh boot || true
	@$(BUILD) WERROR=1 all
	@$(BUILD) $(B)/tests/boot/reduce || true
	@$(BUILD) deb DEB=build/boot/debs
	@$(BUILD) deb DEB=build/boot/debs-next B=build/boot/next VERSION=$(VERSION).1
	@tests/run $(CHECK_BOOT)

check-stress: ## integrity and endurance for longer; STRESS_SECONDS (60) scales it
	@tools/deps.sh build check
	@$(BUILD) WERROR=1 all tests
	@STRESS_SECONDS=$${STRESS_SECONDS:-60} tests/run $(CHECK_STRESS)

check-random: ## random sequences of socket calls, on the kernel and under PULC (SEEDS=1-500)
	@tools/deps.sh build check
	@$(BUILD) WERROR=1 all tests
	@tests/random/run-random --seeds $(or $(SEEDS),1-200)

check-san: ## the unit and hostile tests under SAN=address,undefined (SAN=thread: those with threads)
	@tools/deps.sh build check
	@$(BUILD) WERROR=1 SAN=$(or $(SAN),address$(comma)undefined) tests-san
	@tests/run $(CHECK_SAN_SUITES)

check-starved: ## a process of a case gets no processor for seconds, at each of its system calls (CASES="exec_* fork_*")
	@tools/deps.sh build check
	@$(BUILD) WERROR=1 all tests
	@tests/preload/run-starved $(or $(CASES),exec_* process_exec_*)

check-suites: ## other people's test suites under the shim (SUITES="libuv ..." chooses; SURROUNDINGS="usual no-spin one-cpu tiny-rings at-once eager"; ROUNDS=3)
	@tools/deps.sh build
	@$(BUILD) all $(B)/tests/suites/eager.so
	@tools/check-suites.sh

fuzz: ## fuzz each target of tests/fuzz for FUZZ_SECONDS (default 60)
	@tools/deps.sh build check
	@$(BUILD) CC=clang FUZZ=1 SAN=address,undefined B=$(FUZZ_B) fuzz-programs
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) tests/run $(CHECK_FUZZ_SUITES)

bench: ## every figure beside its kernel twin; a table and build/bench.json
	@tools/deps.sh build bench bench-apps apps
	@$(BUILD) all bench-programs
	@bench/run

lint: ## formatting, static analysis, comments, man pages, layers, sizes
	@tools/deps.sh build check lint
	@$(BUILD) all
	@tools/lint.sh

install: all ## into DESTDIR and PREFIX (default /usr/local)
	@tools/install.sh install $(INSTALL)

deb: ## Debian packages into DEB (default build/deb)
	@tools/deps.sh build deb
	@rm -rf $(DEB)
	@$(MAKE) --no-print-directory -s install DESTDIR=$(abspath $(DEB))/stage
	@tools/deb.sh $(DEB) $(DEB)/stage
	@rm -rf $(DEB)/stage

uninstall: ## remove what install has put there
	@tools/install.sh uninstall $(INSTALL)

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

export VERSION PREFIX SYSCONFDIR DESTDIR
