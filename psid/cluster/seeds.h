/* The configured seeds as addresses. */
#ifndef PULC_PSID_SEEDS_H
#define PULC_PSID_SEEDS_H

#include "loop.h"
#include "settings.h"

struct psid_cluster;

struct psid_seeds {
	struct psid_seed {
		struct psid_cluster *cluster;
		uv_getaddrinfo_t request;
		uint16_t port;
		bool is_known;
	} seeds[PSID_N_SEEDS_MAX];
	uv_timer_t timer;
	unsigned n_asked;
	bool is_started, is_closed;
	void (*done)(struct psid_cluster *cluster);
};

/*
 * Hands numeric seeds to the membership at once, and names when they are resolved, in a helper
 * thread. Calls done once, from the loop, when every seed is known or was not found; those that
 * were not are looked up again from time to time.
 */
void psid_seeds_start(struct psid_cluster *cluster, void (*done)(struct psid_cluster *cluster));
void psid_seeds_close(struct psid_cluster *cluster);

#endif
