/*
 * Waking other processes.
 *
 * A watch names (client, board, bit). Whoever publishes data or space for it sets the bit on that
 * board and rings the bell if the owner sleeps. Board and bell come by psid's Introduce; to make
 * known that we can ring it ourselves, we say so in every slab that we own (shm_slab_acquaint): a
 * sleeper reads that before it trusts the bell for ever. Lacking them we ask psid to ring.
 *
 * psid tells when a client has gone. What one psid has introduced its successor knows nothing of,
 * so it ages. Another thread may be about to ring one that has gone, so its boards stay mapped and
 * its bells open for a while: a number that was given out again must not be written to.
 *
 * Lookups happen with each wake-up, changes hardly ever: a fixed hash of atomic pointers, filled
 * under the client lock, never freed while the process lives except for bells, whose numbers are
 * re-read on use. A bell is non-blocking: a hostile owner can fill it, which costs that owner its
 * wake-ups.
 *
 * Source: pulc-1998, 4.7 (passive scheduling: a waiting process is inactive until its partner has
 * something for it).
 */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <pulc/fds.h>

#include "board.h"
#include "client.h"
#include "clock.h"
#include "log.h"
#include "macros.h"
#include "rawsys.h"
#include "slabs.h"

#define N_BUCKETS 256
#define N_UNTOLD 256u
/* Beyond so many foreign bells psid rings. */
#define N_BELLS_MAX 320
/* Who has read a bell's number writes to it long before this. */
#define NSEC_GONE (2 * NSEC_PER_SEC)

struct peer {
	struct peer *next;
	_Atomic uint32_t client; /* 0: gone, may be reused */
	uint32_t n_psids;	 /* that we had known when it was introduced */
	struct shm_boards *_Atomic boards;
	uint64_t nsec_gone; /* boards and bells are those of a client that went then; 0: not so */
	struct peer *gone_next;
	unsigned n_lines;	 /* of its boards' area that links of ours use */
	int bells[SHM_N_BOARDS]; /* -1: not known */
};

static LARGE struct peer *_Atomic buckets[N_BUCKETS];
static unsigned n_bells;
/* Those that have gone, in that order. Under the client lock. */
static struct peer *gone_first, **gone_last = &gone_first;

/*
 * Watches that psid could not be asked to tell, for its channel was full. Their owners look after a
 * while, but not if we say meanwhile that we can ring: then we do. Of too many the oldest are
 * forgotten. Under the client lock.
 */
static LARGE uint64_t untold[N_UNTOLD];
static unsigned n_untold;

static struct peer *find(uint32_t client)
{
	struct peer *p = atomic_load_explicit(&buckets[client % N_BUCKETS], memory_order_acquire);

	while (p && atomic_load_explicit(&p->client, memory_order_acquire) != client)
		p = p->next;
	return p;
}

static struct peer *find_or_make(uint32_t client)
{
	struct peer *p = find(client);
	long mem;

	if (p)
		return p;
	p = atomic_load_explicit(&buckets[client % N_BUCKETS], memory_order_relaxed);
	while (p && (atomic_load_explicit(&p->client, memory_order_relaxed) != 0 || p->nsec_gone))
		p = p->next;
	if (p) {
		atomic_store_explicit(&p->client, client, memory_order_release);
		return p;
	}
	mem = raw_syscall(SYS_mmap, NULL, sizeof(*p), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem < 0 && mem > -4096)
		return NULL;
	p = (struct peer *)mem;
	for (unsigned i = 0; i < SHM_N_BOARDS; i++)
		p->bells[i] = -1;
	atomic_store_explicit(&p->client, client, memory_order_relaxed);
	p->next = atomic_load_explicit(&buckets[client % N_BUCKETS], memory_order_relaxed);
	atomic_store_explicit(&buckets[client % N_BUCKETS], p, memory_order_release);
	return p;
}

/* Other threads may be about to ring it. */
static int bell_of(const struct peer *p, uint32_t board)
{
	return __atomic_load_n(&p->bells[board], __ATOMIC_ACQUIRE);
}

/* Keeps the bell if it is one and there is room. Seen by others under the number that it keeps
 * only. */
static bool keep_bell(struct peer *p, uint32_t board, int bell)
{
	int flags = raw_fcntl(bell, F_GETFL, 0);

	if (p->bells[board] >= 0 || n_bells >= N_BELLS_MAX || flags < 0 ||
	    raw_fcntl(bell, F_SETFL, flags | O_NONBLOCK) < 0) {
		(void)raw_close(bell);
		return p->bells[board] >= 0;
	}
	if (pulc_fd_adopt(&bell) < 0)
		return false;
	pulc_fd_rehome(&bell, &p->bells[board]);
	n_bells++;
	return true;
}

static void await_burial(struct peer *p)
{
	p->nsec_gone = nsec_now();
	p->gone_next = NULL;
	*gone_last = p;
	gone_last = &p->gone_next;
}

