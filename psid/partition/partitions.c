/*
 * How all psids come to have the same book.
 *
 * Nobody owns it. A change is a new version of one record (book.c), made by the psid that was asked
 * for it, which tells all others that are up; who hears it first tells about three more, for its
 * maker may have died before it had told all. Whoever was not up, or did not hear it, gets it when
 * it comes back, or its connection does: about three of the others send it the digest of their
 * books; where its own differs, both send each other all that they have. The same words are said to
 * somebody once a minute, in case that anything was lost in a way that nobody has thought of. A
 * cluster without partitions says nothing of all this.
 *
 * Each psid writes its book down, in a thread of libuv's, for a disk may block. Who makes a change
 * is answered when another node has it, or, where there is none, when it is on the disk: what he
 * was told of is not lost with the node that told him.
 */
#include "partitions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "book_file.h"
#include "cleanup.h"
#include "client.h"
#include "cluster.h"
#include "deadline.h"
#include "log.h"
#include "macros.h"
#include "peer.h"
#include "psid.h"

#define MSEC_ANSWER 2000
#define MSEC_REPAIR 60000
#define N_GREETERS 3u

/* A client that is answered when another node knows what it has changed. */
struct wait {
	LIST_ENTRY(wait) link;
	struct psid_deadline deadline;
	struct psid_client *client;
	uint32_t number;
	bool is_alone; /* the disk is all there is */
};

struct psid_partitions {
	struct psid *psid;
	struct psid_book book;
	struct psid_cluster_watch watch;
	uv_timer_t repair;
	struct psid_deadlines answers;
	LIST_HEAD(, wait) waits;
	uint32_t last_number;
	uint32_t random;
	unsigned n_busy; /* handles and the writer: the memory is libuv's */

	char path[PSID_SIZE_PATH + 16];
	uv_work_t writer;
	bool is_writing, is_dirty;
	uint8_t *bytes;
	size_t len;
	int written;
};

const struct psid_book *psid_partitions_book(const struct psid *psid)
{
	return &psid->partitions->book;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void release(struct psid_partitions *p)
{
	if (--p->n_busy > 0)
		return;
	psid_book_deinit(&p->book);
	free(p);
}

static void answer(struct psid_partitions *p, struct wait *wait, const char *error,
		   const char *note)
{
	psid_deadline_clear(&p->answers, &wait->deadline);
	LIST_REMOVE(wait, link);
	psid_partition_reply(wait->client, error, note);
	free(wait);
}

static void write_file(uv_work_t *work)
{
	struct psid_partitions *p = CONTAINER_OF(work, struct psid_partitions, writer);

	p->written = psid_book_write(p->path, p->bytes, p->len);
}

static void save(struct psid_partitions *p);

static void on_written(uv_work_t *work, int status)
{
	struct psid_partitions *p = CONTAINER_OF(work, struct psid_partitions, writer);
	struct wait *wait, *next;

	(void)status;
	free(TAKE_PTR(p->bytes));
	p->is_writing = false;
	if (p->written < 0)
		psid_log(PSID_WARNING, "%s: %s: partitions are not kept over a restart", p->path,
			 strerror(-p->written));
	if (p->is_dirty)
		save(p);
	for (wait = LIST_FIRST(&p->waits); wait && !p->is_writing; wait = next) {
		next = LIST_NEXT(wait, link);
		if (wait->is_alone)
			answer(p, wait, "",
			       p->written < 0 ? "it could not be written down: see the log" : "");
	}
	release(p);
}

static void save(struct psid_partitions *p)
{
	p->is_dirty = p->is_writing;
	if (p->is_writing)
		return;
	if (psid_book_pack(&p->book, &p->bytes, &p->len) < 0 ||
	    uv_queue_work(&p->psid->loop, &p->writer, write_file, on_written) < 0) {
		psid_log(PSID_WARNING, "no memory to write partitions down");
		free(TAKE_PTR(p->bytes));
		return;
	}
	p->is_writing = true;
	p->n_busy++;
}

static void load(struct psid_partitions *p)
{
	int r;

	(void)snprintf(p->path, sizeof(p->path), "%s/partitions", p->psid->config->state_dir);
	r = psid_book_read(&p->book, p->path);
	if (r < 0 && r != -ENOENT)
		psid_log(PSID_WARNING, "%s: %s: what partitions there are is for the others to say",
			 p->path, r == -EBADMSG ? "damaged" : strerror(-r));
}

/* ---- telling --------------------------------------------------------------------------------- */

static int tell(struct psid_partitions *p, uint64_t node, Pulc__Peer__PartitionRecord *record,
		uint32_t number, bool is_fresh)
{
	Pulc__Peer__PartitionNews news = PULC__PEER__PARTITION_NEWS__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	news.record = record;
	news.number = number;
	news.fresh = is_fresh;
	msg.body_case = PULC__PEER__MESSAGE__BODY_PARTITION_NEWS;
	msg.partition_news = &news;
	return psid_peer_send(p->psid->cluster, node, &msg);
}

static void send_digest(struct psid_partitions *p, uint64_t node, bool is_answer)
{
	Pulc__Peer__PartitionDigest digest = PULC__PEER__PARTITION_DIGEST__INIT;
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;

	digest.digest = psid_book_digest(&p->book);
	digest.answer = is_answer;
	msg.body_case = PULC__PEER__MESSAGE__BODY_PARTITION_DIGEST;
	msg.partition_digest = &digest;
	(void)psid_peer_send(p->psid->cluster, node, &msg);
}

static bool is_other(const struct psid_partitions *p, const struct psid_node *node)
{
	return node != psid_node_self(p->psid->cluster) && psid_node_is_up(node);
}

static uint32_t count_others(const struct psid_partitions *p)
{
	const struct psid_node *node = NULL;
	uint32_t n = 0;

	while ((node = psid_node_next(p->psid->cluster, node ? node->id : 0)))
		n += is_other(p, node);
	return n;
}

/* xorshift: nothing depends on its being good. */
static uint32_t draw(struct psid_partitions *p, uint32_t below)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 17;
	p->random ^= p->random << 5;
	return p->random % below;
}

