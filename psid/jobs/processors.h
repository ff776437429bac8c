/* The processors that this psid may use, neighbours beside each other. */
#ifndef PULC_PSID_PROCESSORS_H
#define PULC_PSID_PROCESSORS_H

#include <stdint.h>

struct psid_processors {
	uint32_t *cpus; /* the kernel's numbers, in order */
	uint32_t n;
};

/* Returns 0 with processors to free; -ENOENT: there is no hwloc, or it knows of none; -EIO,
 * -ENOMEM. */
int psid_processors_read(struct psid_processors **ret_processors);
void psid_processors_free(struct psid_processors *processors);

#endif
