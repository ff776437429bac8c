/* What a HAL lacks, added once: a link in order, reliable, with large frames, over one that is none
 * of it. */
#ifndef PULC_HAL_REPAIR_H
#define PULC_HAL_REPAIR_H

#include "hal.h"

struct hal_repair_config {
	/* The time; NULL: the monotonic clock. */
	uint64_t (*nsec_now)(void *arg);
	void *arg;
	uint64_t nsec_dead; /* after so long without an answer the peer counts as dead; 0: never */
	uint32_t n_slots;   /* packets in a window, a power of two from 8 to 4096; 0: as fits */
	uint32_t frame_max; /* wanted; 0: 32 KiB. What it became stands in the link's caps */
	uint32_t seq_first; /* the first packet's number, the same at both ends */
};

/* What happened so far. */
struct hal_repair_counts {
	uint64_t n_packets;    /* sent for the first time */
	uint64_t n_fast;       /* repeated because later ones had come */
	uint64_t n_late;       /* repeated because no answer had come in time */
	uint64_t n_acks;       /* sent without data */
	uint64_t n_duplicates; /* received once more */
};

/* Does such a HAL lack what every protocol may rely on? */
bool hal_repair_is_needed(const struct hal_caps *caps);

/*
 * A link over `below`, whose peer does the same with the same config; it owns `below` from then on,
 * unless this fails. config may be NULL. 0; -ENOMEM; -EINVAL: a window that is no window, or frames
 * too small for the packets' heads.
 */
int hal_repair_open(struct hal_link *below, const struct hal_repair_config *config,
		    struct hal_link **ret_link);

void hal_repair_count(const struct hal_link *link, struct hal_repair_counts *ret_counts);

#endif
