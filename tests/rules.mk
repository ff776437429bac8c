# How tests are built and which ones `make check` runs.
#
# unit/ and hostile/: every .c is a program of its own, linked with tests/*.c (the harness) and
# with archives of all folders but preload and the main functions. An object that one test needs
# besides: `$(B)/tests/unit/NAME: OBJECT` in any rules.mk.
# steps/: each .c but walk.c is one too, for the builds under sanitizers only.
# native/, preload/, random/, restart/, cluster/, stress/, apps/, house/: every *.sh is a test; TESTS_<folder> adds built programs that
# are tests, TEST_PROGRAMS what must be built but is run by a script only.
# `make build/tests/unit/NAME TEST_FOLDERS="base shm"` links only what is named.
# stress/ is run by `make check` for about a minute and by `make check-stress` for longer.
# apps/load/ is no part of `make check`, for it needs large packages: `make check-apps`. Nor is boot/: `make check-boot`.
TEST_SUITES := house unit hostile native preload random restart jobs cluster apps stress
TEST_FOLDERS ?= base shm psid/wire keeper/common keeper hal protocols libpulc psid psid/cluster psid/jobs psid/partition
TEST_LIBS := -lcunit -luv -lsystemd -lprotobuf-c -lssl -lcrypto -lmicrohttpd -luring -pthread
TEST_SUPPORT = $(call objects,$(wildcard tests/*.c))
TEST_ARCHIVES = $(foreach f,$(TEST_FOLDERS),$(B)/obj/$(f)/all.a)
TEST_PROGRAMS := $(B)/bench/pingpong

test_programs = $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/$(1)/*.c))
TESTS_unit := $(call test_programs,unit)
TESTS_hostile := $(call test_programs,hostile)
TESTS_house := $(wildcard tests/house/*.sh)
TESTS_preload := $(wildcard tests/preload/*.sh)
TESTS_random := $(wildcard tests/random/*.sh)
TESTS_restart := $(wildcard tests/restart/*.sh)
TESTS_jobs := $(filter-out %/common.sh,$(wildcard tests/jobs/*.sh))
TESTS_cluster := $(wildcard tests/cluster/*.sh)
TESTS_apps := $(wildcard tests/apps/*.sh)
TESTS_stress := $(wildcard tests/stress/*.sh)
TESTS_linked := $(TESTS_unit) $(TESTS_hostile)
TESTS_fuzz := $(patsubst tests/%.c,$(FUZZ_B)/tests/%,$(wildcard tests/fuzz/*.c))
include $(wildcard tests/*/rules.mk)

$(B)/obj/%/all.a: $$(call objects,$$(filter-out %/main.c,$$(wildcard $$*/*.c)))
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $(filter %.o,$^)
$(B)/obj/psid/wire/all.a: $$(WIRE_OBJ) $$(PEER_OBJ)
$(B)/obj/keeper/common/all.a: $$(JOB_OBJ)

link_test = $(CC) $(LINK) $(SANFLAGS) $(1) -o $@ $(filter %.o,$^) \
	-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(TEST_LIBS)

$(TESTS_linked): $(B)/tests/%: $(B)/obj/tests/%.o $$(TEST_SUPPORT) $$(TEST_ARCHIVES)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(call link_test)

$(TESTS_fuzz): $(FUZZ_B)/tests/%: $(FUZZ_B)/obj/tests/%.o $$(TEST_ARCHIVES)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(call link_test,-fsanitize=fuzzer)

# What the thread sanitizer (SAN=thread) plays: programs with several threads in one process, none of which forks while another runs, for
# such a child it takes no notice of, and none that has a signal come at an instruction, for it puts handlers off. Threads of one process
# are all that it compares: it follows locks in shared memory, as they are atomic operations, but
# neither fences nor what another process reads and writes there (base/races.h). tests/unit/tcp_return would take minutes, hal_tcp and
# native_tag_pull half of one.
TESTS_threads := $(addprefix $(B)/tests/unit/,kernel_wait loop_wait native_attach native_errors native_failures native_guest_calls native_move_psid \
	native_ops native_protocol native_sem native_tag_ends native_thread preload_epoll_once preload_epoll_sleep preload_nested \
	preload_order preload_passing preload_poll preload_table psid_parts shm_board stream_peer stream_state tcp_end tcp_queue tcp_reset tcp_switch \
	tools_query udp_mark udp_send)

.PHONY: tests tests-san fuzz-programs
tests: $(foreach s,$(TEST_SUITES),$(filter $(B)/%,$(TESTS_$(s)))) $$(TEST_PROGRAMS)
tests-san: $(if $(filter thread,$(SAN)),$(B)/bin/psid $(TESTS_threads),$(ALL) $(TESTS_linked) $(TESTS_steps))
fuzz-programs: $(TESTS_fuzz)

CHECK_STRESS = stress: $(TESTS_stress)

in_san = $(patsubst $(B)/%,$(2)/%,$(1))
ADDRESS_B = $(if $(SAN),$(B),$(SAN_B))
CHECK_ADDRESS_SUITES = san-unit: $(call in_san,$(TESTS_unit),$(ADDRESS_B)) san-hostile: $(call in_san,$(TESTS_hostile),$(ADDRESS_B)) \
	san-steps: $(call in_san,$(TESTS_steps),$(ADDRESS_B))
CHECK_THREAD_SUITES = san-threads: $(call in_san,$(TESTS_threads),$(SAN_THREAD_B))
CHECK_SAN_SUITES = $(if $(filter thread,$(SAN)),$(CHECK_THREAD_SUITES),$(CHECK_ADDRESS_SUITES))
CHECK_FUZZ_SUITES = fuzz: $(TESTS_fuzz)
CHECK_SUITES = $(foreach s,$(TEST_SUITES),$(s): $(TESTS_$(s))) $(CHECK_ADDRESS_SUITES) $(CHECK_THREAD_SUITES) $(CHECK_FUZZ_SUITES)

# The commands' own units.
$(filter $(B)/tests/unit/tools_%,$(TESTS_unit)): $(B)/obj/tools/pulcctl/all.a $(B)/obj/tools/shared/all.a
