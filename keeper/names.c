/*
 * Names that ranks of a job publish for each other (MPI_Publish_name, PMIx_Publish). The head
 * keeper has them: a name is its job's, and ends with it.
 *
 * A name is one rank's, and each service (PMI-1, PMIx) has its own. Both are served as the
 * launchers of MPICH and Open MPI do it: by PMI-1 a name that is there is not published again, and
 * any rank takes it away; by PMIx who has published a name may do so anew, and nobody else takes it
 * away. A question may wait until what it asks for is published; its time may be limited.
 */
#include "names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "cleanup.h"
#include "head.h"
#include "macros.h"
#include "pmi.h"
#include "pmix.h"

struct name {
	TAILQ_ENTRY(name) link;
	uint32_t service, rank;
	bool once, of_task;
	ProtobufCBinaryData value;
	char key[];
};

/* A question that waits. */
struct lookup {
	TAILQ_ENTRY(lookup) link;
	struct keeper *keeper;
	uint32_t place;
	Pulc__Job__Names *question;
	uv_timer_t timer;
};

struct names {
	TAILQ_HEAD(, name) names;
	TAILQ_HEAD(, lookup) lookups;
};

/* ---- the store ------------------------------------------------------------------------------- */

static struct names *names_of(struct keeper *k)
{
	if (k->names)
		return k->names;
	k->names = calloc(1, sizeof(*k->names));
	if (!k->names)
		keeper_fail("names", -ENOMEM);
	TAILQ_INIT(&k->names->names);
	TAILQ_INIT(&k->names->lookups);
	return k->names;
}

static struct name *find(struct names *names, uint32_t service, const char *key)
{
	struct name *name;

	TAILQ_FOREACH(name, &names->names, link)
		if (name->service == service && strcmp(name->key, key) == 0)
			return name;
	return NULL;
}

static void drop(struct names *names, struct name *name)
{
	TAILQ_REMOVE(&names->names, name, link);
	free(name->value.data);
	free(name);
}

static void store(struct names *names, const Pulc__Job__Names *msg, const Pulc__Job__Name *given)
{
	size_t size_key = strlen(given->key) + 1;
	struct name *name = calloc(1, sizeof(*name) + size_key);

	if (name)
		name->value.data = malloc(given->value.len + 1);
	if (!name || !name->value.data)
		keeper_fail("names", -ENOMEM);
	memcpy(name->key, given->key, size_key);
	if (given->value.len > 0)
		memcpy(name->value.data, given->value.data, given->value.len);
	name->value.len = given->value.len;
	name->service = msg->service;
	name->rank = msg->rank;
	name->once = msg->once;
	name->of_task = msg->of_task;
	TAILQ_INSERT_TAIL(&names->names, name, link);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct keeper *k, uint32_t place, const Pulc__Job__Names *question, int r)
{
	Pulc__Job__Names names = PULC__JOB__NAMES__INIT;
	JOB_MESSAGE(msg, NAMES, names) = &names;

	names.act = question->act;
	names.service = question->service;
	names.rank = question->rank;
	names.token = question->token;
	names.answer = true;
	names.error = (uint32_t)-r;
	keeper_head_tell(k, place, &msg);
}

/* What of a question's names is there; those that go with the first look do. */
static void answer_found(struct keeper *k, uint32_t place, const Pulc__Job__Names *question)
{
	CLEANUP_FREE Pulc__Job__Name *found = calloc(question->n_names, sizeof(*found));
	CLEANUP_FREE Pulc__Job__Name **list = calloc(question->n_names, sizeof(*list));
	Pulc__Job__Names names = *question;
	JOB_MESSAGE(msg, NAMES, names) = &names;

	if (!found || !list)
		keeper_fail("names", -ENOMEM);
	names.answer = true;
	names.names = list;
	names.n_names = 0;
	for (size_t i = 0; i < question->n_names; i++) {
		const struct name *name = find(k->names, question->service,
					       question->names[i]->key);

		if (!name)
			continue;
		pulc__job__name__init(&found[i]);
		found[i].key = question->names[i]->key;
		found[i].value = name->value;
		found[i].rank = name->rank;
		list[names.n_names++] = &found[i];
	}
	names.error = names.n_names == 0 ? ENOENT : 0;
	keeper_head_tell(k, place, &msg);
	for (size_t i = 0; i < question->n_names; i++) {
		struct name *name = find(k->names, question->service, question->names[i]->key);

		if (name && name->once)
			drop(k->names, name);
	}
}

/* ---- questions ------------------------------------------------------------------------------- */

