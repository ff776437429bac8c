/* Answers about the memory of connections. */
#ifndef PULC_PSID_REPORT_AREAS_H
#define PULC_PSID_REPORT_AREAS_H

struct psid_client;

/* Returns 0; -EBADMSG: it asks before it has read the last answer. */
int psid_report_areas(struct psid_client *client);

#endif
