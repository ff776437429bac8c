/*
 * Waiting for a TCP stream, and telling its peer's waiters: what is particular to it.
 *
 * The partner of a ping-pong answers within the first turns; these are made here, without a look at
 * the clock.
 */
#include "clock.h"
#include "macros.h"
#include "notice.h"
#include "private.h"
#include "rawsys.h"
#include "tcp_short.h"

#define N_TURNS_BRIEF 48
/* What a peer says of its end. */
#define ENDS (SHM_TX_FIN | SHM_CLOSED | SHM_DEAD)

bool stream_peer_here(pulc_stream *s)
{
	uint32_t cpu = this_cpu();

	shm_ran_on(&s->tcp.ring, cpu);
	return shm_peer_ran_on(&s->tcp.ring, cpu);
}

/* The ring has bytes behind those of the kernel, which may be under way: a try that finds nothing
 * is not worth while. */
static bool __attribute__((noinline)) has_split(struct pulc_stream *s, const struct wait *w)
{
	return tcp_reads_ring(&s->tcp) && tcp_has(&s->tcp, stream_fd(s, w->fd), w->total);
}

static inline bool has_bytes(struct pulc_stream *s, const struct wait *w)
{
	if (!shm_rx_maybe(&s->tcp.ring))
		return false;
	if (UNLIKELY(tcp_is_split(&s->tcp)))
		return has_split(s, w);
	return w->need <= 1 || shm_rx_waiting(&s->tcp.ring) >= w->need;
}

/* The peer has left, and nobody has begun to return what it left behind. */
static inline bool has_to_return(struct pulc_stream *s, uint64_t peer)
{
	return UNLIKELY(peer & SHM_LEFT) && shm_tx_mode(&s->tcp.ring) == SHM_TX_RING;
}

/* Something in memory says that trying again is worth while. */
static inline bool seems_ready(struct pulc_stream *s, const struct wait *w)
{
	uint64_t peer = shm_peer_notice(&s->tcp.ring);

	if (has_to_return(s, peer))
		return true;
	if (w->events & POLLIN)
		return has_bytes(s, w) || (peer & ENDS & ~w->ends_heard);
	return tcp_ready(&s->tcp, POLLOUT) || (shm_own_notice(&s->tcp.ring) & SHM_TX_FIN) ||
	       (shm_tx_mode(&s->tcp.ring) == SHM_TX_RING && (peer & (SHM_CLOSED | SHM_DEAD)));
}

/* The kernel's share of what is waited for. */
static short kernel_events(struct pulc_stream *s, const struct wait *w)
{
	return tcp_kernel_events(&s->tcp, w->kernel_has_part ? 0 : w->events) |
	       (w->heeds_mark ? POLLPRI : 0);
}

/* Does the kernel socket have something for this waiter? Bytes in the ring, perhaps too few, are no
 * news. */
static bool kernel_has_news(struct pulc_stream *s, int fd, const struct wait *w)
{
	struct pollfd p = { .fd = fd, .events = kernel_events(s, w) };
	struct timespec now = { 0, 0 };

	if (raw_ppoll(&p, 1, &now) <= 0)
		return false;
	(void)tcp_poll(&s->tcp, fd, w->events);
	return true;
}

static bool memory(struct pulc_stream *s, const struct wait *w)
{
	return seems_ready(s, w);
}

static void kernel_said(struct pulc_stream *s, int fd, const struct wait *w)
{
	(void)tcp_poll(&s->tcp, fd, w->events);
}

static const struct wait_way way = { memory, kernel_has_news, kernel_events, kernel_said };

struct wait stream_wait_begin(unsigned events, uint64_t usec_timeout)
{
	return wait_begin(&way, events, usec_timeout);
}

/* The first turns, without a look at the clock: the partner of a ping-pong answers within them. */
static inline bool spin_briefly(struct pulc_stream *s, const struct wait *w)
{
	for (unsigned i = 0; i < N_TURNS_BRIEF; i++) {
		if (seems_ready(s, w))
			return true;
		cpu_relax();
	}
	return false;
}

/* Only the ring can have something, and it may be worth while to look. */
static inline bool may_look(struct pulc_stream *s)
{
	return tcp_reads_only_ring(&s->tcp) &&
	       LIKELY(!(shm_peer_notice(&s->tcp.ring) & (ENDS | SHM_LEFT))) && wait_budget(s) != 0;
}

/* What the wait before this one was good for is counted now: once its message had come there was no
 * time for it. */
bool stream_wait_turn(struct pulc_stream *s)
{
	struct shm_ahead ahead;

	if (turn_count(&s->turn))
		wait_paid();
	if (!may_look(s))
		return false;
	ahead = shm_ahead(&s->tcp.ring, &s->tcp.ring);
	notice_in_passing();
	turn_looks(&s->turn, turn_wait(&s->turn, &s->tcp.ring, pulse_ticks()), true);
	shm_ahead_ask(&ahead);
	return true;
}

bool stream_wait_briefly(struct pulc_stream *s, bool has_looked)
{
	struct shm_stream *ring = &s->tcp.ring;
	uint64_t taken = shm_taken(ring);

	if (!has_looked) {
		if (!may_look(s))
			return false;
		notice_in_passing();
	}
	for (unsigned i = 0; i < N_TURNS_BRIEF; i++) {
		if (shm_mark(ring) != taken) {
			if (has_looked && i > 0)
				turn_looks(&s->turn, false, false);
			if (!has_looked)
				wait_paid();
			return true;
		}
		cpu_relax();
	}
	turn_looked_in_vain(&s->turn);
	return false;
}

/*
 * What the peer has said of its end ends one wait: the caller asks the kernel next, who alone knows
 * the end of the stream. If it has none to tell (the peer was stopped in between, another process
 * has the socket, or the peer lies) it wakes us when it has.
 */
int stream_wait(struct pulc_stream *s, int fd, struct wait *w)
{
	uint64_t budget = wait_budget(s);
	int e = 0;

	w->fd = fd;
	notice_in_passing();
	(void)tcp_return(&s->tcp, fd);
	if (budget && spin_briefly(s, w))
		wait_paid();
	else
		e = wait_for(s, fd, w, budget);
	if (e == 0)
		w->ends_heard = shm_peer_notice(&s->tcp.ring) & ENDS;
	return e;
}

/* ---- telling --------------------------------------------------------------------------------- */

void stream_tell_all(struct pulc_stream *s)
{
	wait_tell(&s->tcp.ring, shm_collect_rx);
	wait_tell(&s->tcp.ring, shm_collect_tx);
}

void stream_tell_own_locked(struct pulc_stream *s)
{
	uint64_t watches[2 * SHM_N_WATCHES];
	size_t n = shm_watches_all(&s->tcp.ring, watches);

	for (size_t i = 0; i < n; i++)
		waitset_tell(watches[i]);
}

void stream_tell_own(struct pulc_stream *s)
{
	if (!client_lock())
		return;
	stream_tell_own_locked(s);
	client_unlock();
}

PULC_EXPORT int pulc_stream_fd(const pulc_stream *s, int fd)
{
	return stream_fd(s, fd);
}

void stream_tell(struct pulc_stream *s, unsigned did)
{
	struct shm_stream *ring = &s->tcp.ring;

	if ((did & TCP_SENT) && UNLIKELY(shm_due_rx(ring, shm_peer_notice(ring))))
		wait_tell(ring, shm_collect_rx);
	if ((did & TCP_TAKEN) && UNLIKELY(shm_due_tx(ring)))
		wait_tell(ring, shm_collect_tx);
}
