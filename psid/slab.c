/*
 * A slab is a sparse, sealed memfd of n slots for one ordered pair (owner, peer); shm/layout.h
 * tells what is inside. The owner gets it read-write, the peer read-only, each once.
 *
 * psid allocates what every connection needs from its first byte on, the control page and the
 * first ring, when it hands a slot out: that is where a lack of memory shows, while staying on
 * the kernel is still possible. Larger rings are allocated by their owner on credit.
 *
 * A slot is used again only when both sides are done with it; by then its pages have been given
 * back, so whoever gets it next sees zeroes. That is done by helpers, one slot of a slab at a time:
 * the owner can make them wait, and keeps nothing busy by it but the slab. psid trusts nothing that
 * it reads from one.
 */
#include "slab.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "client.h"
#include "conn.h"
#include "descriptors.h"
#include "geometry.h"
#include "macros.h"
#include "memory.h"
#include "pair.h"
#include "psid.h"
#include "user.h"

/* A slot that is kept. */
struct psid_kept {
	LIST_ENTRY(psid_kept) link;
	struct psid_user *payer;
};

static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "psid_slot_mark_dead writes one byte of a word");

static uint64_t size_ring_pages(const struct psid_slab *slab, uint32_t ring)
{
	return ALIGN_UP((uint64_t)slab->size_ring[ring], SHM_PAGE);
}

/* Allocated with every slot. */
static uint64_t size_first(const struct psid_slab *slab)
{
	return SHM_PAGE + size_ring_pages(slab, 0);
}

static uint64_t slot_at(const struct psid_slab *slab, uint32_t slot)
{
	return shm_slot_at(slab->size_slot, slot);
}

static uint64_t let_go_at(uint32_t slot)
{
	return offsetof(struct shm_slab, let_go) + slot;
}

static uint64_t holders_at(uint32_t slot)
{
	return offsetof(struct shm_slab, n_holders) + slot * sizeof(uint32_t);
}

/* Two processes that have many connections will have more, and each mapping costs them something at
 * every fork. */
static uint32_t n_slots_for(const struct psid_pair *pair, uint32_t n_slots)
{
	const struct psid_slab *slab;

	LIST_FOREACH(slab, &pair->slabs, link)
		n_slots = MIN(4 * n_slots, SHM_SLOTS_MAX);
	return n_slots;
}

static void set_geometry(struct psid_slab *slab, const struct psid_pair *pair,
			 const struct psid_config *config)
{
	slab->n_slots = n_slots_for(pair, config->n_slots);
	slab->size_slot = SHM_PAGE;
	for (uint32_t i = 0; i < SHM_N_RINGS; i++) {
		slab->size_ring[i] = config->size_ring[i];
		slab->size_slot += size_ring_pages(slab, i);
	}
	slab->size = slot_at(slab, slab->n_slots);
}

static int make_memory(struct psid_slab *slab)
{
	struct shm_geometry header = {
		.magic = SHM_MAGIC_SLAB,
		.version = SHM_VERSION,
		.n_slots = slab->n_slots,
		.size = slab->size,
		.size_slot = slab->size_slot,
	};

	memcpy(header.size_ring, slab->size_ring, sizeof(header.size_ring));
	return psid_memory_new("pulc-slab", slab->size, &header, sizeof(header), &slab->fd);
}

static void forget_kept(struct psid_slab *slab)
{
	struct psid_kept *kept;

	while ((kept = LIST_FIRST(&slab->kept))) {
		LIST_REMOVE(kept, link);
		psid_user_give_bytes(kept->payer, slab->size_slot);
		(void)psid_user_unref(kept->payer);
		free(kept);
	}
}

/* Undoes slab_make. */
static void slab_unmake(struct psid_slab *slab)
{
	psid_user_give_bytes(slab->user, SHM_SIZE_HEADER);
	psid_window_close(&slab->window);
	psid_user_give_area(slab->user, slab->fd);
	psid_closer_unpromise(&slab->psid->closer);
	(void)psid_user_unref(slab->user);
	free(slab->sides);
	free(slab);
}