static bool is_there(struct names *names, const Pulc__Job__Names *question)
{
	size_t n = 0;

	for (size_t i = 0; i < question->n_names; i++)
		n += find(names, question->service, question->names[i]->key) != NULL;
	return n >= MIN(question->n_wait, question->n_names);
}

static void on_freed(uv_handle_t *handle)
{
	struct lookup *lookup = CONTAINER_OF(handle, struct lookup, timer);

	pulc__job__names__free_unpacked(lookup->question, NULL);
	free(lookup);
}

static void end_wait(struct lookup *lookup)
{
	TAILQ_REMOVE(&lookup->keeper->names->lookups, lookup, link);
	uv_close((uv_handle_t *)&lookup->timer, on_freed);
}

static void on_time_over(uv_timer_t *timer)
{
	struct lookup *lookup = CONTAINER_OF(timer, struct lookup, timer);

	answer(lookup->keeper, lookup->place, lookup->question, -ETIMEDOUT);
	end_wait(lookup);
}

static Pulc__Job__Names *copy(const Pulc__Job__Names *msg)
{
	size_t len = pulc__job__names__get_packed_size(msg);
	CLEANUP_FREE uint8_t *bytes = malloc(len + 1);

	if (bytes)
		(void)pulc__job__names__pack(msg, bytes);
	return bytes ? pulc__job__names__unpack(NULL, len, bytes) : NULL;
}

static void wait_for(struct keeper *k, uint32_t place, const Pulc__Job__Names *msg)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (lookup)
		lookup->question = copy(msg);
	if (!lookup || !lookup->question || uv_timer_init(&k->loop, &lookup->timer) < 0)
		keeper_fail("names", -ENOMEM);
	lookup->keeper = k;
	lookup->place = place;
	TAILQ_INSERT_TAIL(&k->names->lookups, lookup, link);
	if (msg->sec_wait > 0)
		(void)uv_timer_start(&lookup->timer, on_time_over, (uint64_t)msg->sec_wait * 1000,
				     0);
}

static void look_up(struct keeper *k, uint32_t place, const Pulc__Job__Names *msg)
{
	if (is_there(k->names, msg))
		answer_found(k, place, msg);
	else
		wait_for(k, place, msg);
}

static void serve_waiting(struct keeper *k)
{
	struct lookup *lookup, *next;

	for (lookup = TAILQ_FIRST(&k->names->lookups); lookup; lookup = next) {
		next = TAILQ_NEXT(lookup, link);
		if (!is_there(k->names, lookup->question))
			continue;
		answer_found(k, lookup->place, lookup->question);
		end_wait(lookup);
	}
}

/* All of them or none. */
static int publish(struct names *names, const Pulc__Job__Names *msg)
{
	struct name *name;

	for (size_t i = 0; i < msg->n_names; i++) {
		name = find(names, msg->service, msg->names[i]->key);
		if (name && (msg->service == FENCE_PMI1 || name->rank != msg->rank))
			return -EEXIST;
	}
	for (size_t i = 0; i < msg->n_names; i++) {
		name = find(names, msg->service, msg->names[i]->key);
		if (name)
			drop(names, name);
		store(names, msg, msg->names[i]);
	}
	return 0;
}

static int unpublish(struct names *names, const Pulc__Job__Names *msg)
{
	int r = -ENOENT;

	for (size_t i = 0; i < msg->n_names; i++) {
		struct name *name = find(names, msg->service, msg->names[i]->key);

		if (!name || (msg->service != FENCE_PMI1 && name->rank != msg->rank))
			continue;
		drop(names, name);
		r = 0;
	}
	return r;
}

void keeper_names_take(struct keeper *k, uint32_t place, const Pulc__Job__Names *msg)
{
	struct names *names = names_of(k);

	if (msg->act == PULC__JOB__NAMES_ACT__LOOKUP) {
		look_up(k, place, msg);
	} else if (msg->act == PULC__JOB__NAMES_ACT__UNPUBLISH) {
		answer(k, place, msg, unpublish(names, msg));
	} else {
		answer(k, place, msg, publish(names, msg));
		serve_waiting(k);
	}
}

void keeper_names_task_ended(struct keeper *k, uint32_t rank)
{
	struct name *name, *next;

	if (!k->names)
		return;
	for (name = TAILQ_FIRST(&k->names->names); name; name = next) {
		next = TAILQ_NEXT(name, link);
		if (name->of_task && name->rank == rank)
			drop(k->names, name);
	}
}

void keeper_names_answered(struct keeper *k, const Pulc__Job__Names *names)
{
	if (names->service == FENCE_PMI1)
		pmi1_names_answered(k, names);
	else
		pmix_names_answered(k, names);
}
