/*
 * Launching on other nodes, by tree.
 *
 * The origin makes the job's key and a listening socket for its head keeper, starts that one, and
 * sends Launch to N_BRANCHES nodes at most, each with its part of the others to pass it on to. Each
 * psid starts its keeper, which calls the head keeper itself: from then on no psid is in the way of
 * the job. What the tasks are to run is known to head keeper and keepers only.
 *
 * A psid believes another one, for both hold the cluster's key; but it starts nothing for a user
 * who has another number here, or none. Names are looked up in libuv's threads, for a name service
 * may block.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "client.h"
#include "cluster.h"
#include "job.h"
#include "log.h"
#include "macros.h"
#include "partitions.h"
#include "peer.h"
#include "psid.h"
#include "reservation.h"
#include "user.h"

#define N_BRANCHES 4u
#define SIZE_KEY 32u
#define SIZE_USER 256u

/* A name service's answer that is waited for; the request is freed with it. */
struct lookup {
	uv_work_t work;
	struct psid *psid;
	uint32_t uid;
	bool by_name, found;
	char name[SIZE_USER];
	uint8_t *packed; /* a Launch */
	size_t len;
};

/* ---- the origin ------------------------------------------------------------------------------ */

static int listen_for_keepers(struct psid *psid, Pulc__Job__Start *start, int *ret_fd)
{
	const struct psid_node *self = psid_node_self(psid->cluster);
	CLEANUP_FD int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct psid_address address = self->address;
	struct sockaddr_storage storage;
	struct sockaddr_in6 *sa = (struct sockaddr_in6 *)&storage;
	socklen_t len = sizeof(storage);
	char text[INET6_ADDRSTRLEN];
	int no = 0;

	if (fd < 0)
		return -errno;
	address.port = 0;
	len = psid_address_to_socket(&address, AF_INET6, &storage);
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	if (bind(fd, (struct sockaddr *)&storage, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)&storage, &len) < 0)
		return -errno;
	start->address = strdup(inet_ntop(AF_INET6, &sa->sin6_addr, text, sizeof(text)));
	start->port = ntohs(sa->sin6_port);
	*ret_fd = TAKE_FD(fd);
	return start->address ? 0 : -ENOMEM;
}

int psid_job_prepare_launch(struct psid *psid, Pulc__Job__Start *start, int *ret_listen_fd)
{
	size_t n_remote = start->n_places - (start->here < start->n_places ? 1 : 0);
	int r;

	if (n_remote == 0)
		return 0;
	r = listen_for_keepers(psid, start, ret_listen_fd);
	if (r < 0)
		return r;
	start->key.data = malloc(SIZE_KEY);
	start->key.len = SIZE_KEY;
	if (!start->key.data)
		return -ENOMEM;
	return getrandom(start->key.data, SIZE_KEY, 0) == (ssize_t)SIZE_KEY ? 0 : -EIO;
}

void psid_job_forget_launch(Pulc__Job__Start *start)
{
	free(start->key.data);
	if (start->port > 0)
		free(start->address);
}

static void tell_head(struct psid *psid, const char *id, uint32_t here, const char *text)
{
	Pulc__Wire__KeeperLost lost = PULC__WIRE__KEEPER_LOST__INIT;
	PSID_MESSAGE(msg, KEEPER_LOST, keeper_lost) = &lost;
	struct psid_job *job = psid_job_find(psid, id);

	lost.here = here;
	lost.text = (char *)text;
	if (job && job->client)
		(void)psid_client_send(job->client, &msg, NULL, 0);
	else if (job && job->n_early < JOB_N_EARLY) /* its keeper has not called yet */
		job->early[job->n_early++] = (struct job_early){ here, strdup(text) };
}

void psid_job_tell_early(struct psid_job *job)
{
	for (uint32_t i = 0; i < job->n_early; i++) {
		const char *text = job->early[i].text;

		tell_head(job->psid, job->id, job->early[i].here,
			  text ? text : "its node did not start it");
	}
	psid_job_forget_early(job);
}

void psid_job_forget_early(struct psid_job *job)
{
	for (uint32_t i = 0; i < job->n_early; i++)
		free(job->early[i].text);
	job->n_early = 0;
}

