# Processes killed at named points (base/step.h). The points are there only in builds for tests, so these run under the sanitizers.
TESTS_steps := $(patsubst tests/%.c,$(B)/tests/%,$(filter-out tests/steps/walk.c,$(wildcard tests/steps/*.c)))

$(TESTS_steps): $(B)/tests/%: $(B)/obj/tests/%.o $(B)/obj/tests/steps/walk.o $$(call objects,$$(wildcard tests/psid/*.c)) \
	$$(TEST_SUPPORT) $$(TEST_ARCHIVES) | $(B)/bin/psid
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(call link_test)
