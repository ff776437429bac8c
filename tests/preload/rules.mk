# The catalogue of behaviours: one program that plays any case, run by run-catalogue.
# It is an unmodified program to the shim: it links nothing of PULC and carries no sanitizer.
CATALOGUE_SRC := $(wildcard tests/preload/*.c)
TEST_PROGRAMS += $(B)/tests/preload/catalogue

$(B)/tests/preload/catalogue: $$(call objects,$$(CATALOGUE_SRC))
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^ -pthread