/* The node of a place, by name. */
static const struct psid_node *node_of(struct psid *psid, const Pulc__Job__Start *start,
				       uint32_t here)
{
	return here < start->n_places
		       ? psid_node_find_name(psid->cluster, start->places[here]->node)
		       : NULL;
}

static void fail(struct psid *psid, uint64_t origin, const Pulc__Job__Start *start, uint32_t here,
		 const char *text)
{
	Pulc__Peer__NotLaunched not_launched = PULC__PEER__NOT_LAUNCHED__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	if (psid_may_remark(&psid->remarks, start->identity->uid, PSID_WARNING))
		psid_log(PSID_WARNING, "place %u of job %s (uid %u): %s", here, start->id,
			 start->identity->uid, text);
	if (origin == psid_node_self(psid->cluster)->id) {
		tell_head(psid, start->id, here, text);
		return;
	}
	not_launched.job = start->id;
	not_launched.here = here;
	not_launched.error = (char *)text;
	msg.body_case = PULC__PEER__MESSAGE__BODY_NOT_LAUNCHED;
	msg.not_launched = &not_launched;
	(void)psid_peer_send(psid->cluster, origin, &msg);
}

/* Sends `launch` to the first of n places, with the others for it to pass on. */
static void send_branch(struct psid *psid, const Pulc__Job__Start *start, Pulc__Peer__Launch launch,
			uint32_t *heres, size_t n)
{
	const struct psid_node *node = node_of(psid, start, heres[0]);
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	int r = -EHOSTUNREACH;

	launch.heres = heres;
	launch.n_heres = n;
	msg.body_case = PULC__PEER__MESSAGE__BODY_LAUNCH;
	msg.launch = &launch;
	if (node)
		r = psid_peer_send(psid->cluster, node->id, &msg);
	for (size_t i = 0; r < 0 && i < n; i++)
		fail(psid, launch.origin, start, heres[i], psid_job_error(r));
}

/* All these places, divided among N_BRANCHES. */
static void send_branches(struct psid *psid, const Pulc__Job__Start *start,
			  const Pulc__Peer__Launch *launch, uint32_t *heres, size_t n)
{
	size_t n_branches = MIN(n, N_BRANCHES), at = 0;

	for (size_t i = 0; i < n_branches; i++) {
		size_t size = (n - at) / (n_branches - i);

		send_branch(psid, start, *launch, heres + at, size);
		at += size;
	}
}

static void send_launch(struct psid *psid, const Pulc__Peer__Launch *launch)
{
	Pulc__Job__Start *start = pulc__job__start__unpack(NULL, launch->start.len,
							   launch->start.data);
	CLEANUP_FREE uint32_t *heres = NULL;
	size_t n = 0;

	if (start)
		heres = calloc(start->n_places + 1, sizeof(*heres));
	for (uint32_t i = 0; heres && i < start->n_places; i++)
		if (i != start->here)
			heres[n++] = i;
	if (heres)
		send_branches(psid, start, launch, heres, n);
	if (start)
		pulc__job__start__free_unpacked(start, NULL);
}

/* ---- names of users -------------------------------------------------------------------------- */

static void look_up(uv_work_t *work)
{
	struct lookup *lookup = CONTAINER_OF(work, struct lookup, work);
	struct passwd entry, *found = NULL;
	char buf[4096];

	if (lookup->by_name) {
		(void)getpwnam_r(lookup->name, &entry, buf, sizeof(buf), &found);
		lookup->found = found && found->pw_uid == lookup->uid;
		return;
	}
	(void)getpwuid_r(lookup->uid, &entry, buf, sizeof(buf), &found);
	lookup->found = found != NULL;
	if (found)
		(void)snprintf(lookup->name, sizeof(lookup->name), "%s", found->pw_name);
}

static struct lookup *lookup_new(struct psid *psid, const Pulc__Peer__Launch *launch, uint32_t uid)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return NULL;
	lookup->psid = psid;
	lookup->uid = uid;
	lookup->by_name = launch->user[0] != '\0';
	(void)snprintf(lookup->name, sizeof(lookup->name), "%s", launch->user);
	lookup->len = pulc__peer__launch__get_packed_size(launch);
	lookup->packed = malloc(lookup->len + 1);
	if (!lookup->packed) {
		free(lookup);
		return NULL;
	}
	(void)pulc__peer__launch__pack(launch, lookup->packed);
	return lookup;
}

