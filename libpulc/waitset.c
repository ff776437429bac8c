/*
 * Wait sets: a board for peers to mark, a bell for them to ring, one sleeper (or one group of
 * sleepers).
 *
 * Board and bell belong to a wait set, not to the process: two sets must not eat each other's
 * wake-ups. A set takes a page of the process's board area, which psid made and every peer of the
 * same user maps when it is introduced; its bell is an eventfd that psid passes on. Until a peer is
 * known to have both, a sleeper trusts it only for a while (pulc_stream_patience).
 *
 * A set that is no longer used keeps its board and its bell and is handed to the next one who asks:
 * a board number with a new bell would have peers ring the old one.
 *
 * A forked child is another client: its sets are made anew, the inherited ones are dead, for their
 * bells are shared with the parent. After psid was lost and found again the process has a new
 * number, and sets made under the old one are replaced when next asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include <pulc/fds.h>

#include "board.h"
#include "clock.h"
#include "macros.h"
#include "peers.h"
#include "pool.h"
#include "private.h"
#include "rawsys.h"

#define NSEC_PATIENCE_FIRST (1000 * NSEC_PER_USEC)
#define NSEC_PATIENCE_MAX NSEC_PER_SEC
#define NSEC_WELCOME (100 * 1000 * NSEC_PER_USEC)

static struct pool sets = POOL_INIT(sizeof(struct pulc_waitset));
static OFTEN struct pulc_waitset *first, *idle;
static OFTEN uint32_t fork_generation;
/* psid had no room for the word of one of them. Read without the lock. */
static OFTEN _Atomic bool announcement_is_due;
static OFTEN int spare_bell = -1;
/* This is a child, and has not waited for psid yet. */
static OFTEN bool welcome_is_due;

/* Which boards of the present area are taken. */
static OFTEN struct {
	uint32_t client;
	uint64_t taken[SHM_N_BOARDS / 64];
} area;

static __thread struct pulc_waitset *mine __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int take_board(uint32_t *ret_index)
{
	if (area.client != client_id()) {
		memset(&area, 0, sizeof(area));
		area.client = client_id();
	}
	for (unsigned w = 0; w < SHM_FIRST_LINES / 64; w++) {
		if (~area.taken[w] == 0)
			continue;
		*ret_index = w * 64 + (unsigned)__builtin_ctzll(~area.taken[w]);
		area.taken[w] |= 1ull << *ret_index % 64;
		return 0;
	}
	return -ENOSPC;
}

static void return_board(const struct pulc_waitset *set)
{
	if (set->client == area.client)
		area.taken[set->index / 64] &= ~(1ull << set->index % 64);
}

static void announce(struct pulc_waitset *set)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	Pulc__Wire__Announce announcement = PULC__WIRE__ANNOUNCE__INIT;
	int e;

	bell.board = set->index;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_BELL;
	msg.bell = &bell;
	e = client_send(&msg, &set->bell, 1);
	announcement.board = set->index;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_ANNOUNCE;
	msg.announce = &announcement;
	if (e == 0)
		e = client_send(&msg, NULL, 0);
	if (e == 0)
		set->generation = client_generation();
	else if (e == -EAGAIN)
		announcement_is_due = true;
}

static void announce_new(void)
{
	announcement_is_due = false;
	for (struct pulc_waitset *set = first; set && !announcement_is_due; set = set->next)
		if (pulc_waitset_alive(set) && set->generation != client_generation())
			announce(set);
}

bool waitsets_are_due(void)
{
	return atomic_load_explicit(&announcement_is_due, memory_order_relaxed);
}

static int make_bell(int *bell)
{
	*bell = (int)raw_syscall(SYS_eventfd2, 0, O_NONBLOCK | O_CLOEXEC, 0, 0, 0, 0);
	return *bell < 0 ? *bell : pulc_fd_adopt(bell);
}

void waitset_prepare(void)
{
	if (spare_bell < 0 && !first && !idle)
		(void)make_bell(&spare_bell);
}

static struct pulc_waitset *reuse(void)
{
	struct pulc_waitset *set = idle;

	if (!set)
		return NULL;
	idle = set->next;
	if (!pulc_waitset_alive(set)) {
		pulc_fd_release(&set->bell);
		pool_put(&sets, set);
		return reuse();
	}
	shm_board_clear(set->board);
	pulc_waitset_quiet(set);
	set->next = first;
	first = set;
	if (set->generation != client_generation())
		announce(set);
	return set;
}

