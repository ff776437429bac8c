# Programs of the native suite, linked with the library as it is installed.
NATIVE_PROGRAMS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/native/*.c))
TEST_PROGRAMS += $(NATIVE_PROGRAMS)
TESTS_native := $(wildcard tests/native/*.sh)

$(NATIVE_PROGRAMS): $(B)/tests/native/%: tests/native/%.c $(B)/lib/libpulc.so
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) -Iinclude $< -o $@ -L$(B)/lib -lpulc -Wl,-rpath,$(abspath $(B)/lib)
