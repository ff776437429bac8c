/* Metrics for those who gather them: OpenMetrics text over HTTP. */
#ifndef PULC_PSID_METRICS_H
#define PULC_PSID_METRICS_H

#include <stddef.h>

#define PSID_METRICS_PORT 9547u

struct psid;
struct psid_metrics;

/*
 * Serves them at config->metrics, if that is set. NULL: it is not, or can't be done, with a line in
 * the log; psid does without.
 */
struct psid_metrics *psid_metrics_start(struct psid *psid);
/* Ends all requests; handles close in the loop. Harmless with NULL. */
void psid_metrics_stop(struct psid_metrics *metrics);

/* metrics_text.c: all of them as of now, to be freed. NULL: no memory. */
char *psid_metrics_text(const struct psid *psid, size_t *ret_len);

#endif