static void slab_free(struct psid_slab *slab)
{
	if (slab->pair) {
		psid_pair_slab_gone(slab->pair, slab);
		LIST_REMOVE(slab, link);
	}
	psid_map_remove(&slab->psid->slabs, &slab->by_ino);
	forget_kept(slab);
	slab_unmake(slab);
}

/* On the user's account. Returns 0; the Reason (positive) of a refusal; negative errno. */
static int slab_make(struct psid *psid, struct psid_user *user, struct psid_slab **ret_slab)
{
	struct psid_slab *slab;
	int r;

	r = psid_user_take_area(user);
	if (r != 0)
		return r;
	r = psid_user_take_bytes(user, SHM_SIZE_HEADER);
	if (r != 0) {
		psid_user_give_area(user, -EBADF);
		return r;
	}
	slab = calloc(1, sizeof(*slab));
	if (!slab || psid_closer_promise(&psid->closer) < 0) {
		free(slab);
		psid_user_give_bytes(user, SHM_SIZE_HEADER);
		psid_user_give_area(user, -EBADF);
		return -ENOMEM;
	}
	slab->psid = psid;
	slab->user = psid_user_ref(user);
	LIST_INIT(&slab->kept);
	slab->fd = -EBADF;
	*ret_slab = slab;
	return 0;
}

/* Its memory is there: enters it into the tables. */
static int slab_enter(struct psid_slab *slab, uint64_t ino)
{
	slab->sides = calloc(slab->n_slots, sizeof(struct psid_side *));
	if (!slab->sides || psid_map_insert(&slab->psid->slabs, &slab->by_ino, ino) < 0)
		return -ENOMEM;
	slab->id = ++slab->psid->last_slab;
	return 0;
}

