/*
 * select and pselect, made from poll.c's wait.
 *
 * The sets become a list; the answers become sets again by the kernel's own rules: an error makes a
 * descriptor readable and writable, a hang-up readable only. A wait that ended with nothing that
 * the program asked for goes on without the descriptor that ended it. As on Linux, select writes
 * the remaining time back.
 */
#include <string.h>
#include <sys/mman.h>

#include "file.h"
#include "polling.h"
#include "rawsys.h"
#include "symbols.h"
#include "wait.h"

#define FOR_IN (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define FOR_OUT (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define FOR_EXCEPT POLLPRI
#define BITS_PER_WORD (8 * sizeof(unsigned long))
/* Lists up to this size are kept on the stack. */
#define N_SMALL 64

struct sets {
	unsigned long *in, *out, *except;
	size_t n_words;
};

static bool has(const unsigned long *set, int fd)
{
	return set && (set[(size_t)fd / BITS_PER_WORD] >> ((size_t)fd % BITS_PER_WORD) & 1);
}

static void put(unsigned long *set, int fd)
{
	set[(size_t)fd / BITS_PER_WORD] |= 1ul << ((size_t)fd % BITS_PER_WORD);
}

static unsigned long word(const unsigned long *set, size_t i)
{
	return set ? set[i] : 0;
}

static nfds_t count_all(const struct sets *s)
{
	nfds_t n = 0;

	for (size_t i = 0; i < s->n_words; i++)
		n += (nfds_t)__builtin_popcountl(word(s->in, i) | word(s->out, i) |
						 word(s->except, i));
	return n;
}

static nfds_t list(const struct sets *s, int limit, struct pollfd *fds)
{
	unsigned long any;
	nfds_t n = 0;
	int fd;

	for (size_t i = 0; i < s->n_words; i++) {
		any = word(s->in, i) | word(s->out, i) | word(s->except, i);
		for (; any; any &= any - 1) {
			fd = (int)(i * BITS_PER_WORD) + __builtin_ctzl(any);
			if (fd >= limit)
				break;
			fds[n++] = (struct pollfd){
				.fd = fd,
				.events = (short)((has(s->in, fd) ? POLLIN | POLLRDNORM : 0) |
						  (has(s->out, fd) ? POLLOUT | POLLWRNORM : 0) |
						  (has(s->except, fd) ? POLLPRI : 0)),
			};
		}
	}
	return n;
}

/* What of revents the program asked for. list() has noted the sets in events. */
static short asked(const struct pollfd *pfd)
{
	return (short)((pfd->events & POLLIN ? pfd->revents & FOR_IN : 0) |
		       (pfd->events & POLLOUT ? pfd->revents & FOR_OUT : 0) |
		       (pfd->events & POLLPRI ? pfd->revents & FOR_EXCEPT : 0));
}

/* False: nothing of it was asked for; those that said so are left out from now on. -EBADF in
 * *ret. */
static bool settled(struct pollfd *fds, nfds_t n, int *ret)
{
	bool found = false;

	for (nfds_t i = 0; i < n; i++) {
		if (fds[i].fd < 0 || fds[i].revents == 0)
			continue;
		if (fds[i].revents & POLLNVAL)
			*ret = -EBADF;
		if ((fds[i].revents & POLLNVAL) || asked(&fds[i]))
			found = true;
		else
			fds[i] = (struct pollfd){ .fd = -1 };
	}
	return found;
}

/* Makes one set of the answers; their number. */
static int write_set(unsigned long *set, size_t n_words, const struct pollfd *fds, nfds_t n,
		     short wanted, short ready)
{
	int total = 0;

	if (!set)
		return 0;
	memset(set, 0, n_words * sizeof(unsigned long));
	for (nfds_t i = 0; i < n; i++) {
		if (fds[i].fd >= 0 && (fds[i].events & wanted) && (fds[i].revents & ready)) {
			put(set, fds[i].fd);
			total++;
		}
	}
	return total;
}

static int write_back(const struct sets *s, const struct pollfd *fds, nfds_t n)
{
	return write_set(s->in, s->n_words, fds, n, POLLIN, FOR_IN) +
	       write_set(s->out, s->n_words, fds, n, POLLOUT, FOR_OUT) +
	       write_set(s->except, s->n_words, fds, n, POLLPRI, FOR_EXCEPT);
}

