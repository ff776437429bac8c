# What `make check-boot` runs in machines of its own: no part of `make check`, for it needs debootstrap and a mirror.
TESTS_boot := $(wildcard tests/boot/*.sh)
CHECK_BOOT = boot: $(TESTS_boot)

# The job that runs in them.
$(B)/tests/boot/reduce: tests/boot/reduce.c
	@mkdir -p $(@D)
	@echo '  LD  $@'
	mpicc.mpich $(CFLAGS) -o $@ $<
