# What tools/check-suites.sh preloads before the shim in the surroundings "eager".
TEST_PROGRAMS += $(B)/tests/suites/eager.so

$(B)/tests/suites/eager.so: $(B)/obj/tests/suites/eager.o
	@mkdir -p $(@D)
	$(CC) -shared $(LINK) -o $@ $^ -ldl
$(B)/obj/tests/suites/eager.o: STD := $(filter-out -fvisibility=hidden,$(STD))
