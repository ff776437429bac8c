# Programs written to pulc/job.h, linked as a user's are; spawn.sh runs them.
JOB_TESTS := $(B)/tests/jobs/spawn $(B)/tests/jobs/family
TEST_PROGRAMS += $(JOB_TESTS)

$(JOB_TESTS): $(B)/tests/jobs/%: $(B)/obj/tests/jobs/%.o $(B)/obj/tests/harness.o | $(B)/lib/libpulc.so
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) -L$(B)/lib -lpulc -Wl,-rpath,$(abspath $(B))/lib -lcunit -pthread

# What scope.sh has in place of systemd.
TEST_PROGRAMS += $(B)/tests/jobs/manager
$(B)/tests/jobs/manager: $(B)/obj/tests/jobs/manager.o
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) -lsystemd

# Names and meetings of PMIx, as one of its clients sees them.
TEST_PROGRAMS += $(B)/tests/jobs/published
$(B)/obj/tests/jobs/published.o: private CPPFLAGS += $(PMIX_INCLUDE)
$(B)/tests/jobs/published: $(B)/obj/tests/jobs/published.o
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) $$(pkg-config --libs pmix) -pthread
