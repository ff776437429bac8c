/* The jobs of this node, as the rest of psid sees them. Their inside is job.h. */
#ifndef PULC_PSID_JOBS_H
#define PULC_PSID_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "client.pb-c.h"

struct psid;
struct psid_client;

/* Returns 0, negative errno. */
int psid_jobs_start(struct psid *psid);
/* The loop ends; jobs go on without us. */
void psid_jobs_close(struct psid *psid);
/* A client is gone: perhaps it was a keeper's link, or waits for an answer. */
void psid_jobs_forget(struct psid_client *client);

/* Messages of clients; 0, or -EBADMSG. *fd is taken. */
int psid_jobs_submit(struct psid_client *client, const Pulc__Wire__Submit *submit, int *fd);
int psid_jobs_keep(struct psid_client *client, const Pulc__Wire__Keep *keep);
/* A keeper of another version, with which nothing can be talked over. Does it keep a job of an
 * earlier psid? */
bool psid_jobs_keep_foreign(struct psid_client *client);
int psid_jobs_report(struct psid_client *client, const Pulc__Wire__TaskReport *report);
int psid_jobs_list(struct psid_client *client, const Pulc__Wire__JobsRequest *request);
int psid_jobs_list_tasks(struct psid_client *client, const Pulc__Wire__TasksRequest *request);
int psid_jobs_kill(struct psid_client *client, const Pulc__Wire__KillRequest *request);
/* Is this a task of a job of the client's user that has a part on this node? */
bool psid_jobs_has_task(struct psid_client *client, const char *id, uint32_t rank);

#endif