static int wait_for_sets(const struct sets *s, struct pollfd *fds, nfds_t n, uint64_t deadline,
			 const sigset_t *mask)
{
	int ret;

	do {
		ret = pre_poll_select(fds, n, deadline, mask);
		if (ret < 0)
			return ret;
	} while (ret > 0 && !settled(fds, n, &ret));
	if (ret < 0)
		return ret;
	return write_back(s, fds, n);
}

struct call {
	struct sets sets;
	int limit; /* descriptors from here on are none of the call's */
	uint64_t deadline;
	const sigset_t *mask;
	bool looked; /* the program's time has gone on; signals may be held back */
	struct pre_signals signals;
};

/* The kernel's descriptors alone: looks before libc's own call. False: an answer in *ret; what was
 * found that call says itself. */
static bool look_ahead(struct call *c, struct pollfd *fds, nfds_t n, int *ret)
{
	struct pre_poll_list list = { fds, n, c->deadline, c->mask };

	if (c->deadline == 0 || !pre_poll_begins_ahead(fds, n))
		return true;
	c->looked = true;
	*ret = pre_poll_look_ahead(&list, &c->signals);
	return *ret >= 0;
}

/* Runs the wait if a stream is among the descriptors. False: libc's own call is to be made. */
static bool run(struct call *c, int *ret)
{
	const struct sets *s = &c->sets;
	struct pollfd small[N_SMALL], *fds = small;
	nfds_t n = count_all(s);
	size_t size = n * sizeof(struct pollfd);
	bool done;
	long made;

	if (n == 0)
		return false;
	if (n > N_SMALL) {
		made = raw_syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1);
		if (made < 0 && made > -4096)
			return false;
		fds = (struct pollfd *)made;
	}
	n = list(s, c->limit, fds);
	done = pre_poll_concerned(fds, n);
	if (done)
		*ret = wait_for_sets(s, fds, n, c->deadline, c->mask);
	else
		done = !look_ahead(c, fds, n, ret);
	if (fds != small)
		(void)raw_syscall(SYS_munmap, fds, size);
	return done;
}

static struct sets sets_of(int n, fd_set *in, fd_set *out, fd_set *except)
{
	return (struct sets){
		.in = (unsigned long *)in,
		.out = (unsigned long *)out,
		.except = (unsigned long *)except,
		.n_words = n > 0 ? ((size_t)n + BITS_PER_WORD - 1) / BITS_PER_WORD : 0,
	};
}

static void time_back(struct timeval *timeout, uint64_t deadline)
{
	uint64_t now = pre_now(), nsec = now < deadline ? deadline - now : 0;

	timeout->tv_sec = (time_t)(nsec / PRE_NSEC_PER_SEC);
	timeout->tv_usec = (suseconds_t)(nsec % PRE_NSEC_PER_SEC / PRE_NSEC_PER_USEC);
}

int pre_select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	struct call c = { sets_of(n, in, out, except), n, .deadline = PRE_FOREVER };
	struct timespec ts;
	int ret;

	if (n < 0 || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return (int)pre_sys(pre_real.select(n, in, out, except, timeout));
	if (timeout) {
		ts = (struct timespec){ timeout->tv_sec + timeout->tv_usec / 1000000,
					timeout->tv_usec % 1000000 * 1000 };
		c.deadline = pre_deadline(&ts);
	}
	if (!run(&c, &ret)) {
		if (timeout && c.looked)
			time_back(timeout, c.deadline);
		return (int)pre_sys(pre_real.select(n, in, out, except, timeout));
	}
	if (timeout)
		time_back(timeout, c.deadline);
	return ret;
}

int pre_pselect(int n, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
		const sigset_t *mask)
{
	struct call c = { sets_of(n, in, out, except), n, .mask = mask };
	struct timespec left;
	int ret;

	if (n < 0 || !pre_timeout_valid(timeout))
		return (int)pre_sys(pre_real.pselect(n, in, out, except, timeout, mask));
	c.deadline = pre_deadline(timeout);
	if (!run(&c, &ret)) {
		if (c.looked)
			timeout = pre_time_left(c.deadline, PRE_FOREVER, &left);
		ret = (int)pre_sys(pre_real.pselect(n, in, out, except, timeout, mask));
	}
	pre_signals_restore(&c.signals);
	return ret;
}
