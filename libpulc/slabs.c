/*
 * Registry of mapped slabs: found by psid's number when an Upgrade names one, unmapped when psid
 * has retired it and its last stream is closed. Few in number (a pair for 64 connections
 * between the same two processes, then for 256, for 1,024), so a list serves.
 *
 * Of its own slabs a process keeps the descriptor too: by it alone it can bring them back to
 * another psid (return.c).
 *
 * Left out: handing slabs back while streams exist. A forked child shares the mappings and has its
 * own copy of this list.
 */
#include "slabs.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <pulc/fds.h>

#include "macros.h"
#include "pool.h"
#include "rawsys.h"

static struct slab *slabs;
static struct pool pool = POOL_INIT(sizeof(struct slab));

/* Of the descriptors that we may have: bells and the channel need some too. */
#define PART_KEPT 4
static unsigned n_kept;

#define PART_OF_LIMIT 8
/* What the first connection with another process takes: a slab of each side, each of 64 slots, with
 * rings of the usual sizes. */
#define SIZE_FIRST_PAIR (1ull << 30)

/* Boards that we can ring, so that a slab that comes later can say so as well. */
#define N_KNOWN 64
static LARGE struct {
	uint32_t client, board;
} known[N_KNOWN];
static unsigned n_known;

struct slab *slabs_find(uint64_t id, bool own)
{
	struct slab *s = slabs;

	while (s && (s->id != id || s->own != own || s->gone))
		s = s->next;
	return s;
}

struct slab *slabs_add(uint64_t id, bool own, uint32_t peer_client, struct shm_slab_map *map)
{
	struct slab *s = pool_get(&pool);

	if (!s) {
		shm_slab_unmap(map);
		return NULL;
	}
	*s = (struct slab){ .next = slabs,
			    .map = *map,
			    .fd = -1,
			    .id = id,
			    .peer_client = peer_client,
			    .own = own };
	slabs = s;
	for (unsigned i = 0; own && i < N_KNOWN; i++)
		if (known[i].client)
			shm_slab_acquaint(&s->map, known[i].client, known[i].board);
	return s;
}

static void remove_if_done(struct slab *slab)
{
	struct slab **p = &slabs;

	if (!slab->gone || slab->n_streams)
		return;
	while (*p != slab)
		p = &(*p)->next;
	*p = slab->next;
	shm_slab_unmap(&slab->map);
	n_kept -= slab->fd >= 0;
	pulc_fd_release(&slab->fd);
	pool_put(&pool, slab);
}

void slabs_ref(struct slab *slab)
{
	slab->n_streams++;
}

void slabs_unref(struct slab *slab)
{
	slab->n_streams--;
	remove_if_done(slab);
}

void slabs_gone(uint64_t id)
{
	for (struct slab *s = slabs, *next; s; s = next) {
		next = s->next;
		if (s->id == id) {
			s->gone = true;
			remove_if_done(s);
		}
	}
}

void slabs_hold(struct slab *own, uint32_t slot)
{
	(void)atomic_fetch_or(&own->held[slot / 64], 1ull << slot % 64);
}

void slabs_let_go(struct slab *own, uint32_t slot)
{
	(void)atomic_fetch_and(&own->held[slot / 64], ~(1ull << slot % 64));
	(void)atomic_fetch_and(&own->forked[slot / 64], ~(1ull << slot % 64));
}

static void add_holders(_Atomic uint32_t *n_holders, uint64_t slots, uint32_t n)
{
	for (; slots; slots &= slots - 1)
		(void)atomic_fetch_add(&n_holders[__builtin_ctzll(slots)], n);
}

void slabs_forking(void)
{
	uint64_t held;

	for (struct slab *s = slabs; s; s = s->next)
		for (uint32_t i = 0; s->own && i < s->map.n_slots; i += 64) {
			held = atomic_load(&s->held[i / 64]);
			atomic_store(&s->forked[i / 64], held);
			add_holders(&s->map.slab->n_holders[i], held, 1);
		}
	(void)atomic_fetch_add(&shm_joined, 1);
}

void slabs_fork_failed(void)
{
	for (struct slab *s = slabs; s; s = s->next)
		for (uint32_t i = 0; s->own && i < s->map.n_slots; i += 64)
			add_holders(&s->map.slab->n_holders[i],
				    atomic_exchange(&s->forked[i / 64], 0), (uint32_t)-1);
	(void)atomic_fetch_add(&shm_joined, 1);
}

bool slabs_have_room(void)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	uint64_t size = SIZE_FIRST_PAIR;

	(void)raw_syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit, 0, 0);
	if (limit.rlim_cur == RLIM_INFINITY)
		return true;
	for (struct slab *s = slabs; s; s = s->next)
		size += s->map.size;
	return size <= limit.rlim_cur / PART_OF_LIMIT;
}

bool slabs_can_keep(void)
{
	return n_kept < pulc_fd_room() / PART_KEPT;
}

void slabs_keep(struct slab *slab, int *fd)
{
	slab->fd = *fd;
	*fd = -1;
	n_kept += pulc_fd_adopt(&slab->fd) == 0;
	shm_on_return_doubted = exec_doubted;
}

void slabs_lost(void)
{
	for (struct slab *s = slabs, *next; s; s = next) {
		next = s->next;
		s->gone = true;
		remove_if_done(s);
	}
}

void slabs_each(void (*f)(struct slab *))
{
	for (struct slab *s = slabs; s; s = s->next)
		f(s);
}

void slabs_acquaint(uint32_t client, uint32_t board)
{
	for (struct slab *s = slabs; s; s = s->next)
		if (s->own)
			shm_slab_acquaint(&s->map, client, board);
	known[n_known % N_KNOWN].client = client;
	known[n_known % N_KNOWN].board = board;
	n_known++;
}

void slabs_forget(uint32_t client)
{
	for (struct slab *s = slabs; s; s = s->next)
		if (s->own)
			shm_slab_forget(&s->map, client);
	for (unsigned i = 0; i < N_KNOWN; i++)
		if (known[i].client == client)
			known[i].client = 0;
}

void slabs_count_connect(void)
{
	for (struct slab *s = slabs; s; s = s->next)
		if (s->own)
			shm_slab_count_connect(&s->map);
}