/* Under the client lock. */
static struct pulc_waitset *make(void)
{
	struct pulc_waitset *set;
	uint32_t index;

	if (!client_boards())
		client_look();
	set = reuse();
	if (set)
		return set;
	if (!client_boards() || client_is_borrowed() || take_board(&index) < 0)
		return NULL;
	set = pool_get(&sets);
	if (!set)
		return NULL;
	*set = (struct pulc_waitset){
		.board = shm_board_of(client_boards(), index),
		.client = client_id(),
		.index = index,
		.pid = (int)fork_generation,
		.nsec_patience = NSEC_PATIENCE_FIRST,
	};
	if (spare_bell >= 0)
		pulc_fd_rehome(&spare_bell, &set->bell);
	else if (make_bell(&set->bell) < 0) {
		return_board(set);
		pool_put(&sets, set);
		return NULL;
	}
	shm_board_clear(set->board);
	set->next = first;
	first = set;
	announce(set);
	return set;
}

static void unmake(struct pulc_waitset *set)
{
	struct pulc_waitset **p = &first;

	while (*p && *p != set)
		p = &(*p)->next;
	if (*p)
		*p = set->next;
	if (pulc_waitset_alive(set)) {
		set->next = idle;
		idle = set;
		return;
	}
	pulc_fd_release(&set->bell);
	pool_put(&sets, set);
}

/* True once: psid has been asked, and has not answered yet. */
static bool ask_for_welcome(void)
{
	bool asked;

	if (!client_lock())
		return false;
	asked = welcome_is_due && !client_boards() && client_attach() == 0;
	if (asked || client_boards())
		welcome_is_due = false;
	client_unlock();
	return asked;
}

PULC_EXPORT void pulc_waitset_expect(void)
{
	const struct timespec moment = { .tv_nsec = NSEC_PER_USEC * 1000 };
	uint64_t end;

	if (LIKELY(!welcome_is_due) || !ask_for_welcome())
		return;
	end = nsec_now() + NSEC_WELCOME;
	while (!client_boards() && client_channel() >= 0 && nsec_now() < end) {
		struct pollfd p = { .fd = client_channel(), .events = POLLIN };

		(void)raw_ppoll(&p, 1, &moment);
		if (!client_lock())
			return;
		client_look();
		client_unlock();
	}
}

PULC_EXPORT int pulc_waitset_new(pulc_waitset **ret_set)
{
	struct pulc_waitset *set;

	if (!client_lock())
		return -EBUSY;
	set = make();
	client_unlock();
	if (!set)
		return -ENOBUFS;
	*ret_set = set;
	return 0;
}

PULC_EXPORT pulc_waitset *pulc_waitset_free(pulc_waitset *set)
{
	if (set && client_lock()) {
		unmake(set);
		client_unlock();
	}
	return NULL;
}

PULC_EXPORT bool pulc_waitset_alive(const pulc_waitset *set)
{
	return set->pid == (int)fork_generation && (client_id() == 0 || set->client == client_id());
}

static void at_thread_end(void *set)
{
	mine = NULL;
	(void)pulc_waitset_free(set);
}

static void make_key(void)
{
	(void)pthread_key_create(&thread_end, at_thread_end);
}

/* Under the client lock. */
static struct pulc_waitset *mine_locked(void)
{
	if (mine && pulc_waitset_alive(mine))
		return mine;
	if (mine)
		unmake(mine);
	mine = make();
	(void)pthread_once(&once, make_key);
	(void)pthread_setspecific(thread_end, mine);
	return mine;
}

PULC_EXPORT pulc_waitset *pulc_waitset_mine(void)
{
	struct pulc_waitset *set = NULL;

	if (LIKELY(mine && pulc_waitset_alive(mine)))
		return mine;
	if (client_lock()) {
		if (client_attach() == 0)
			set = mine_locked();
		client_unlock();
	}
	return set;
}

void waitsets_announce(void)
{
	if (!client_boards())
		return;
	(void)mine_locked();
	announce_new();
}

void waitsets_repeat(void)
{
	if (client_boards())
		announce_new();
}

void waitsets_rouse(void)
{
	for (struct pulc_waitset *set = first; set; set = set->next)
		if (set->pid == (int)fork_generation)
			pulc_waitset_ring(set);
}

void waitset_tell(uint64_t watch)
{
	struct pulc_waitset *set = first;

	while (set &&
	       (set->client != SHM_WATCH_CLIENT(watch) || set->index != SHM_WATCH_BOARD(watch)))
		set = set->next;
	if (!set)
		peers_tell(watch);
	else if (shm_board_set(set->board, SHM_WATCH_BIT(watch)))
		pulc_waitset_ring(set);
}

