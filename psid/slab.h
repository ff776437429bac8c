/* Slabs: the memory of one process's side of its connections with one other process. */
#ifndef PULC_PSID_SLAB_H
#define PULC_PSID_SLAB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "layout.h"
#include "map.h"
#include "memory.h"

struct psid;
struct psid_pair;
struct psid_side;
struct psid_user;
struct psid_kept;

struct psid_slab {
	struct psid_map_node by_ino; /* psid->slabs */
	LIST_ENTRY(psid_slab) link;  /* pair->slabs */
	struct psid *psid;
	struct psid_pair *pair; /* NULL: one of the two is gone, or a psid before us made it */
	struct psid_user *user; /* pays, but for what is kept */
	LIST_HEAD(, psid_kept) kept;
	uint64_t id, size, size_slot;
	uint32_t size_ring[SHM_N_RINGS];
	uint32_t n_slots, n_used, n_kept, n_emptied;
	uint64_t used[SHM_SLOTS_MAX / 64];    /* and kept, and to be emptied */
	uint64_t emptied[SHM_SLOTS_MAX / 64]; /* to be */
	uint32_t emptying;		      /* of these, just now */
	struct psid_side **sides;	      /* of each slot in use */
	int fd;
	struct psid_window window;
	bool sent_owner, sent_peer;
	bool returning; /* stays until psid_slab_tidy */
};

/*
 * A slot of the pair's for this side (its slab and slot are set), control page and first ring
 * allocated and initialised. Returns 0; the Reason (positive) of a refusal; negative errno.
 */
int psid_slot_new(struct psid_pair *pair, struct psid_side *side);
/*
 * The side is done with its slot, and so is whoever reads it; or, not `emptied`, somebody that we
 * don't know may still read it. May free the slab.
 */
void psid_slot_free(struct psid_side *side, bool emptied);
/*
 * The side is done with for psid, but somebody that we don't know may have something to read there:
 * it stays as it is, with all that its rings may hold on the account of the payer, and is given to
 * nobody, until the slab is freed; its memory then lasts as long as somebody maps it. May free the
 * slab. Returns 0; the Reason (positive) of a refusal; -ENOMEM.
 */
int psid_slot_keep(struct psid_side *side, struct psid_user *payer);

/*
 * The slab that a psid before us made and a client has returned, or that we know already. Takes *fd
 * if it keeps it. It stays, whatever becomes of its slots, until psid_slab_tidy. Returns 0;
 * -EBADMSG: not a slab; -EPERM: of another user; the Reason (positive) of a refusal; other negative
 * errno.
 */
int psid_slab_return(struct psid *psid, struct psid_user *user, int *fd,
		     struct psid_slab **ret_slab);
struct psid_slab *psid_slab_find(const struct psid *psid, uint64_t ino);
/* The slot of a returned slab is this side's. Returns 0; the Reason (positive) of a refusal;
 * -EBUSY. */
int psid_slot_return(struct psid_slab *slab, uint32_t slot, struct psid_side *side);
/* All that was returned with it is taken: frees it if no slot is used. */
void psid_slab_tidy(struct psid_slab *slab);

/* A copy of what the side says; nothing of it is true. Returns 0; negative errno. */
int psid_slot_read(const struct psid_slab *slab, uint32_t slot, struct shm_side *ret_side);
/* The bytes that the side has ever written, says it. Returns 0; negative errno. */
int psid_slot_written(const struct psid_slab *slab, uint32_t slot, uint64_t *ret_size);
/* How many processes hold the side, says its family. Nothing of it is true. Returns 0; negative
 * errno. */
int psid_slot_holders(const struct psid_slab *slab, uint32_t slot, uint32_t *ret_n);
/* Has a holder counted itself off there that had no room to say so? */
bool psid_slot_has_unsaid(const struct psid_slab *slab, uint32_t slot);
/* Tells the other side that nobody of this one is left. */
void psid_slot_mark_dead(struct psid_slab *slab, uint32_t slot, bool exited);
/* The pair ends: no new connections; freed when its last slot is. */
void psid_slab_orphan(struct psid_slab *slab);

#endif
