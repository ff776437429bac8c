# The commands. Each is a folder of sources; both speak to psid through the wire schema only. What more than one of them needs is in
# tools/shared.
shared = $(call objects,$(1:%=tools/shared/%.c))
PULC_OBJ = $(call objects,$(wildcard tools/pulc/*.c)) $(call shared,daemon library program) $(WIRE_OBJ) $(VARIABLES_OBJ)
PULCCTL_OBJ = $(call objects,$(wildcard tools/pulcctl/*.c)) $(call shared,hosts json text) $(WIRE_OBJ) $(VARIABLES_OBJ) $(FINGERPRINT_OBJ)
PULCRUN_OBJ = $(call objects,$(wildcard tools/pulcrun/*.c tools/shared/*.c)) $(JOB_OBJ) $(WIRE_OBJ) $(VARIABLES_OBJ)
ALL += $(B)/bin/pulc $(B)/bin/pulcctl $(B)/bin/pulcrun

$(B)/obj/tools/shared/library.o: private CPPFLAGS += -DPULC_LIBDIR='"$(PREFIX)/lib"'

$(B)/bin/pulc: $$(PULC_OBJ)
$(B)/bin/pulcctl: $$(PULCCTL_OBJ)
$(B)/bin/pulcctl: private TOOL_LIBS := -lcrypto
$(B)/bin/pulc $(B)/bin/pulcctl:
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) -pie $(SANFLAGS) -o $@ $(filter %.o,$^) -lprotobuf-c $(TOOL_LIBS)

# The loader's work would be a good part of what a short job costs: there is none. The data bases of users and groups, which libuv could
# look into and nobody here asks for, need libraries at run time: they are left out.
PULCRUN_LINK := $(if $(SAN)$(FUZZ),-pie,-static-pie -Wl,--defsym=getpwuid_r=abort,--defsym=getgrgid_r=abort)

$(B)/bin/pulcrun: $$(PULCRUN_OBJ)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) $(PULCRUN_LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) $(if $(SAN)$(FUZZ),$(JOB_LIBS),$(LIBUV_A) -lprotobuf-c)

# What keeps a psid on a node of an allocation.
AGENT_OBJ = $(call objects,$(wildcard tools/agent/*.c)) $(call shared,library) $(WIRE_OBJ)
ALL += $(B)/libexec/pulc/agent
INSTALL += $(B)/libexec/pulc/agent:libexec/pulc/agent:755

$(B)/libexec/pulc/agent: $$(AGENT_OBJ)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) -pie $(SANFLAGS) -o $@ $(filter %.o,$^) -lprotobuf-c

# What the demo runs besides programs of Debian's.
.PHONY: demo-programs
demo-programs: $(B)/bench/pingpong $(B)/bench/connects

INSTALL += $(foreach p,psid pulc pulcctl pulcrun,$(B)/bin/$(p):bin/$(p):755)
INSTALL += $(B)/lib/libpulc.so.0:lib/libpulc.so.0:755 libpulc.so.0:lib/libpulc.so:link
INSTALL += $(B)/lib/libpulc-preload.so:lib/libpulc-preload.so:755
INSTALL += $(foreach h,$(wildcard include/pulc/*.h),$(h):$(h):644)
INSTALL += $(B)/pulc.pc:lib/pkgconfig/pulc.pc:644
INSTALL += $(foreach f,$(wildcard psid/psid.conf),$(f):$(SYSCONFDIR)/pulc/psid.conf:config)
INSTALL += $(foreach p,psid pulc pulcctl pulcrun,tools/completions/bash/$(p):share/bash-completion/completions/$(p):644 \
	tools/completions/zsh/_$(p):share/zsh/site-functions/_$(p):644 \
	tools/completions/fish/$(p).fish:share/fish/vendor_completions.d/$(p).fish:644)

# What names the folders of the installation is made again when they change.
.PHONY: FORCE
$(B)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' > $@

ALL += $(B)/pulc.pc
fill_in = sed 's|@PREFIX@|$(PREFIX)|g; s|@VERSION@|$(VERSION)|g' $< > $@
$(B)/%: tools/%.in $(B)/prefix
	$(fill_in)
$(B)/%: systemd/%.in $(B)/prefix
	$(fill_in)
$(B)/obj/tools/shared/library.o: $(B)/prefix

# For tools/lint.sh: the flags that each folder is compiled with, a line each.
$(B)/flags: Makefile $(GENERATED)
	@mkdir -p $(@D)
	@printf '%s\n' $(foreach v,$(filter INC_%,$(.VARIABLES)),"$(v:INC_%=%): $(filter-out -DPULC_VERSION=%,$(STD)) $($(v))") > $@

$(B)/tests/unit/tools_hosts: $(call shared,hosts)
$(B)/tests/unit/tools_allocation: $(foreach f,allocation slurm,$(B)/obj/tools/pulcrun/$(f).o) $(call shared,hosts)
$(FUZZ_B)/tests/fuzz/hosts: $(FUZZ_B)/obj/tools/shared/hosts.o
