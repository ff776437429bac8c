# The socket shim. Its tables and the list of its exports are made from symbols.def.
PRELOAD_SRC := $(wildcard preload/*.c)
PRELOAD_EXPORTS := $(B)/gen/preload.exports
PRELOAD_OBJ = $(call objects,$(PRELOAD_SRC))
ALL += $(B)/lib/libpulc-preload.so

$(PRELOAD_EXPORTS): preload/symbols.def preload/gen-exports.sh
	@mkdir -p $(@D)
	sh preload/gen-exports.sh preload/symbols.def >$@

# libpulc's objects are in it, and it says that it is libpulc: one library, where each costs every fork four mappings and a few
# pages, and a program that is linked with libpulc finds it loaded already.
$(B)/lib/libpulc-preload.so: $$(PRELOAD_OBJ) $$(LIBPULC_OBJ) preload/preload.map $(PRELOAD_EXPORTS)
	@mkdir -p $(@D)
	$(CC) -shared $(LINK_LTO) $(SANFLAGS) -Wl,-soname,libpulc.so.0 -Wl,--version-script=preload/preload.map \
		-o $@ -Wl,--exclude-libs,ALL $(filter %.o,$^) -l:libprotobuf-c.a -pthread

.PHONY: preload/check-symbols
preload/check-symbols: $(B)/lib/libpulc-preload.so $(B)/lib/libpulc.so ## compare the shim's symbols with symbols.def
	sh preload/check-symbols.sh $< $(B)/lib/libpulc.so $(PRELOAD_EXPORTS) $(PRELOAD_OBJ)

# The shim's own tests are linked with its objects, on a fake libpulc (tests/unit/preload_fake.h).
PRELOAD_TESTS := $(patsubst %.c,%,$(notdir $(wildcard tests/unit/preload_*.c)))
$(PRELOAD_TESTS:%=$(B)/tests/unit/%): $$(PRELOAD_OBJ)
$(PRELOAD_TESTS:%=$(B)/obj/tests/unit/%.o): CPPFLAGS += -iquotepreload

.PHONY: preload/coverage
preload/coverage: ## make docs/coverage.md from symbols.def
	sh preload/gen-coverage.sh preload/symbols.def >docs/coverage.md
