/*
 * A descriptor for the program's own loop: an epoll set of the kernel's that holds what a sleeper
 * of ours would sleep on: the bell of a wait set, the channel to psid, the links to other nodes,
 * and a timer for peers who cannot ring that bell yet.
 *
 * Whoever sleeps on it arms first and disarms afterwards. Arming is the recipe of docs/waiting.md
 * with the program's own call in the place of ppoll: empty the bell, watch every link, say
 * "asleep", look once more. A frame that comes before the look is seen by it; one that comes after
 * it finds the watch, and rings. Between two arms the count of events tells whether anything has
 * happened that the program may not have looked at, also in other threads.
 *
 * One loop of the process uses it. A forked child makes its own.
 *
 * Source: pulc-1998, 4.7 (blocking in the kernel together with its descriptors).
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <pulc/fds.h>

#include "clock.h"
#include "native.h"
#include "private.h"
#include "rawsys.h"

static int epoll_fd = -1; /* the program knows it: its number is an ordinary one */
static int timer = -1;
static bool timer_set;
static bool armed;
static pulc_waitset *set; /* NULL: there is none to be had */

static int watch_fd(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int e;

	if (fd < 0)
		return 0;
	e = (int)raw_syscall(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_ADD, fd, &event, 0, 0);
	return e == -EEXIST ? 0 : e;
}

/* One that peers of the present psid know. */
static int renew_set(void)
{
	if (set && pulc_waitset_alive(set))
		return 0;
	set = pulc_waitset_free(set);
	if (pulc_waitset_new(&set) < 0)
		return 0;
	return watch_fd(pulc_waitset_fd(set));
}

static int make_timer(void)
{
	timer = (int)raw_syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC, 0,
				 0, 0, 0);
	return timer < 0 ? timer : pulc_fd_adopt(&timer);
}

static int make(void)
{
	int e = make_timer();

	if (e < 0)
		return e;
	epoll_fd = (int)raw_syscall(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0);
	e = epoll_fd < 0 ? epoll_fd : watch_fd(timer);
	if (e == 0)
		e = renew_set();
	if (e == 0)
		return 0;
	pulc_fd_release(&timer);
	if (epoll_fd >= 0)
		(void)raw_syscall(SYS_close, epoll_fd, 0, 0, 0, 0, 0);
	epoll_fd = -1;
	return e;
}

PULC_EXPORT int pulc_fd(void)
{
	int e;

	if (!native_lock())
		return -EDEADLK;
	e = native_attach();
	if (e == 0 && epoll_fd < 0)
		e = make();
	if (e == 0)
		e = epoll_fd;
	native_unlock();
	return e;
}

static int set_timer(uint64_t nsec)
{
	struct itimerspec at = { .it_value = timespec_from_nsec(nsec) };

	if (nsec == 0 && !timer_set)
		return 0;
	timer_set = nsec != 0;
	return (int)raw_syscall(SYS_timerfd_settime, timer, 0, &at, NULL, 0, 0);
}

static void disarm(void)
{
	if (armed && set)
		native_unwatch(set);
	armed = false;
}

/* Under the lock: takes what has come. 0; 1: something has happened since *seen. */
static int look(uint64_t *seen)
{
	int e = epoll_fd < 0 ? -EBADF : renew_set();
	bool changed;

	if (e < 0)
		return e;
	native_progress();
	changed = *seen != protocol_events_now();
	*seen = protocol_events_now();
	return changed;
}

static int look_and_watch_channel(uint64_t *seen)
{
	int e;

	native_look_at_channel();
	if (!native_lock())
		return -EDEADLK;
	e = native_attach();
	/* What is there goes on without psid. */
	if (e < 0 && e != -EDEADLK && epoll_fd >= 0)
		e = 0;
	if (e == 0)
		e = look(seen);
	if (e == 0)
		e = watch_fd(client_channel());
	if (e == 0)
		(void)native_net_gather(epoll_fd, NATIVE_NET_FD);
	native_unlock();
	return e;
}

PULC_EXPORT int pulc_arm(uint64_t *seen)
{
	uint64_t nsec = 0;
	int e;

	disarm();
	e = look_and_watch_channel(seen);
	if (e != 0)
		return e;
	armed = true;
	if (native_watch(set, *seen, &nsec)) {
		disarm();
		return 1;
	}
	e = set_timer(nsec);
	if (e < 0)
		disarm();
	return e;
}

PULC_EXPORT void pulc_disarm(void)
{
	disarm();
}

/* The parent's epoll set stays open, as its other descriptors do; our own is made when asked
 * for. */
void native_fd_forked(void)
{
	pulc_fd_release(&timer);
	epoll_fd = -1;
	timer_set = armed = false;
	set = NULL;
}