/* The parent's bells are the parent's: close ours. Its boards too. */
USUAL void waitset_forked(void)
{
	fork_generation++;
	for (struct pulc_waitset *set = first; set; set = set->next)
		pulc_fd_release(&set->bell);
	pulc_fd_release(&spare_bell);
	for (struct pulc_waitset *set = idle; set; set = set->next)
		pulc_fd_release(&set->bell);
	first = idle = NULL;
	announcement_is_due = false;
	welcome_is_due = true;
	mine = NULL;
	memset(&area, 0, sizeof(area));
}

/* ---- using one ------------------------------------------------------------------------------- */

PULC_EXPORT int pulc_waitset_fd(const pulc_waitset *set)
{
	return set->bell;
}

PULC_EXPORT unsigned pulc_waitset_n_bits(const pulc_waitset *set)
{
	(void)set;
	return SHM_BOARD_BITS;
}

PULC_EXPORT void pulc_waitset_arm(pulc_waitset *set)
{
	shm_board_arm(set->board);
}

PULC_EXPORT void pulc_waitset_disarm(pulc_waitset *set)
{
	shm_board_disarm(set->board);
}

PULC_EXPORT bool pulc_waitset_pending(const pulc_waitset *set)
{
	return shm_board_pending(set->board);
}

PULC_EXPORT bool pulc_waitset_take(pulc_waitset *set, unsigned *ret_bit)
{
	return shm_board_take(set->board, ret_bit);
}

PULC_EXPORT void pulc_waitset_ring(pulc_waitset *set)
{
	const uint64_t one = 1;

	(void)raw_write(set->bell, &one, sizeof(one));
}

PULC_EXPORT void pulc_waitset_quiet(pulc_waitset *set)
{
	uint64_t count;

	(void)raw_read(set->bell, &count, sizeof(count));
}

static uint64_t watch_of(const pulc_waitset *set, unsigned bit)
{
	return SHM_WATCH(set->client, set->index, bit % SHM_BOARD_BITS);
}

/* Before a sleep the sender learns of all room there is: of what a killed one of this family has
 * taken nobody else would tell it. */
static void tell_of_room(pulc_stream *s)
{
	bool told;

	if (LIKELY(!shm_rx_is_untold(&s->tcp.ring)) || !shm_lock(&s->tcp.ring.own->rx_lock))
		return;
	told = tcp_reads_ring(&s->tcp) && shm_rx_tell(&s->tcp.ring);
	shm_unlock(&s->tcp.ring.own->rx_lock);
	if (told)
		stream_tell(s, TCP_TAKEN);
}

int stream_watch(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events)
{
	uint64_t watch = watch_of(set, bit);
	int e = 0;

	tell_of_room(s);
	if (events & (POLLIN | POLLRDNORM))
		e = shm_watch_rx(&s->tcp.ring, watch);
	/* Who waits for neither is told of the end, of which the kernel may know nothing. */
	if (e == 0 && ((events & (POLLOUT | POLLWRNORM)) || !(events & (POLLIN | POLLRDNORM))))
		e = shm_watch_tx(&s->tcp.ring, watch);
	/* More waiters than a side has room for: let the kernel wake them. */
	if (e < 0)
		tcp_keep_on_kernel(&s->tcp);
	return e;
}

void stream_unwatch(pulc_stream *s, pulc_waitset *set, unsigned bit)
{
	shm_unwatch(&s->tcp.ring, watch_of(set, bit));
}

uint64_t stream_patience(pulc_stream *s, pulc_waitset *set)
{
	uint64_t patience = set->nsec_patience;
	int fd = s->fd; /* another thread may come with another one */

	if (UNLIKELY(tcp_is_short(&s->tcp)) ||
	    (UNLIKELY(tcp_is_split(&s->tcp)) &&
	     (!stream_owns(s, fd) || tcp_is_split_enough(&s->tcp, fd))))
		return NSEC_PATIENCE_FIRST;
	/* Of several processes at the other end perhaps only one has been introduced. */
	if (!shm_peer_is_shared(&s->tcp.ring) &&
	    shm_slab_is_acquainted(&s->peer_slab->map, set->client, set->index))
		return UINT64_MAX;
	set->nsec_patience = MIN(patience * 2, (uint64_t)NSEC_PATIENCE_MAX);
	return patience;
}
