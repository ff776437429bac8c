# Programs of a page each that use the native interface; the tests run them.
EXAMPLES := $(patsubst examples/%.c,$(B)/examples/%,$(wildcard examples/*.c))
TEST_PROGRAMS += $(EXAMPLES)

$(EXAMPLES): $(B)/examples/%: examples/%.c $(B)/lib/libpulc.so
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) -std=c11 -D_POSIX_C_SOURCE=200809L $(CFLAGS) $(WARN) $(SANFLAGS) -Iinclude $< -o $@ -L$(B)/lib -lpulc -Wl,-rpath,$(abspath $(B)/lib)

INSTALL += $(foreach e,$(wildcard examples/*.c),$(e):share/doc/pulc/examples/$(notdir $(e)):644)
