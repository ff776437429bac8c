/*
 * Settings read once more (SIGHUP, `pulcctl reload`): as a whole or, when one is wrong, not at all.
 *
 * Limits, users, sizes and the level of the log are looked up whenever they are needed, so they
 * hold for what begins from now on; what was given out under the old ones stays. Names, places and
 * the cluster are what others know us by: they keep their old values, and those that differ are
 * named. The cluster's keys are read each time (cluster/rekey.c), and so are the certificates, for
 * connections from then on.
 *
 * Files and names of users are read by a helper thread, for a file system or a name service may
 * hang; then a reload hangs, and nothing else.
 */
#include "reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "config.h"
#include "lifecycle.h"
#include "log.h"
#include "macros.h"
#include "notify.h"
#include "operator.h"
#include "psid.h"
#include "rekey.h"
#include "user.h"

/* Whether certificates are used at all is the cluster's: that waits for a restart. */
static bool both_certified(const struct psid_config *config, const struct psid_config *next)
{
	return config->cluster.name[0] && config->cluster.certificate[0] &&
	       next->cluster.certificate[0];
}

static void take(char path[PSID_SIZE_CLUSTER_PATH], const char next[PSID_SIZE_CLUSTER_PATH])
{
	memcpy(path, next, PSID_SIZE_CLUSTER_PATH);
}

/* Takes the values that may change in a running psid. */
static void take_live(struct psid_config *config, const struct psid_config *next)
{
	config->log_level = next->log_level;
	config->sec_idle_exit = next->sec_idle_exit;
	config->msec_hand_over = next->msec_hand_over;
	memcpy(config->users, next->users, sizeof(config->users));
	config->n_users = next->n_users;
	config->gid_operators = next->gid_operators;
	config->max_processes = next->max_processes;
	config->max_clients_user = next->max_clients_user;
	config->max_areas_user = next->max_areas_user;
	config->max_descriptors_user = next->max_descriptors_user;
	config->max_bytes_user = next->max_bytes_user;
	config->max_bytes = next->max_bytes;
	config->max_hints_client = next->max_hints_client;
	config->hint_after = next->hint_after;
	config->size_credit = next->size_credit;
	memcpy(config->size_ring, next->size_ring, sizeof(config->size_ring));
	config->n_slots = next->n_slots;
	if (next->cluster.key_file[0])
		memcpy(config->cluster.key_file, next->cluster.key_file,
		       sizeof(config->cluster.key_file));
	if (both_certified(config, next)) {
		take(config->cluster.certificate, next->cluster.certificate);
		take(config->cluster.certificate_key, next->cluster.certificate_key);
		take(config->cluster.authority, next->cluster.authority);
	}
}

#define FIXED(name, member)                                                                        \
	{                                                                                          \
		name, offsetof(struct psid_config, member),                                        \
			sizeof(((struct psid_config *)0)->member)                                  \
	}

static const struct {
	const char *name;
	size_t offset, size;
} fixed[] = {
	FIXED("RuntimeDir", runtime_dir), FIXED("Socket", socket),
	FIXED("StateDir", state_dir),	  FIXED("Starter", starter),
	FIXED("Metrics", metrics),	  FIXED("the cluster's", cluster),
	FIXED("JobScope", job_scope),
};

/* The list of those that differ, or "". */
static void name_fixed(const struct psid_config *config, const struct psid_config *next, char *buf,
		       size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fixed) && n < size; i++)
		if (memcmp((const char *)config + fixed[i].offset,
			   (const char *)next + fixed[i].offset, fixed[i].size) != 0)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? ", " : "",
					      fixed[i].name);
}

/* ---- reading, aside -------------------------------------------------------------------------- */

struct psid_reload {
	uv_work_t work;
	struct psid *psid;
	uint32_t client; /* who asked; 0: a signal */
	bool again;	 /* somebody wanted one more meanwhile */
	int r;
	struct psid_config_error error;
	struct psid_config next;
	struct psid_keyring ring; /* n 0: there is no cluster */
	struct psid_tls tls;	  /* all zero: no certificates */
};

static int read_certificates(struct psid_reload *reload)
{
	struct psid_tls_error error = { "" };
	int r = psid_tls_init(&reload->tls, &reload->next.cluster, NULL, &error);

	if (r < 0)
		(void)snprintf(reload->error.text, sizeof(reload->error.text), "%s", error.text);
	return r;
}

static void on_work(uv_work_t *work)
{
	struct psid_reload *reload = CONTAINER_OF(work, struct psid_reload, work);
	const struct psid_config *config =
		reload->psid->config; /* what is read here never changes */

	reload->r = psid_config_load(config->system, config->file, &reload->next, &reload->error);
	/* A cluster is joined and left at a start only, so its name is the one that we have. */
	if (reload->r == 0 && config->cluster.name[0] && reload->next.cluster.key_file[0])
		reload->r = psid_keyring_read(reload->next.cluster.key_file, config->cluster.name,
					      &reload->ring, reload->error.text,
					      sizeof(reload->error.text));
	if (reload->r == 0 && both_certified(config, &reload->next))
		reload->r = read_certificates(reload);
}

