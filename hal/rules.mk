# The way over io_uring is one object with what it needs of liburing inside, whose names nobody else sees: in the shim they would be its
# wrappers', for rings of the program.
HAL_SRC := $(filter-out hal/tcp_uring.c,$(wildcard hal/*.c))
HAL_URING := $(B)/obj/hal/tcp_uring_whole.o

$(B)/obj/hal/tcp_uring.o: LTO :=
$(HAL_URING): $(B)/obj/hal/tcp_uring.o
	$(CC) -r -nostdlib -o $@.all $< -l:liburing.a
	objcopy --keep-global-symbol=tcp_uring_start $@.all $@
	rm -f $@.all