static int slab_new(struct psid_pair *pair, struct psid_slab **ret_slab)
{
	struct psid *psid = pair->owner->psid;
	struct psid_slab *slab;
	uint64_t ino, size;
	int r;

	r = slab_make(psid, pair->owner->user, &slab);
	if (r != 0)
		return r;
	set_geometry(slab, pair, psid->config);
	r = make_memory(slab);
	if (r == 0)
		r = psid_memory_check(slab->fd, &ino, &size);
	if (r == 0)
		r = slab_enter(slab, ino);
	if (r < 0) {
		slab_unmake(slab);
		return r;
	}
	slab->pair = pair;
	LIST_INSERT_HEAD(&pair->slabs, slab, link);
	*ret_slab = slab;
	return 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static uint32_t find_free(const struct psid_slab *slab)
{
	for (uint32_t i = 0; i < slab->n_slots; i += 64)
		if (slab->used[i / 64] != UINT64_MAX)
			return i + (uint32_t)__builtin_ctzll(~slab->used[i / 64]);
	return slab->n_slots;
}

/* Where the slab is mapped, or NULL. */
static char *map_of(struct psid_slab *slab)
{
	return psid_window_open(&slab->window, slab->fd, slab->size);
}

/* Writes what is there when a slot is handed out. */
static int begin(const struct psid_slab *slab, uint32_t slot, char *map)
{
	struct shm_side side = { .rcvlowat = 1, .inline_at = SHM_NO_INLINE };
	uint32_t n_holders = 1;
	uint8_t let_go = 0;
	const struct psid_piece pieces[] = {
		{ map + slot_at(slab, slot), &side, sizeof(side) },
		{ map + holders_at(slot), &n_holders, sizeof(n_holders) },
		{ map + let_go_at(slot), &let_go, sizeof(let_go) },
	};

	for (uint32_t i = 1; i < SHM_N_RINGS; i++)
		side.ring_at[i] = SHM_NOT_BEGUN;
	return psid_memory_write(pieces, ARRAY_SIZE(pieces));
}

static int prepare(struct psid_slab *slab, uint32_t slot)
{
	char *map = map_of(slab);
	int r;

	if (!map)
		return -ENOMEM;
	r = psid_memory_allocate(map + slot_at(slab, slot), size_first(slab));
	return r < 0 ? r : begin(slab, slot, map);
}

/* A slab of the pair with room, made if need be. */
static int slab_with_room(struct psid_pair *pair, struct psid_slab **ret_slab)
{
	struct psid_slab *slab;

	LIST_FOREACH(slab, &pair->slabs, link)
		if (slab->n_used + slab->n_kept + slab->n_emptied < slab->n_slots) {
			*ret_slab = slab;
			return 0;
		}
	return slab_new(pair, ret_slab);
}

static bool is_only_one(const struct psid_slab *slab)
{
	return slab == LIST_FIRST(&slab->pair->slabs) && !LIST_NEXT(slab, link);
}

/* A pair keeps one empty slab: short connections come one after the other. */
static void free_if_unused(struct psid_slab *slab)
{
	if (slab->n_used == 0 && slab->n_emptied == 0 && !slab->returning &&
	    (!slab->pair || !is_only_one(slab)))
		slab_free(slab);
}

static void on_emptied(void *arg);

static void empty_next(struct psid_slab *slab)
{
	struct psid_emptying emptying = { .fd = slab->fd, .size = slab->size_slot };
	uint32_t i = 0;

	while (!slab->emptied[i])
		i++;
	slab->emptying = i * 64 + (uint32_t)__builtin_ctzll(slab->emptied[i]);
	emptying.at = slot_at(slab, slab->emptying);
	psid_empty_promised(slab->user, &emptying, on_emptied, slab);
}

static void on_emptied(void *arg)
{
	struct psid_slab *slab = arg;
	uint32_t slot = slab->emptying;

	slab->emptied[slot / 64] &= ~(1ull << slot % 64);
	slab->used[slot / 64] &= ~(1ull << slot % 64);
	slab->n_emptied--;
	psid_user_give_bytes(slab->user, size_first(slab));
	if (slab->n_emptied > 0)
		empty_next(slab);
	else
		free_if_unused(slab);
}

/* The slot, which is paid for and which nobody uses, is free when it is empty. */
static void empty(struct psid_slab *slab, uint32_t slot)
{
	slab->used[slot / 64] |= 1ull << slot % 64;
	slab->emptied[slot / 64] |= 1ull << slot % 64;
	if (slab->n_emptied++ == 0)
		empty_next(slab);
}

static void use_slot(struct psid_slab *slab, uint32_t slot, struct psid_side *side)
{
	slab->used[slot / 64] |= 1ull << slot % 64;
	slab->sides[slot] = side;
	slab->n_used++;
	side->slab = slab;
	side->slot = slot;
}

int psid_slot_new(struct psid_pair *pair, struct psid_side *side)
{
	struct psid_slab *slab;
	uint32_t slot;
	int r;

	r = slab_with_room(pair, &slab);
	if (r != 0)
		return r;
	r = psid_user_take_bytes(slab->user, size_first(slab));
	if (r != 0)
		return r;
	slot = find_free(slab);
	r = prepare(slab, slot);
	if (r < 0) {
		empty(slab, slot);
		return -ENOMEM;
	}
	use_slot(slab, slot, side);
	return 0;
}

static void leave_slot(struct psid_side *side)
{
	struct psid_slab *slab = side->slab;

	slab->sides[side->slot] = NULL;
	slab->n_used--;
	side->slab = NULL;
	free_if_unused(slab);
}

void psid_slot_free(struct psid_side *side, bool emptied)
{
	struct psid_slab *slab = side->slab;
	uint32_t slot = side->slot;

	if (emptied) {
		empty(slab, slot);
	} else {
		psid_user_give_bytes(slab->user, size_first(slab));
		slab->used[slot / 64] &= ~(1ull << slot % 64);
	}
	leave_slot(side);
}

int psid_slot_keep(struct psid_side *side, struct psid_user *payer)
{
	struct psid_slab *slab = side->slab;
	struct psid_kept *kept = malloc(sizeof(*kept));
	int r = kept ? psid_user_take_bytes(payer, slab->size_slot) : -ENOMEM;

	if (r != 0) {
		free(kept);
		return r;
	}
	kept->payer = psid_user_ref(payer);
	LIST_INSERT_HEAD(&slab->kept, kept, link);
	psid_user_give_bytes(slab->user, size_first(slab));
	slab->n_kept++;
	leave_slot(side);
	return 0;
}

/* ---- returned -------------------------------------------------------------------------------- */

struct psid_slab *psid_slab_find(const struct psid *psid, uint64_t ino)
{
	struct psid_map_node *node = psid_map_find(&psid->slabs, ino);

	return node ? CONTAINER_OF(node, struct psid_slab, by_ino) : NULL;
}

static int read_geometry(struct psid_slab *slab, int fd, uint64_t size)
{
	struct shm_geometry header;
	int r;

	r = psid_memory_read(fd, 0, &header, sizeof(header));
	if (r == 0)
		r = shm_slab_check(&header, size);
	if (r < 0)
		return -EBADMSG;
	slab->size = size;
	slab->n_slots = header.n_slots;
	slab->size_slot = header.size_slot;
	memcpy(slab->size_ring, header.size_ring, sizeof(slab->size_ring));
	return 0;
}

int psid_slab_return(struct psid *psid, struct psid_user *user, int *fd,
		     struct psid_slab **ret_slab)
{
	struct psid_slab *slab;
	uint64_t ino, size;
	int r;

	r = psid_memory_check(*fd, &ino, &size);
	if (r < 0)
		return r;
	slab = psid_slab_find(psid, ino);
	if (slab && slab->user != user)
		return -EPERM;
	if (slab) {
		slab->returning = true;
		*ret_slab = slab;
		return 0;
	}
	if (psid_descriptor_is_reserve(*fd))
		return -EMFILE;
	r = slab_make(psid, user, &slab);
	if (r != 0)
		return r;
	r = read_geometry(slab, *fd, size);
	if (r == 0)
		r = slab_enter(slab, ino);
	if (r < 0) {
		slab_unmake(slab);
		return r;
	}
	slab->fd = TAKE_FD(*fd);
	slab->sent_owner = slab->sent_peer = slab->returning = true;
	*ret_slab = slab;
	return 0;
}

int psid_slot_return(struct psid_slab *slab, uint32_t slot, struct psid_side *side)
{
	int r;

	if (slab->used[slot / 64] >> slot % 64 & 1)
		return -EBUSY; /* kept, or being emptied: nobody's to return */
	r = psid_user_take_bytes(slab->user, size_first(slab));
	if (r == 0)
		use_slot(slab, slot, side);
	return r;
}

void psid_slab_tidy(struct psid_slab *slab)
{
	slab->returning = false;
	free_if_unused(slab);
}

/* ---- what a side says ------------------------------------------------------------------------ */

int psid_slot_read(const struct psid_slab *slab, uint32_t slot, struct shm_side *ret_side)
{
	return psid_memory_read(slab->fd, slot_at(slab, slot), ret_side, sizeof(*ret_side));
}

int psid_slot_written(const struct psid_slab *slab, uint32_t slot, uint64_t *ret_size)
{
	return psid_memory_read(slab->fd, slot_at(slab, slot) + offsetof(struct shm_side, head),
				ret_size, sizeof(*ret_size));
}

int psid_slot_holders(const struct psid_slab *slab, uint32_t slot, uint32_t *ret_n)
{
	uint32_t n;
	int r = psid_memory_read(slab->fd, holders_at(slot), &n, sizeof(n));

	if (r == 0)
		*ret_n = n & SHM_HOLDERS;
	return r;
}

bool psid_slot_has_unsaid(const struct psid_slab *slab, uint32_t slot)
{
	uint8_t let_go;

	return psid_memory_read(slab->fd, let_go_at(slot), &let_go, sizeof(let_go)) == 0 &&
	       (let_go & ~SHM_LET_GO);
}

void psid_slot_mark_dead(struct psid_slab *slab, uint32_t slot, bool exited)
{
	uint64_t at = slot_at(slab, slot) + offsetof(struct shm_side, notice) + SHM_NOTICE_PSID / 8;
	uint8_t before = 0, now = (SHM_DEAD | (exited ? SHM_EXITED : 0)) >> SHM_NOTICE_PSID;
	char *map = map_of(slab);

	if (!map)
		return;
	/* What was said of it before remains. */
	(void)psid_memory_read(slab->fd, at, &before, sizeof(before));
	now |= before;
	(void)psid_memory_write(&(struct psid_piece){ map + at, &now, sizeof(now) }, 1);
}

void psid_slab_orphan(struct psid_slab *slab)
{
	psid_pair_slab_gone(slab->pair, slab);
	LIST_REMOVE(slab, link);
	slab->pair = NULL;
	free_if_unused(slab);
}
