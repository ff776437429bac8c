/* As libuv looks to the shim: a library with this function in it that makes a ring of the kernel's
 * by syscall() (tests/preload/uring.c). */
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

int uv_loop_init(void *loop);
int uv_make_ring(unsigned n_entries);

int uv_loop_init(void *loop)
{
	(void)loop;
	return 0;
}

int uv_make_ring(unsigned n_entries)
{
	struct io_uring_params params = { 0 };

	return (int)syscall(SYS_io_uring_setup, n_entries, &params);
}
