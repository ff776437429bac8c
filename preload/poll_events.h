/* What the poll*.c files have in common: events, what is in a list, and the list that a thread
 * polls busily. */
#ifndef PULC_PRELOAD_POLL_EVENTS_H
#define PULC_PRELOAD_POLL_EVENTS_H

#include <poll.h>
#include <stdint.h>

#include "file.h"
#include "thread.h"

/* Nothing is ever mapped below. */
#define PRE_POLL_NO_ADDRESS 4096
#define PRE_POLL_IN (POLLIN | POLLRDNORM)
#define PRE_POLL_OUT (POLLOUT | POLLWRNORM)
/* Longer lists take too long to be looked at before a sleep. */
#define PRE_POLL_N_AHEAD 128
#define PRE_POLL_ALWAYS (POLLERR | POLLHUP)
/* The golden ratio's bits: spreads small numbers over the word. */
#define PRE_POLL_FACTOR 0x9e3779b97f4a7c15ull

/* Not one that only the kernel knows, nor one whose record says no more than that. */
static inline bool pre_poll_is_ours(int fd)
{
	const struct pre_file *f = pre_file_settled(fd);

	return f && !pre_file_is_standin(f);
}

/* Or a socket that is not connected. */
static inline bool pre_poll_is_listener(int fd)
{
	const struct pre_file *f = pre_file_at(fd);

	return f == &pre_file_tcp || f == &pre_file_tcp_shared;
}

/* Events as libpulc knows them, from the kernel's synonyms, and back. */
static inline unsigned pre_poll_wanted(short events)
{
	return (unsigned)(events & (POLLPRI | POLLRDHUP)) | (events & PRE_POLL_IN ? POLLIN : 0) |
	       (events & PRE_POLL_OUT ? POLLOUT : 0);
}

static inline short pre_poll_answer(unsigned ready, short events)
{
	if (ready & POLLIN)
		ready |= PRE_POLL_IN;
	if (ready & POLLOUT)
		ready |= PRE_POLL_OUT;
	return (short)(ready & ((unsigned)events | PRE_POLL_ALWAYS));
}

/* Ready for something, but not for all of reading and writing that was asked for: memory may not
 * know all. */
static inline bool pre_poll_is_partial(short revents, unsigned want)
{
	return revents && (want & ~(unsigned)revents & (POLLIN | POLLOUT));
}

/* Says of a list, which began as its length, that it also has this. */
static inline uint64_t pre_poll_list(uint64_t list, const struct pollfd *pfd)
{
	list = (list ^ (uint32_t)pfd->fd ^ (uint64_t)(uint16_t)pfd->events << 32) * PRE_POLL_FACTOR;
	return list ^ list >> 32;
}

/* Is it the same list as before, or so it seems? To what was learned of another one this has no
 * relation. */
static inline void pre_poll_begins(struct pre_thread *thread, uint64_t list)
{
	if (list != thread->polled)
		atomic_store_explicit(&thread->looked.n_calm, 0, memory_order_relaxed);
	thread->polled = list;
}

#endif