static Pulc__Peer__Launch *lookup_free(struct lookup *lookup)
{
	Pulc__Peer__Launch *launch = pulc__peer__launch__unpack(NULL, lookup->len, lookup->packed);

	free(lookup->packed);
	free(lookup);
	return launch;
}

static void on_origin_name(uv_work_t *work, int status)
{
	struct lookup *lookup = CONTAINER_OF(work, struct lookup, work);
	struct psid *psid = lookup->psid;
	char name[SIZE_USER];
	Pulc__Peer__Launch *launch;
	char *before;

	(void)status;
	(void)snprintf(name, sizeof(name), "%s", lookup->found ? lookup->name : "?");
	launch = lookup_free(lookup);
	if (!launch || !psid->jobs)
		return;
	before = launch->user;
	launch->user = name;
	send_launch(psid, launch);
	launch->user = before;
	pulc__peer__launch__free_unpacked(launch, NULL);
}

void psid_job_launch(struct psid_job *job, const Pulc__Job__Start *start)
{
	struct psid *psid = job->psid;
	Pulc__Peer__Launch launch = PULC__PEER__LAUNCH__INIT;
	CLEANUP_FREE uint8_t *packed = malloc(pulc__job__start__get_packed_size(start));
	struct lookup *lookup;

	if (start->port == 0 || !packed)
		return;
	launch.start.len = pulc__job__start__pack(start, packed);
	launch.start.data = packed;
	launch.n_cpus = job->n_cpus;
	launch.program = job->program;
	launch.partition = job->partition;
	launch.reservation = job->reservation;
	launch.reserves = job->reserves;
	launch.origin = psid_node_self(psid->cluster)->id;
	if (!psid->config->system) {
		send_launch(psid, &launch);
		return;
	}
	lookup = lookup_new(psid, &launch, start->identity->uid);
	if (lookup)
		(void)uv_queue_work(&psid->loop, &lookup->work, look_up, on_origin_name);
}

/* ---- the other nodes ------------------------------------------------------------------------- */

static int start_here(struct psid *psid, const Pulc__Peer__Launch *launch, Pulc__Job__Start *start)
{
	struct psid_user *user = psid_user_get(psid, start->identity->uid);
	struct psid_job *job = user ? psid_job_new(psid, user, start->id) : NULL;
	int r;

	(void)psid_user_unref(user);
	if (!job)
		return -ENOMEM;
	job->number = start->number;
	job->n_cpus = launch->n_cpus;
	job->n_tasks = (uint32_t)start->places[start->here]->n_ranks;
	for (size_t i = 0; i < start->n_places; i++)
		job->n_ranks += (uint32_t)start->places[i]->n_ranks;
	psid_job_set_program(job, launch->program);
	(void)strcpy(job->partition, launch->partition);
	(void)strcpy(job->reservation, launch->reservation);
	job->reserves = launch->reserves;
	r = psid_job_spawn(job, start, -EBADF, -EBADF);
	if (r < 0)
		psid_job_end(job);
	else
		psid_jobs_count(psid);
	return r;
}

const char *psid_job_objection(struct psid *psid, const char *id, const char *partition,
			       uint32_t uid)
{
	uint64_t self = psid_node_self(psid->cluster)->id;
	const struct psid_book *book = psid_partitions_book(psid);
	const char *why = psid_book_objection(book, self, partition, uid);
	struct psid_map_node *node = NULL;

	if (why || !psid_book_holder(book, self))
		return why;
	while ((node = psid_map_next(&psid->jobs->by_id, node))) {
		const struct psid_job *job = CONTAINER_OF(node, struct psid_job, node);

		if (job->n_tasks > 0 && strcmp(job->id, id) != 0)
			return "the node is exclusive, and another job runs there";
	}
	return NULL;
}

/* Are we to do this, and for this user? Returns NULL, or why not. */
static const char *objection(struct psid *psid, const Pulc__Peer__Launch *launch,
			     const Pulc__Job__Start *start, bool known_user)
{
	uint32_t uid = start->identity->uid;

	if (strcmp(start->places[start->here]->node, psid->jobs->node) != 0)
		return "this is another node";
	if (start->identity->change != psid->config->system)
		return "one node has a psid of the system, the other a private one";
	if (!psid->config->system && uid != geteuid())
		return "the psid of that node is another user's";
	if (!known_user)
		return "the user has another number on that node, or none";
	if (!psid_config_allows(psid->config, uid))
		return "the user may not use the psid of that node (AllowUsers)";
	if (launch->reservation[0])
		return psid_reservation_objection(psid, launch->reservation, uid);
	return psid_job_objection(psid, start->id, launch->partition, uid);
}

