/*
 * Lists that are the kernel's alone, before a wait that may sleep: where that has paid lately, and
 * somebody of this node may be heard by them, they are looked at for a while first
 * (pulc_loop_looks). What is found is the answer; else libc's own call is made for the time that is
 * left.
 */
#include "file.h"
#include "poll_events.h"
#include "polling.h"
#include "rawsys.h"
#include "symbols.h"
#include "wait.h"

/* Is there something in the list by which one of this node may be heard through the kernel? */
static bool is_list_near(const struct pollfd *fds, nfds_t n)
{
	bool near = false;
	struct pre_use use;

	for (nfds_t i = 0; i < n && !near; i++) {
		near = pre_poll_is_listener(fds[i].fd);
		if (!pre_poll_is_ours(fds[i].fd) || !pre_use_file(&use, fds[i].fd))
			continue;
		near = use.stream && !pulc_stream_is_far(use.stream);
		pre_use_end(&use);
	}
	return near;
}

bool pre_poll_begins_ahead(const struct pollfd *fds, nfds_t n)
{
	return n <= PRE_POLL_N_AHEAD && (uintptr_t)fds >= PRE_POLL_NO_ADDRESS &&
	       pulc_loop_begins() && is_list_near(fds, n);
}

static int look_at_list(void *arg)
{
	const struct pre_poll_list *list = arg;
	struct timespec now = { 0 };

	return (int)raw_syscall(SYS_ppoll, list->fds, list->n, &now, NULL, 8);
}

int pre_poll_look_ahead(struct pre_poll_list *list, struct pre_signals *signals)
{
	const struct pre_ahead ahead = { look_at_list, list, list->deadline, list->mask };

	pre_cancellation_point();
	return pre_look_ahead(&ahead, signals);
}

static int in_kernel(struct pre_poll_list *list)
{
	struct pre_signals signals = { 0 };
	struct timespec left;
	int ret = pre_poll_look_ahead(list, &signals);

	if (ret == 0)
		ret = (int)pre_sys(pre_real.ppoll(list->fds, list->n,
						  pre_time_left(list->deadline, PRE_FOREVER, &left),
						  list->mask));
	pre_signals_restore(&signals);
	return ret;
}

int pre_poll_of_kernel(struct pollfd *fds, nfds_t n, int msec)
{
	struct pre_poll_list list = { fds, n, .mask = NULL };

	if (msec == 0 || !pre_poll_begins_ahead(fds, n))
		return (int)pre_sys(pre_real.poll(fds, n, msec));
	list.deadline = pre_deadline_msec(msec);
	return in_kernel(&list);
}

static bool is_zero(const struct timespec *timeout)
{
	return timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
}

int pre_ppoll_of_kernel(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			const sigset_t *mask)
{
	struct pre_poll_list list = { fds, n, .mask = mask };

	if (is_zero(timeout) || !pre_poll_begins_ahead(fds, n))
		return (int)pre_sys(pre_real.ppoll(fds, n, timeout, mask));
	list.deadline = pre_deadline(timeout);
	return in_kernel(&list);
}
