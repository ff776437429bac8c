# The socket shim. Its tables and its export map are made from symbols.def.
PRELOAD_SRC := $(wildcard preload/*.c)
PRELOAD_MAP := $(B)/gen/preload.map
PRELOAD_OBJ = $(call objects,$(PRELOAD_SRC))
ALL += $(B)/lib/libpulc-preload.so

$(PRELOAD_MAP): preload/symbols.def preload/gen-map.sh
	@mkdir -p $(@D)
	sh preload/gen-map.sh preload/symbols.def >$@

$(B)/lib/libpulc-preload.so: $$(PRELOAD_OBJ) $(PRELOAD_MAP) $(B)/lib/libpulc.so
	@mkdir -p $(@D)
	$(CC) -shared $(LINK_LTO) $(SANFLAGS) -Wl,-rpath,'$$ORIGIN' -Wl,--version-script=$(PRELOAD_MAP) \
		-Wl,-soname,libpulc-preload.so -o $@ $(filter %.o,$^) -L$(B)/lib -lpulc -pthread

.PHONY: preload/check-symbols
preload/check-symbols: $(B)/lib/libpulc-preload.so ## compare the shim's symbols with symbols.def
	sh preload/check-symbols.sh $< $(PRELOAD_MAP) $(PRELOAD_OBJ)

# The shim's own tests are linked with its objects, on a fake libpulc (tests/unit/preload_fake.h).
PRELOAD_TESTS := $(patsubst %.c,%,$(notdir $(wildcard tests/unit/preload_*.c)))
$(PRELOAD_TESTS:%=$(B)/tests/unit/%): $$(PRELOAD_OBJ)
$(PRELOAD_TESTS:%=$(B)/obj/tests/unit/%.o): CPPFLAGS += -iquotepreload

.PHONY: preload/coverage
preload/coverage: ## make docs/coverage.md from symbols.def
	sh preload/gen-coverage.sh preload/symbols.def >docs/coverage.md