void peers_gone(uint32_t client)
{
	struct peer *p = find(client);

	peers_bury();
	if (!p)
		return;
	atomic_store_explicit(&p->client, 0, memory_order_release);
	await_burial(p);
	slabs_forget(client);
}

/* What our links still read stays mapped, and is looked at again later. */
static void bury(struct peer *p)
{
	for (unsigned i = 0; i < SHM_N_BOARDS; i++)
		if (p->bells[i] >= 0) {
			pulc_fd_release(&p->bells[i]);
			n_bells--;
		}
	if (p->n_lines) {
		await_burial(p);
		return;
	}
	shm_boards_unmap(atomic_exchange(&p->boards, NULL));
	p->nsec_gone = 0;
}

void peers_bury(void)
{
	struct peer *p;

	while ((p = gone_first) != NULL && nsec_now() - p->nsec_gone >= NSEC_GONE) {
		gone_first = p->gone_next;
		if (!gone_first)
			gone_last = &gone_first;
		bury(p);
	}
}

struct shm_exchange *peers_hold_line(uint32_t client, uint32_t i)
{
	struct peer *p = find(client);

	if (!p || !p->boards)
		return NULL;
	p->n_lines++;
	return shm_line_of(p->boards, i);
}

void peers_let_line_go(uint32_t client, const struct shm_exchange *line)
{
	struct peer *p = buckets[client % N_BUCKETS];

	/* By its place: the number may be nobody's by now. */
	while (p && !(p->boards && shm_boards_have(p->boards, line)))
		p = p->next;
	if (p)
		p->n_lines--;
}

/*
 * With a new psid everybody gets a new number. A sleeper whose psid ends wakes up and looks at its
 * streams; until it sleeps under its new number it is known by the old one. So that one is kept
 * until one more psid has ended.
 */
void peers_age(uint32_t n_psids)
{
	uint32_t client;

	for (unsigned i = 0; i < N_BUCKETS; i++)
		for (struct peer *p = buckets[i]; p; p = p->next) {
			client = atomic_load(&p->client);
			if (client && p->n_psids + 1 < n_psids)
				peers_gone(client);
		}
}

static void ask_psid(uint64_t watch)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Ring ring = PULC__WIRE__RING__INIT;

	ring.client = SHM_WATCH_CLIENT(watch);
	ring.board = SHM_WATCH_BOARD(watch);
	ring.bit = SHM_WATCH_BIT(watch);
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_RING;
	msg.ring = &ring;
	if (client_send(&msg, NULL, 0) == -EAGAIN)
		untold[n_untold++ % N_UNTOLD] = watch;
}

/* True if we could do it ourselves. */
static bool tell_directly(uint64_t watch)
{
	uint32_t board = SHM_WATCH_BOARD(watch);
	struct peer *p = board < SHM_FIRST_LINES ? find(SHM_WATCH_CLIENT(watch)) : NULL;
	struct shm_boards *boards = p ? atomic_load_explicit(&p->boards, memory_order_acquire)
				      : NULL;
	int bell = boards ? bell_of(p, board) : -1;
	const uint64_t one = 1;

	if (bell < 0)
		return false;
	if (!shm_board_set(shm_board_of(boards, board), SHM_WATCH_BIT(watch)))
		return true;
	/* A program's dup2 may have moved it just now. */
	while (raw_write(bell, &one, sizeof(one)) == -EBADF && bell_of(p, board) != bell)
		bell = bell_of(p, board);
	return true;
}

/* Whoever of this wait set trusts us from now on may have lost our word to it. */
static void tell_untold(uint32_t client, uint32_t board)
{
	for (unsigned i = 0; i < MIN(n_untold, N_UNTOLD); i++) {
		if (SHM_WATCH_CLIENT(untold[i]) == client && SHM_WATCH_BOARD(untold[i]) == board)
			(void)tell_directly(untold[i]);
	}
}

void peers_introduce(uint32_t client, uint32_t board, struct shm_boards *boards, int bell)
{
	struct peer *p = board < SHM_FIRST_LINES ? find_or_make(client) : NULL;

	if (!p) {
		shm_boards_unmap(boards);
		(void)raw_close(bell);
		return;
	}
	p->n_psids = client_n_psids();
	if (boards) {
		if (!atomic_load_explicit(&p->boards, memory_order_relaxed))
			atomic_store_explicit(&p->boards, boards, memory_order_release);
		else
			shm_boards_unmap(boards);
	}
	if (!keep_bell(p, board, bell) || !p->boards)
		return;
	slabs_acquaint(client, board);
	tell_untold(client, board);
}

void peers_tell(uint64_t watch)
{
	if (LIKELY(tell_directly(watch)) || !client_lock())
		return;
	/* A forked child may have told nobody of itself yet. */
	(void)client_attach();
	client_look();
	if (!tell_directly(watch))
		ask_psid(watch);
	client_unlock();
}
