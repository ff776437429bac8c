# psid: the daemon of a node.
PSID_SRC := $(wildcard psid/*.c psid/cluster/*.c psid/jobs/*.c psid/partition/*.c)
PSID_OBJ = $(call objects,$(PSID_SRC) $(BASE_SRC) $(SHM_SRC)) $(JOB_OBJ) $(WIRE_OBJ) $(VARIABLES_OBJ) $(FINGERPRINT_OBJ) $(PEER_OBJ)
PSID_LIBS := -luv -lprotobuf-c -lssl -lcrypto -pthread -ldl
ALL += $(B)/bin/psid

$(B)/bin/psid: $$(PSID_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) $(PSID_LIBS)

# What starts keepers for a psid that is itself confined.
STARTER_OBJ = $(call objects,$(wildcard psid/starter/*.c) psid/service.c psid/jobs/clone.c psid/jobs/cgroup_own.c keeper/common/packet.c)
ALL += $(B)/libexec/pulc/psid-starter
INSTALL += $(B)/libexec/pulc/psid-starter:libexec/pulc/psid-starter:755

$(B)/libexec/pulc/psid-starter: $$(STARTER_OBJ)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) -pie $(SANFLAGS) -o $@ $(filter %.o,$^)

# Its tests talk to a real psid through fake clients.
PSID_TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/unit/psid_*.c \
	tests/hostile/psid_*.c tests/hostile/client_*.c tests/hostile/shown_*.c tests/unit/stream_*.c tests/unit/client_*.c \
	tests/unit/native_*.c tests/hostile/native_*.c))
$(PSID_TESTS): $$(call objects,$$(wildcard tests/psid/*.c)) | $(B)/bin/psid
