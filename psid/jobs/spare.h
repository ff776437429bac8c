/* A keeper that waits for the next job. */
#ifndef PULC_PSID_SPARE_H
#define PULC_PSID_SPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "clone.h"

struct psid;
struct psid_job;

/* Has one wait from now on, if that can be. */
void psid_spare_make(struct psid *psid);
/* Ends it now, if there is one. */
void psid_spare_drop(struct psid *psid);
/* The number of the next job: the one that a keeper waits for, or a new one. */
uint32_t psid_spare_number(struct psid *psid);
/*
 * Gives the job of that number to the keeper that waits for it. The gifts stay the caller's.
 * Returns 0; -ENOENT: none does, and nothing stands in the way of another one.
 */
int psid_spare_take(struct psid_job *job, const struct psid_gifts *gifts);
/* Is it for the job of this name? */
bool psid_spare_is(const struct psid *psid, const char *id);
/* Its process; 0: there is none. */
pid_t psid_spare_process(const struct psid *psid);
/* It was buried. */
void psid_spare_ended(struct psid *psid);

#endif
