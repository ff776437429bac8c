# The stress programs, run by run-stress: unmodified programs to the shim, like the catalogue.
STRESS_SRC := $(wildcard tests/stress/*.c)
TEST_PROGRAMS += $(B)/tests/stress/stress

$(B)/tests/stress/stress: $$(call objects,$$(STRESS_SRC))
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^ -pthread