int psid_partitions_make(struct psid_client *client, Pulc__Peer__PartitionRecord *record)
{
	struct psid_partitions *p = client->psid->partitions;
	const struct psid_node *node = NULL;
	struct wait *wait = calloc(1, sizeof(*wait));
	int r = wait ? psid_book_take(&p->book, record) : -ENOMEM;

	if (r <= 0) {
		free(wait);
		return r;
	}
	wait->client = client;
	wait->number = ++p->last_number;
	wait->is_alone = true;
	while ((node = psid_node_next(p->psid->cluster, node ? node->id : 0)))
		if (is_other(p, node) && tell(p, node->id, record, wait->number, true) == 0)
			wait->is_alone = false;
	LIST_INSERT_HEAD(&p->waits, wait, link);
	psid_deadline_set(&p->answers, &wait->deadline);
	save(p);
	return r;
}

void psid_partitions_forget(struct psid_client *client)
{
	struct psid_partitions *p = client->psid->partitions;
	struct wait *wait, *next;

	for (wait = LIST_FIRST(&p->waits); wait; wait = next) {
		next = LIST_NEXT(wait, link);
		if (wait->client != client)
			continue;
		psid_deadline_clear(&p->answers, &wait->deadline);
		LIST_REMOVE(wait, link);
		free(wait);
	}
}

static void on_deadline(struct psid_deadline *deadline)
{
	struct wait *wait = CONTAINER_OF(deadline, struct wait, deadline);

	answer(wait->client->psid->partitions, wait, "",
	       wait->is_alone ? "the disk is slow: it is not written down yet"
			      : "no other node has confirmed it yet");
}

