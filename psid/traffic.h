/* How much the programs of this node move through rings, queues and links. */
#ifndef PULC_PSID_TRAFFIC_H
#define PULC_PSID_TRAFFIC_H

#include <stdint.h>

struct psid;
struct psid_side;

/* From now on the cluster knows of it. */
void psid_traffic_start(struct psid *psid);
/* A side has come with bytes that it wrote before: they do not count. */
void psid_traffic_returned(struct psid_side *side);
/* The side says that it has written so much by now; at its end the last time. */
void psid_traffic_count(struct psid_side *side, uint64_t size_written, uint64_t usec_now);
/* Looks at all sides, unless that was done a moment ago. Returns bytes a second; 0: not known
 * yet. */
uint64_t psid_traffic_look(struct psid *psid, uint64_t usec_now);

#endif
