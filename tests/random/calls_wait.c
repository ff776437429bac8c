/*
 * The calls that say which descriptors are ready: poll, select, epoll.
 *
 * The order in which one answer names several descriptors is nobody's promise
 * (docs/differences.md): answers are shown in the order of letters, and there is always room for
 * all of them. A limit in time is 0, a few milliseconds, or none.
 */
#include "call.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>

#define N_EVENTS 32

static int limit_word(struct call *call, unsigned i)
{
	int msec = (int)number_of(call->words[i]);

	call->player->may_sleep = msec < 0;
	return msec;
}

/* poll msec slots events: slots is a word of letters */
static void call_poll(struct call *call)
{
	int msec = limit_word(call, 1);
	const char *letters = call->words[2];
	struct pollfd pfds[N_WORDS];
	nfds_t n = 0;

	for (; n < N_WORDS && letters[n]; n++)
		pfds[n] = (struct pollfd){ .fd = fd_of(call, (char[]){ letters[n], '\0' }),
					   .events = (short)bits_of(WORDS_POLL, call->words[3]) };
	if (RESULT(call, poll(pfds, n, msec)) <= 0)
		return;
	for (nfds_t i = 0; i < n; i++)
		if (pfds[i].revents) {
			answer(call, ", %c", letters[i]);
			answer_bits(call, WORDS_POLL, (unsigned short)pfds[i].revents);
		}
}

/* select msec slots: for reading, writing and exceptions */
static void call_select(struct call *call)
{
	int msec = limit_word(call, 1), highest = -1;
	struct timeval limit = { .tv_sec = msec / 1000, .tv_usec = msec % 1000 * 1000 };
	const char *sets_word = call->words[3];
	fd_set sets[3];

	for (unsigned s = 0; s < 3; s++)
		FD_ZERO(&sets[s]);
	for (const char *letter = call->words[2]; *letter; letter++) {
		int fd = fd_of(call, (char[]){ *letter, '\0' });

		for (unsigned s = 0; fd >= 0 && s < 3; s++)
			if (bits_of(WORDS_POLL, sets_word) &
			    (unsigned[]){ POLLIN, POLLOUT, POLLPRI }[s])
				FD_SET(fd, &sets[s]);
		highest = fd > highest ? fd : highest;
	}
	if (RESULT(call, select(highest + 1, &sets[0], &sets[1], &sets[2],
				msec < 0 ? NULL : &limit)) <= 0)
		return;
	for (const char *letter = call->words[2]; *letter; letter++) {
		int fd = fd_of(call, (char[]){ *letter, '\0' });

		for (unsigned s = 0; fd >= 0 && s < 3; s++)
			if (FD_ISSET(fd, &sets[s]))
				answer(call, ", %c %s", *letter,
				       (const char *[]){ "IN", "OUT", "PRI" }[s]);
	}
}

static void call_epoll(struct call *call)
{
	int fd = epoll_create1(0);

	answer(call, fd < 0 ? " -1" : " 0");
	slot_put(call, call->slot, fd, KIND_EPOLL);
}

static void control(struct call *call, int what)
{
	struct epoll_event event = { .events = bits_of(WORDS_EPOLL, call->words[3]),
				     .data.u32 = (uint32_t)(unsigned char)call->words[2][0] };

	RESULT(call, epoll_ctl(call->fd, what, fd_of(call, call->words[2]), &event));
}

/* epoll_add slot member events */
static void call_epoll_add(struct call *call)
{
	control(call, EPOLL_CTL_ADD);
}

static void call_epoll_mod(struct call *call)
{
	control(call, EPOLL_CTL_MOD);
}

static void call_epoll_del(struct call *call)
{
	control(call, EPOLL_CTL_DEL);
}

static int by_letter(const void *a, const void *b)
{
	const struct epoll_event *first = a, *second = b;

	return (int)first->data.u32 - (int)second->data.u32;
}

/* epoll_wait slot msec */
static void call_epoll_wait(struct call *call)
{
	struct epoll_event events[N_EVENTS];
	int msec = limit_word(call, 2);
	long n = RESULT(call, epoll_wait(call->fd, events, N_EVENTS, msec));

	if (n > 0)
		qsort(events, (size_t)n, sizeof(events[0]), by_letter);
	for (long i = 0; i < n; i++) {
		answer(call, ", %c", (char)events[i].data.u32);
		answer_bits(call, WORDS_EPOLL, events[i].events);
	}
}

/* masked_ppoll slot, masked_pselect, masked_epoll: for reading, without waiting, while a signal is
 * held back that only the call's own mask lets in */
static void with_signal(struct call *call, int (*ask)(struct call *call, const sigset_t *mask))
{
	sigset_t one, before;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, &before);
	pthread_kill(pthread_self(), SIGUSR1);
	RESULT(call, ask(call, &before));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int ask_ppoll(struct call *call, const sigset_t *mask)
{
	struct pollfd pfd = { .fd = call->fd, .events = POLLIN };

	return ppoll(&pfd, 1, &(struct timespec){ 0 }, mask);
}

static int ask_pselect(struct call *call, const sigset_t *mask)
{
	fd_set set;

	FD_ZERO(&set);
	if (call->fd >= 0)
		FD_SET(call->fd, &set);
	return pselect(call->fd + 1, &set, NULL, NULL, &(struct timespec){ 0 }, mask);
}

static int ask_epoll(struct call *call, const sigset_t *mask)
{
	struct epoll_event events[N_EVENTS];

	return epoll_pwait(call->fd, events, N_EVENTS, 0, mask);
}

static void call_masked_ppoll(struct call *call)
{
	with_signal(call, ask_ppoll);
}

static void call_masked_pselect(struct call *call)
{
	with_signal(call, ask_pselect);
}

static void call_masked_epoll(struct call *call)
{
	with_signal(call, ask_epoll);
}

const struct verb verbs_wait[] = {
	{ "poll", call_poll },
	{ "select", call_select },
	{ "epoll", call_epoll },
	{ "epoll_add", call_epoll_add },
	{ "epoll_mod", call_epoll_mod },
	{ "epoll_del", call_epoll_del },
	{ "epoll_wait", call_epoll_wait },
	{ "masked_ppoll", call_masked_ppoll },
	{ "masked_pselect", call_masked_pselect },
	{ "masked_epoll", call_masked_epoll },
	{ NULL, NULL },
};
