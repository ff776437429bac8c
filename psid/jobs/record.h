/* What a psid writes down about the jobs of its node, for the psid after it. */
#ifndef PULC_PSID_RECORD_H
#define PULC_PSID_RECORD_H

#include "job.h"

/* Its keeper runs. If it cannot be written down, only the log says so. */
void psid_record_write(const struct psid_job *job);
/* NULL: there is none. To be freed by pulc__peer__kept__free_unpacked. */
Pulc__Peer__Kept *psid_record_read(const struct psid *psid, const char *id);
/* The job has ended. */
void psid_record_remove(const struct psid_job *job);
/* At the start: what is written about keepers that are gone is removed. */
void psid_records_sweep(const struct psid *psid);

#endif
