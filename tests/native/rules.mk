# Programs of the native suite, linked with the library as it is installed.
NATIVE_PROGRAMS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/native/*.c))
TEST_PROGRAMS += $(NATIVE_PROGRAMS)
TESTS_native := $(wildcard tests/native/*.sh)

$(NATIVE_PROGRAMS): $(B)/tests/native/%: tests/native/%.c $(B)/lib/libpulc.so
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(STD) $(CFLAGS) $(WARN) $(SANFLAGS) -Iinclude $< -o $@ -L$(B)/lib -lpulc -Wl,-rpath,$(abspath $(B)/lib)

# The same programs over a transport that loses frames: linked with all of the library's objects, whose links of HAL shm come from lossy/.
LOSSY := $(addprefix $(B)/tests/native/lossy/,far together)
TEST_PROGRAMS += $(LOSSY)
LOSSY_LINK = $(foreach f,hal_shm_open hal_shm_share hal_repair_open,-Wl,--wrap=$(f)) \
	-Wl,--whole-archive $(B)/obj/libpulc/all.a -Wl,--no-whole-archive
$(LOSSY): $(B)/tests/native/lossy/%: $(B)/obj/tests/native/%.o $$(call objects,$$(wildcard tests/native/lossy/*.c)) $$(TEST_ARCHIVES)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(call link_test,$(LOSSY_LINK))
