# The catalogue of behaviours: one program that plays any case, run by run-catalogue.
# It is an unmodified program to the shim: it links nothing of PULC and carries no sanitizer.
CATALOGUE_SRC := $(wildcard tests/preload/*.c)
TEST_PROGRAMS += $(B)/tests/preload/catalogue

$(B)/tests/preload/catalogue: $$(call objects,$$(CATALOGUE_SRC))
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ $^ -luring -pthread -ldl

# A library of somebody else's, to be preloaded before and behind the shim.
TEST_PROGRAMS += $(B)/tests/preload/chain.so

$(B)/tests/preload/chain.so: $(B)/obj/tests/preload/chain/chain.o
	@mkdir -p $(@D)
	$(CC) -shared $(LINK) -o $@ $^ -ldl
$(B)/obj/tests/preload/chain/chain.o: STD := $(filter-out -fvisibility=hidden,$(STD))

# Holds processes of a case at a chosen system call.
TEST_PROGRAMS += $(B)/tests/preload/starve

$(B)/tests/preload/starve: $(B)/obj/tests/preload/starve/starve.o
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^

# Libraries that the cases load.
LOADED_LIBRARIES := $(patsubst tests/preload/loaded/%.c,$(B)/tests/preload/%.so,$(wildcard tests/preload/loaded/*.c))
TEST_PROGRAMS += $(LOADED_LIBRARIES)

$(LOADED_LIBRARIES): $(B)/tests/preload/%.so: $(B)/obj/tests/preload/loaded/%.o
	@mkdir -p $(@D)
	$(CC) -shared $(LINK) -Wl,-z,lazy -o $@ $^
$(LOADED_LIBRARIES:$(B)/tests/preload/%.so=$(B)/obj/tests/preload/loaded/%.o): STD := $(filter-out -fvisibility=hidden -fno-plt,$(STD))
