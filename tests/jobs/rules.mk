# A program written to pulc/job.h, linked as a user's is; spawn.sh runs it.
TEST_PROGRAMS += $(B)/tests/jobs/spawn

$(B)/tests/jobs/spawn: $(B)/obj/tests/jobs/spawn.o $(B)/obj/tests/harness.o | $(B)/lib/libpulc.so
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) -L$(B)/lib -lpulc -Wl,-rpath,$(abspath $(B))/lib -lcunit -pthread