/* Should its maker have died before all had heard it: to about N_GREETERS more. */
static void pass_on(struct psid_partitions *p, uint64_t from, Pulc__Peer__PartitionRecord *record)
{
	const struct psid_node *node = NULL;
	uint32_t n = count_others(p);

	while ((node = psid_node_next(p->psid->cluster, node ? node->id : 0)))
		if (node->id != from && is_other(p, node) && draw(p, n) < N_GREETERS)
			(void)tell(p, node->id, record, 0, true);
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* Those of a private psid are its owner's. */
static bool is_ours(const struct psid_partitions *p, const Pulc__Peer__PartitionRecord *record)
{
	uint32_t owner = record->partition ? record->partition->owner : 0;

	return p->psid->config->system || owner == 0 || owner == geteuid();
}

static int on_news(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	const Pulc__Peer__PartitionNews *news = msg->partition_news;
	struct psid *psid = data;
	struct psid_partitions *p = psid->partitions;
	Pulc__Peer__PartitionKnown known = PULC__PEER__PARTITION_KNOWN__INIT;
	Pulc__Peer__Message back = PULC__PEER__MESSAGE__INIT;
	int r;

	(void)life;
	if (!news->record)
		return -EBADMSG;
	if (!is_ours(p, news->record)) {
		psid_log(PSID_WARNING, "a partition of uid %u is none of this psid's",
			 news->record->partition->owner);
		return 0;
	}
	r = psid_book_take(&p->book, news->record);
	if (r == -EBADMSG)
		return r;
	if (r < 0)
		psid_log(PSID_WARNING, "a partition is not taken: %s", strerror(-r));
	if (r > 0)
		save(p);
	if (r > 0 && news->fresh)
		pass_on(p, from, news->record);
	known.number = news->number;
	back.body_case = PULC__PEER__MESSAGE__BODY_PARTITION_KNOWN;
	back.partition_known = &known;
	if (r >= 0 && news->number > 0)
		(void)psid_peer_send(psid->cluster, from, &back);
	return 0;
}

static int on_known(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	struct psid *psid = data;
	struct wait *wait;

	(void)from;
	(void)life;
	LIST_FOREACH(wait, &psid->partitions->waits, link)
		if (wait->number == msg->partition_known->number) {
			answer(psid->partitions, wait, "", "");
			break;
		}
	return 0;
}

static int on_digest(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	struct psid *psid = data;
	struct psid_partitions *p = psid->partitions;

	(void)life;
	if (msg->partition_digest->digest == psid_book_digest(&p->book))
		return 0;
	for (size_t i = 0; i < p->book.n; i++)
		(void)tell(p, from, p->book.items[i]->record, 0, false);
	if (!msg->partition_digest->answer)
		send_digest(p, from, true);
	return 0;
}

/* ---- who may have missed something ----------------------------------------------------------- */

/* About N_GREETERS of all nodes do it. */
static void greet(struct psid_partitions *p, const struct psid_node *node)
{
	if (p->book.n > 0 && is_other(p, node) && draw(p, count_others(p)) < N_GREETERS)
		send_digest(p, node->id, false);
}

static void on_changed(void *data, const struct psid_node *node)
{
	greet(data, node);
}

static void on_lost(void *data, uint64_t id)
{
	struct psid_partitions *p = data;
	const struct psid_node *node = psid_node_find(p->psid->cluster, id);

	if (node)
		greet(p, node);
}

static void on_repair(uv_timer_t *timer)
{
	struct psid_partitions *p = CONTAINER_OF(timer, struct psid_partitions, repair);
	const struct psid_node *node = NULL;
	uint32_t n = count_others(p), i;

	if (p->book.n == 0 || n == 0)
		return;
	i = draw(p, n);
	while ((node = psid_node_next(p->psid->cluster, node ? node->id : 0)))
		if (is_other(p, node) && i-- == 0) {
			send_digest(p, node->id, false);
			return;
		}
}

/* ---- the whole ------------------------------------------------------------------------------- */

int psid_partitions_start(struct psid *psid)
{
	struct psid_partitions *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	psid->partitions = p;
	p->psid = psid;
	p->n_busy = 2;
	p->random = (uint32_t)psid->instance | 1;
	LIST_INIT(&p->waits);
	load(p);
	psid_deadlines_init(&p->answers, &psid->loop, MSEC_ANSWER, on_deadline);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_PARTITION_NEWS, on_news, psid);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_PARTITION_KNOWN, on_known, psid);
	psid_peer_on(psid->cluster, PULC__PEER__MESSAGE__BODY_PARTITION_DIGEST, on_digest, psid);
	p->watch = (struct psid_cluster_watch){ .changed = on_changed, .lost = on_lost, .data = p };
	psid_cluster_watch(psid->cluster, &p->watch);
	(void)uv_timer_init(&psid->loop, &p->repair);
	if (!psid_cluster_is_on(psid->cluster))
		return 0;
	return uv_timer_start(&p->repair, on_repair, MSEC_REPAIR, MSEC_REPAIR);
}

static void on_closed(uv_handle_t *handle)
{
	release(handle->data);
}

void psid_partitions_close(struct psid *psid)
{
	struct psid_partitions *p = psid->partitions;

	psid_cluster_unwatch(&p->watch);
	p->repair.data = p->answers.timer.data = p;
	uv_close((uv_handle_t *)&p->repair, on_closed);
	uv_close((uv_handle_t *)&p->answers.timer, on_closed);
}
