# Random sequences: one program that draws and plays them, run by run-random. It is an unmodified program to the shim.
RANDOM_SRC := $(wildcard tests/random/*.c)
TEST_PROGRAMS += $(B)/tests/random/sequence

$(B)/tests/random/sequence: $$(call objects,$$(RANDOM_SRC))
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^
