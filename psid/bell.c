/*
 * A bell is an eventfd of a client's. write(2) to it blocks when its count is full, unless
 * O_NONBLOCK is set, and the client shares the open file: it can clear the flag between our
 * looking and our writing. So psid never writes to one. It asks the kernel to: an asynchronous
 * read of nothing, from a file of our own, with the bell as the eventfd that is told of the
 * completion. The kernel's own signalling saturates at a full count and never waits; what is not
 * an eventfd it refuses.
 *
 * Where the kernel has no asynchronous I/O psid can't ring; clients that lack a bell then find
 * out by themselves after their patience (docs/waiting.md).
 */
#include "bell.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "psid.h"

#define N_EVENTS 8

int psid_bell_start(struct psid *psid)
{
	CLEANUP_FD int fd = memfd_create("pulc-bell", MFD_CLOEXEC);
	aio_context_t context = 0;

	if (fd < 0)
		return -errno;
	if (raw_syscall(SYS_io_setup, N_EVENTS, &context, 0, 0, 0, 0) < 0)
		return -EOPNOTSUPP;
	psid->bell_context = context;
	psid->bell_fd = TAKE_FD(fd);
	return 0;
}

void psid_bell_stop(struct psid *psid)
{
	if (psid->bell_fd < 0)
		return;
	(void)raw_syscall(SYS_io_destroy, psid->bell_context, 0, 0, 0, 0, 0);
	psid->bell_fd = close_own(psid->bell_fd);
}

void psid_bell_strike(struct psid *psid, int bell)
{
	struct iocb request = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t)psid->bell_fd,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = (uint32_t)bell,
	};
	struct iocb *requests[] = { &request };
	struct io_event events[N_EVENTS];
	struct timespec now = { 0 };

	if (psid->bell_fd < 0)
		return;
	(void)raw_syscall(SYS_io_submit, psid->bell_context, 1, requests, 0, 0, 0);
	(void)raw_syscall(SYS_io_getevents, psid->bell_context, 0, N_EVENTS, events, &now, 0);
}

bool psid_bell_is(int fd)
{
	static const char name[] = "anon_inode:[eventfd]";
	char path[32], target[sizeof(name)];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target));
	return n == sizeof(name) - 1 && memcmp(target, name, sizeof(name) - 1) == 0;
}