static void answer(struct psid_client *client, const char *error, const char *waiting)
{
	Pulc__Wire__ReloadReply reply = PULC__WIRE__RELOAD_REPLY__INIT;
	PSID_MESSAGE(msg, RELOAD, reload) = &reply;

	reply.error = (char *)error;
	reply.waiting = (char *)waiting;
	(void)psid_client_send(client, &msg, NULL, 0);
}

/* The keys first, as they may be refused. */
static int apply_keys(struct psid_reload *reload)
{
	struct psid_cluster *cluster = reload->psid->cluster;
	char *why = reload->error.text;
	int r;

	if (reload->ring.n == 0)
		return 0;
	r = psid_rekey_check(cluster, &reload->ring, why, sizeof(reload->error.text));
	if (r < 0)
		return r;
	r = psid_rekey(cluster, &reload->ring);
	if (r < 0)
		(void)snprintf(why, sizeof(reload->error.text), "no memory");
	return r;
}

static void apply(struct psid *psid, struct psid_reload *reload)
{
	const struct psid_config *next = &reload->next;

	take_live(psid->config, next);
	if (reload->tls.server)
		psid_recertify(psid->cluster, &reload->tls);
	psid_log_init(psid->config->log_level);
	psid->handovers.msec = psid->config->msec_hand_over;
	psid_lifecycle_busy(psid);
	psid_lifecycle_idle(psid);
}

static void on_read(uv_work_t *work, int status)
{
	struct psid_reload *reload = CONTAINER_OF(work, struct psid_reload, work);
	struct psid *psid = reload->psid;
	struct psid_client *client = psid_client_find(psid, reload->client);
	char waiting[128] = "";

	(void)status;
	if (reload->r == 0)
		reload->r = apply_keys(reload);
	if (reload->r == 0) {
		apply(psid, reload);
		name_fixed(psid->config, &reload->next, waiting, sizeof(waiting));
		psid_log_of(PSID_LOG_RELOADED, PSID_INFO, NULL, "settings read%s%s",
			    waiting[0] ? "; these wait for a restart: " : "", waiting);
	} else {
		psid_log_of(PSID_LOG_NOT_RELOADED, PSID_ERROR, NULL,
			    "the settings stay as they were: %s", reload->error.text);
	}
	if (client && client->state == PSID_CLIENT_ATTACHED)
		answer(client, reload->r == 0 ? "" : reload->error.text, waiting);
	psid->reload = NULL;
	if (reload->again && !psid->stopping)
		psid_reload(psid, NULL);
	else if (!psid->stopping)
		psid_notify_ready(psid);
	explicit_bzero(&reload->ring, sizeof(reload->ring));
	psid_tls_deinit(&reload->tls);
	free(reload);
}

void psid_reload(struct psid *psid, const struct psid_client *client)
{
	if (psid->reload) {
		psid->reload->again = true;
		return;
	}
	psid->reload = calloc(1, sizeof(*psid->reload));
	if (!psid->reload)
		return;
	psid_notify_reloading();
	psid->reload->psid = psid;
	psid->reload->client = client ? client->id : 0;
	if (uv_queue_work(&psid->loop, &psid->reload->work, on_work, on_read) < 0) {
		free(psid->reload);
		psid->reload = NULL;
	}
}

bool psid_is_reloading(const struct psid *psid)
{
	return psid->reload != NULL;
}

/* ---- asked by a client ----------------------------------------------------------------------- */

static bool is_allowed(struct psid_client *client)
{
	if (psid_is_operator(client))
		return true;
	psid_client_refuse(client, PULC__WIRE__REASON__REASON_USER,
			   "this is for operators of this psid");
	return false;
}

int psid_reload_asked(struct psid_client *client)
{
	if (!is_allowed(client))
		return 0;
	if (client->psid->reload)
		answer(client, "the settings are just being read; try again", "");
	else
		psid_reload(client->psid, client);
	return 0;
}

/* The number of a level, or -EINVAL. */
static int level_of(const char *name)
{
	for (int level = PSID_ERROR; level <= PSID_DEBUG; level++)
		if (strcmp(psid_level_name((enum psid_level)level), name) == 0)
			return level;
	return -EINVAL;
}

int psid_log_level_asked(struct psid_client *client, const Pulc__Wire__LogLevelRequest *request)
{
	Pulc__Wire__LogLevelReply reply = PULC__WIRE__LOG_LEVEL_REPLY__INIT;
	PSID_MESSAGE(msg, LOG_LEVEL, log_level) = &reply;
	struct psid_config *config = client->psid->config;
	int level = level_of(request->level);

	if (request->level[0] && !is_allowed(client))
		return 0;
	if (request->level[0] && level < 0)
		reply.error = (char *)"no such level; there are: error warning info debug";
	if (level >= 0) {
		config->log_level = (uint32_t)level;
		psid_log_init(config->log_level);
	}
	reply.level = (char *)psid_level_name((enum psid_level)config->log_level);
	(void)psid_client_send(client, &msg, NULL, 0);
	return 0;
}
