/*
 * A psid without descriptors could not receive the sockets that its clients send: the kernel would
 * drop them on the way (MSG_CTRUNC), the message would look malformed, and the last close of a
 * foreign socket, which may block, would happen in psid's loop. So some are kept free.
 *
 * The kernel gives out the lowest free number, so numbers tell: whoever gets one of the last R
 * knows that everything below is taken. What psid keeps for long (clients, memory, bells, letters)
 * must have a number below the reserve; what it holds for a moment (sockets in a hand-over,
 * descriptors under way to a helper that closes them) may have any. Clients stop coming in one
 * reserve earlier, for each brings memory and connections along.
 *
 * R is an eighth of the limit, which is read anew each time: an administrator may change it
 * (prlimit). Of one user's foreign descriptors half of R may wait to be closed, and never more than
 * N_FOREIGN_MAX.
 */
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"

#define RESERVE_MAX 16384u
#define N_FOREIGN_MAX 1024u

static unsigned limit(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_NOFILE, &l) == 0 ? (unsigned)MIN(l.rlim_cur, 1u << 30) : 0;
}

static unsigned reserve_of(unsigned n)
{
	return MIN(n / 8, RESERVE_MAX);
}

bool psid_descriptors_admit(int open_fd)
{
	unsigned n = limit();
	CLEANUP_FD int lowest = raw_fcntl(open_fd, F_DUPFD_CLOEXEC, 0);

	return lowest >= 0 && (unsigned)lowest < n - 2 * reserve_of(n);
}

bool psid_descriptor_is_reserve(int fd)
{
	unsigned n = limit();

	return fd >= 0 && (unsigned)fd >= n - reserve_of(n);
}

unsigned psid_descriptors_foreign(void)
{
	return MIN(N_FOREIGN_MAX, MAX(1u, reserve_of(limit()) / 2));
}

bool psid_is_shortage(int e)
{
	return e == EMFILE || e == ENFILE || e == ENOBUFS || e == ENOMEM;
}
