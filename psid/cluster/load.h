/* How loaded this node is. */
#ifndef PULC_PSID_LOAD_H
#define PULC_PSID_LOAD_H

#include <stdint.h>

#include "node.h"

struct psid_load_meter {
	const char *from;   /* folder with the files of /proc */
	uint64_t usec_last; /* the last sample, 0: none */
	double foreign;	    /* runnable processes that are no tasks, smoothed */
	uint16_t number;
	uint32_t mib_memory;
};

void psid_load_init(struct psid_load_meter *meter, const char *from);
/*
 * Samples into load, whose n_tasks and n_cpus are the caller's and stay. Files that are missing or
 * make no sense leave what was there. Reads a few files of the kernel's, which do not block.
 */
void psid_load_sample(struct psid_load_meter *meter, uint64_t usec_now, struct psid_load *load);
/* Processors that this psid, and so its tasks, may use; at least 1. */
uint16_t psid_load_cores(void);

#endif
