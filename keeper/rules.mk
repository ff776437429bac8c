# The keeper, and what it shares with pulcrun and psid: frames and their schema (keeper/common).
JOB_SRC := $(wildcard keeper/common/*.c)
JOB_GEN := $(B)/gen/job.pb-c.c
GENERATED += $(B)/gen/job.pb-c.h

$(B)/gen/job.pb-c.c $(B)/gen/job.pb-c.h: keeper/common/job.proto
	@mkdir -p $(@D)
	protoc --proto_path=keeper/common --c_out=$(B)/gen $<

.SECONDARY: $(B)/gen/job.pb-c.c $(B)/gen/job.pb-c.h

JOB_OBJ = $(call objects,$(JOB_SRC)) $(B)/obj/gen/job.pb-c.o
KEEPER_OBJ = $(call objects,$(wildcard keeper/*.c)) $(JOB_OBJ) $(WIRE_OBJ)
ALL += $(B)/libexec/pulc/keeper

# A job's start costs one exec of it: the two libraries are linked in, which spares the loader the time.
# How the static libuv is called differs from release to release.
LIBUV_A := $(filter -luv% -l:libuv%,$(shell pkg-config --libs libuv-static))
JOB_LIBS := -Wl,-Bstatic $(LIBUV_A) -lprotobuf-c -Wl,-Bdynamic -pthread -ldl

$(B)/libexec/pulc/keeper: $$(KEEPER_OBJ)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) -pie $(SANFLAGS) -o $@ $(filter %.o,$^) $(JOB_LIBS)

# TLS between keepers, loaded by those that need it.
ALL += $(B)/libexec/pulc/keeper-tls.so
$(B)/libexec/pulc/keeper-tls.so: $$(call objects,$$(wildcard keeper/tls/*.c))
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) -shared $(SANFLAGS) -o $@ $(filter %.o,$^) -lssl -lcrypto

INSTALL += $(B)/libexec/pulc/keeper-tls.so:libexec/pulc/keeper-tls.so:755

# The PMIx server of a job, the one program that libpmix is in.
PMIX_OBJ = $(call objects,$(wildcard keeper/pmix/*.c)) $(B)/obj/keeper/common/frame.o $(B)/obj/gen/job.pb-c.o
ALL += $(B)/libexec/pulc/keeper-pmix
PMIX_INCLUDE = $(shell pkg-config --cflags-only-I pmix | sed 's/-I/-isystem /g')
$(B)/obj/keeper/pmix/%.o: private CPPFLAGS += $(PMIX_INCLUDE)

$(B)/libexec/pulc/keeper-pmix: $$(PMIX_OBJ)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) -pie $(SANFLAGS) -o $@ $(filter %.o,$^) $$(pkg-config --libs pmix) -lprotobuf-c -pthread

INSTALL += $(B)/libexec/pulc/keeper-pmix:libexec/pulc/keeper-pmix:755
INSTALL += $(B)/libexec/pulc/keeper:libexec/pulc/keeper:755