static void launch_here(struct psid *psid, const Pulc__Peer__Launch *launch, bool known_user)
{
	Pulc__Job__Start *start = pulc__job__start__unpack(NULL, launch->start.len,
							   launch->start.data);
	const char *why;
	char *socket;
	int r;

	if (!start)
		return;
	start->here = launch->heres[0];
	start->head = false;
	why = objection(psid, launch, start, known_user);
	socket = start->socket;
	start->socket = (char *)psid->config->socket;
	r = why ? -EPERM : start_here(psid, launch, start);
	start->socket = socket;
	if (r < 0)
		fail(psid, launch->origin, start, start->here, why ? why : psid_job_error(r));
	pulc__job__start__free_unpacked(start, NULL);
}

static void on_name(uv_work_t *work, int status)
{
	struct lookup *lookup = CONTAINER_OF(work, struct lookup, work);
	struct psid *psid = lookup->psid;
	bool found = lookup->found;
	Pulc__Peer__Launch *launch = lookup_free(lookup);

	(void)status;
	if (launch && psid->jobs)
		launch_here(psid, launch, found);
	if (launch)
		pulc__peer__launch__free_unpacked(launch, NULL);
}

static bool is_sound(const Pulc__Peer__Launch *launch, const Pulc__Job__Start *start)
{
	if (!start || !start->identity || launch->n_heres == 0 ||
	    strlen(launch->program) >= JOB_SIZE_PROGRAM ||
	    strlen(launch->partition) >= JOB_SIZE_NODE ||
	    strlen(launch->reservation) >= JOB_SIZE_ID || strlen(start->id) >= JOB_SIZE_ID ||
	    strchr(start->id, '/') || start->id[0] == '.')
		return false;
	for (size_t i = 0; i < launch->n_heres; i++)
		if (launch->heres[i] >= start->n_places)
			return false;
	return true;
}

static int on_launch(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__Launch *launch = msg->launch;
	Pulc__Job__Start *start = pulc__job__start__unpack(NULL, launch->start.len,
							   launch->start.data);
	struct psid *psid = data;
	struct lookup *lookup;
	int r = -EBADMSG;

	(void)from;
	(void)life;
	if (is_sound(launch, start)) {
		r = 0;
		if (launch->n_heres > 1)
			send_branches(psid, start, launch, launch->heres + 1, launch->n_heres - 1);
		if (!psid->config->system) {
			launch_here(psid, launch, true);
		} else {
			lookup = lookup_new(psid, launch, start->identity->uid);
			if (lookup)
				(void)uv_queue_work(&psid->loop, &lookup->work, look_up, on_name);
		}
	}
	if (start)
		pulc__job__start__free_unpacked(start, NULL);
	return r;
}

static int on_not_launched(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	(void)from;
	(void)life;
	tell_head(data, msg->not_launched->job, msg->not_launched->here, msg->not_launched->error);
	return 0;
}

/* ---- nodes come and go ----------------------------------------------------------------------- */

/* A node that is dead or gone has taken its tasks with it: our head keepers hear it at once. */
static void on_changed(void *data, const struct psid_node *node)
{
	struct psid *psid = data;
	struct psid_map_node *n = NULL;

	if (psid_node_is_up(node) || node->state == PSID_NODE_UNKNOWN)
		return;
	while ((n = psid_map_next(&psid->jobs->by_id, n))) {
		struct psid_job *job = CONTAINER_OF(n, struct psid_job, node);

		for (uint32_t i = 0; i < job->n_places; i++)
			if (job->places[i] == node->id)
				tell_head(psid, job->id, i, "the cluster has lost it");
	}
}

void psid_jobs_join(struct psid *psid)
{
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_LAUNCH, on_launch, psid);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_NOT_LAUNCHED, on_not_launched, psid);
	psid->jobs->watch = (struct psid_cluster_watch){ .changed = on_changed, .data = psid };
	psid_cluster_watch(psid->cluster, &psid->jobs->watch);
}
