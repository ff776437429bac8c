/*
 * What stands beside sockets: an eventfd, which is the kernel's alone, in the same polls and sets;
 * questions about readiness that few programs ask; and descriptors that are handled by their
 * numbers.
 */
#include "call.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <unistd.h>

/* bell slot: an eventfd */
static void call_bell(struct call *call)
{
	int fd = eventfd(0, EFD_NONBLOCK);

	answer(call, fd < 0 ? " -1" : " 0");
	slot_put(call, call->slot, fd, KIND_BELL);
}

static void call_toll(struct call *call)
{
	uint64_t one = 1;

	RESULT(call, write(call->fd, &one, sizeof(one)));
}

static void call_hush(struct call *call)
{
	uint64_t n = 0;

	if (call->slot < 0 || call->table->kinds[call->slot] != KIND_BELL)
		return;
	if (RESULT(call, read(call->fd, &n, sizeof(n))) > 0)
		answer(call, ", %lu", (unsigned long)n);
}

/* twice slot slot: several times the same, for other events, and one that is none */
static void call_twice(struct call *call)
{
	int other = fd_of(call, call->words[2]);
	struct pollfd pfds[] = { { .fd = call->fd, .events = POLLIN },
				 { .fd = -1, .events = POLLIN },
				 { .fd = other, .events = POLLIN | POLLRDHUP },
				 { .fd = call->fd, .events = POLLOUT },
				 { .fd = call->fd },
				 { .fd = other, .events = POLLRDNORM | POLLWRNORM } };
	nfds_t n = sizeof(pfds) / sizeof(pfds[0]);

	RESULT(call, poll(pfds, n, 0));
	for (nfds_t i = 0; i < n; i++) {
		answer(call, ",");
		answer_bits(call, WORDS_POLL, (unsigned short)pfds[i].revents);
	}
}

static void tell_events(struct call *call, const struct epoll_event *event, long n)
{
	if (n > 0)
		answer_bits(call, WORDS_EPOLL, event->events);
}

/* The set of one member that this question makes, and closes again. */
static void ask_own_set(struct call *call, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (RESULT(call, epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) == 0)
		tell_events(call, &event, RESULT(call, epoll_wait(set, &event, 1, 0)));
	close(set);
}

/* wonder slot N: with what makes no sense as a limit, a size, an operation */
static void call_wonder(struct call *call)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct pollfd pfd = { .fd = call->fd, .events = POLLIN };
	int fd = call->fd;
	fd_set set;

	FD_ZERO(&set);
	if (fd >= 0)
		FD_SET(fd, &set);
	switch (number_of(call->words[2])) {
	case 0:
		RESULT(call, epoll_wait(fd, &event, 0, 0));
		break;
	case 1:
		RESULT(call, epoll_ctl(fd, EPOLL_CTL_ADD, fd, &event));
		break;
	case 2:
		RESULT(call, epoll_ctl(fd, 77, fd, &event));
		break;
	case 3:
		RESULT(call, select(-1, &set, NULL, NULL, &(struct timeval){ 0 }));
		break;
	case 4:
		RESULT(call, select(fd + 1, &set, NULL, NULL, &(struct timeval){ .tv_sec = -1 }));
		break;
	case 5:
		RESULT(call, ppoll(&pfd, 1, &(struct timespec){ .tv_nsec = -1 }, NULL));
		break;
	case 6:
		RESULT(call, pselect(fd + 1, &set, NULL, NULL,
				     &(struct timespec){ .tv_nsec = 1000000000 }, NULL));
		break;
	case 7:
		RESULT(call, epoll_pwait2(fd, &event, 1, &(struct timespec){ 0 }, NULL));
		break;
	case 8:
		RESULT(call,
		       epoll_pwait2(fd, &event, 1, &(struct timespec){ .tv_nsec = -1 }, NULL));
		break;
	case 9:
		RESULT(call, select(fd + 1, NULL, &set, NULL, &(struct timeval){ 0 }));
		break;
	default:
		ask_own_set(call, fd);
		break;
	}
}

/* switch slot N: what fcntl mostly does, by ioctl */
static void call_switch(struct call *call)
{
	int is_on = call->words[2][0] == '1';

	switch (number_of(call->words[2])) {
	case 0:
	case 1:
		RESULT(call, ioctl(call->fd, FIONBIO, &is_on));
		break;
	case 2:
		RESULT(call, ioctl(call->fd, FIOCLEX));
		break;
	case 3:
		RESULT(call, ioctl(call->fd, FIONCLEX));
		break;
	case 4:
		RESULT(call, fcntl(call->fd, F_GETFD));
		break;
	case 5:
		RESULT(call, ioctl(call->fd, 0x4242, NULL));
		break;
	case 6:
		RESULT(call, fcntl(call->fd, F_SETFL, fcntl(call->fd, F_GETFL)));
		break;
	case 7:
		RESULT(call, fcntl(call->fd, F_GETOWN));
		break;
	case 8:
		RESULT(call,
		       close_range((unsigned)call->fd, (unsigned)call->fd, CLOSE_RANGE_CLOEXEC));
		break;
	default:
		RESULT(call, close_range((unsigned)call->fd, (unsigned)call->fd, 77));
		break;
	}
}

/* copy slot SLOT N: where that is empty, by fcntl; else dup3 */
static void call_copy(struct call *call)
{
	int slot = slot_of(call->words[2]), old = fd_of(call, call->words[2]), fd;
	bool is_closed_by_exec = number_of(call->words[3]) != 0;

	if (slot < 0 || old == call->fd)
		return;
	if (old >= 0 && call->fd >= 0)
		leave_sets(call, old);
	errno = ERRNO_UNTOUCHED;
	if (old >= 0)
		fd = dup3(call->fd, old, is_closed_by_exec ? O_CLOEXEC : 0);
	else
		fd = fcntl(call->fd, is_closed_by_exec ? F_DUPFD_CLOEXEC : F_DUPFD, 20);
	answer_result(call, fd < 0 ? fd : 0);
	if (fd >= 0) {
		call->table->fds[slot] = fd;
		call->table->kinds[slot] = call->table->kinds[call->slot];
	}
}

/* sweep slot: closed by close_range */
static void call_sweep(struct call *call)
{
	if (call->fd < 0)
		return;
	leave_sets(call, call->fd);
	RESULT(call, close_range((unsigned)call->fd, (unsigned)call->fd, 0));
	call->table->fds[call->slot] = -1;
	call->table->kinds[call->slot] = KIND_NONE;
}

const struct verb verbs_beside[] = {
	{ "bell", call_bell },	 { "toll", call_toll },	    { "hush", call_hush },
	{ "twice", call_twice }, { "wonder", call_wonder }, { "switch", call_switch },
	{ "copy", call_copy },	 { "sweep", call_sweep },   { NULL, NULL },
};
