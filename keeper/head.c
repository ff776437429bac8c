/*
 * The head of a job.
 *
 * Reports about tasks, of this node and of the others, come together here: passed on to the owner,
 * and judged. The first failure of a task ends the job unless it was asked to go on; a task's wish
 * to abort ends it in any case. When every place is done, Done goes to the owner.
 *
 * A keeper of another node is believed about its own ranks only. When its connection ends before it
 * was done, every task of it that has not ended is lost. What the owner sends goes to the nodes it
 * concerns; credit for the job's input is what all of them have read.
 *
 * A node that the cluster has lost may have lost its psid alone, and then its tasks go on. So a
 * keeper whose connection stands is asked: who does not answer, because the whole node has stopped,
 * is lost as well.
 */
#include "head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "input.h"
#include "kill.h"
#include "macros.h"
#include "names.h"
#include "owner.h"
#include "remote.h"
#include "signals.h"

#define NOWHERE UINT32_MAX
#define MSEC_TOO_LATE 20000 /* from our start until every keeper has called */
#define MSEC_ALIVE 4000	    /* a silent connection ends after as long: remote.c */
#define MSEC_LOOK 500

struct place {
	struct channel *channel; /* NULL: ours, or nobody has called yet, or gone */
	bool done;
	uint64_t msec_asked; /* whether it is alive; 0: nobody doubts it */
	uint64_t n_read;     /* of the job's input */
};

struct places {
	uint32_t n;
	uint32_t *place_of; /* by rank */
	bool *ended;	    /* by rank */
	uint8_t *input; /* what the owner sent and was not paid for: a ring of INPUT_SIZE_WINDOW */
	uint64_t n_input, n_paid;
	bool input_ended;
	struct place items[];
};

static void start_places(struct keeper *k)
{
	struct places *places = k->places;

	for (uint32_t rank = 0; rank < k->n_ranks; rank++)
		places->place_of[rank] = NOWHERE;
	for (uint32_t i = 0; i < places->n; i++)
		for (size_t j = 0; j < k->start->places[i]->n_ranks; j++)
			if (k->start->places[i]->ranks[j] < k->n_ranks)
				places->place_of[k->start->places[i]->ranks[j]] = i;
}

/* Who has not called by now never will. */
static void on_too_late(uv_timer_t *timer)
{
	struct keeper *k = CONTAINER_OF(timer, struct keeper, too_late);

	for (uint32_t i = 0; i < k->places->n; i++)
		if (i != k->start->here && !k->places->items[i].channel)
			keeper_head_lost(k, i, "its keeper does not call");
}

static int start_listening(struct keeper *k, int fd)
{
	int r = uv_timer_init(&k->loop, &k->too_late);

	if (r == 0)
		r = uv_timer_init(&k->loop, &k->silence);
	if (r == 0)
		r = uv_timer_start(&k->too_late, on_too_late, MSEC_TOO_LATE, 0);
	return r < 0 ? r : keeper_remote_listen(k, fd);
}

int keeper_head_start(struct keeper *k, int listen_fd)
{
	size_t n = k->start->n_places;

	if (!k->is_head)
		return 0;
	k->places = calloc(1, sizeof(*k->places) + n * sizeof(struct place));
	if (!k->places)
		return -ENOMEM;
	k->places->n = (uint32_t)n;
	k->places->place_of = calloc(k->n_ranks, sizeof(uint32_t));
	k->places->ended = calloc(k->n_ranks, sizeof(bool));
	if (!k->places->place_of || !k->places->ended)
		return -ENOMEM;
	start_places(k);
	return listen_fd < 0 ? 0 : start_listening(k, listen_fd);
}

/* To every other node. */
static void put_all(struct keeper *k, const struct frame *frame)
{
	for (uint32_t i = 0; i < k->places->n; i++)
		if (k->places->items[i].channel)
			channel_put_frame(k->places->items[i].channel, frame);
}

static void put_message_all(struct keeper *k, const Pulc__Job__Message *msg)
{
	for (uint32_t i = 0; i < k->places->n; i++)
		if (k->places->items[i].channel)
			channel_put(k->places->items[i].channel, msg);
}

void keeper_head_end(struct keeper *k)
{
	Pulc__Job__Kill end = PULC__JOB__KILL__INIT;
	JOB_MESSAGE(msg, KILL, kill) = &end;

	if (k->is_head)
		put_message_all(k, &msg);
	k->ending = true; /* who calls later hears it too */
	keeper_kill(k);
}

void keeper_head_end_for(struct keeper *k, const char *why)
{
	Pulc__Job__Note note = PULC__JOB__NOTE__INIT;
	JOB_MESSAGE(msg, NOTE, note) = &note;

	note.text = (char *)why;
	if (why[0] && !k->ending)
		keeper_head_report(k, &msg);
	keeper_head_end(k);
}

void keeper_head_signal(struct keeper *k, int number, uint32_t only)
{
	Pulc__Job__Signal signal = PULC__JOB__SIGNAL__INIT;
	JOB_MESSAGE(msg, SIGNAL, signal) = &signal;

	signal.number = number;
	signal.only = only;
	if (k->is_head)
		put_message_all(k, &msg);
	keeper_signal(k, number, only);
}

void keeper_head_abandon(struct keeper *k)
{
	if (!k->is_head)
		return;
	for (uint32_t i = 0; i < k->places->n; i++) {
		struct channel *channel = k->places->items[i].channel;

		k->places->items[i].channel = NULL;
		if (channel)
			channel_close(channel); /* which ends its job, as ours */
	}
}

/* ---- what ranks tell and ask each other ------------------------------------------------------ */

uint32_t keeper_head_place_of(const struct keeper *k, uint32_t rank)
{
	return rank < k->n_ranks ? k->places->place_of[rank] : NOWHERE;
}

void keeper_head_tell(struct keeper *k, uint32_t place, const Pulc__Job__Message *msg)
{
	if (place == k->start->here && k->place)
		keeper_told(k, msg);
	else if (place < k->places->n && k->places->items[place].channel)
		channel_put(k->places->items[place].channel, msg);
}

/* A question goes to the place of its rank, an answer to the place that asked. */
static void pass_modex(struct keeper *k, const Pulc__Job__Message *msg)
{
	const Pulc__Job__Modex *modex = msg->modex;

	keeper_head_tell(k, modex->answer ? modex->asker : keeper_head_place_of(k, modex->rank),
			 msg);
}

/* ---- reports --------------------------------------------------------------------------------- */

static bool has_failed(const Pulc__Job__Exited *exited)
{
	return exited->code || exited->signal || exited->error || exited->lost;
}

static void judge(struct keeper *k, const Pulc__Job__Exited *exited)
{
	bool goes_on = k->spec && k->spec->keep_going;

	k->places->ended[exited->rank] = true;
	keeper_names_task_ended(k, exited->rank);
	if (has_failed(exited) && (!goes_on || exited->aborted))
		keeper_head_end(k);
}

static void finish_when_done(struct keeper *k)
{
	Pulc__Job__Done done = PULC__JOB__DONE__INIT;
	JOB_MESSAGE(msg, DONE, done) = &done;

	for (uint32_t i = 0; i < k->places->n; i++)
		if (!k->places->items[i].done)
			return;
	if (k->finished)
		return;
	channel_put(&k->owner, &msg);
	k->finished = true;
}

/* Hangs up on a keeper: it waits for that after its Done, so that nothing it has sent is lost. */
static void hang_up(struct place *place)
{
	struct channel *channel = place->channel;

	place->channel = NULL;
	if (!channel)
		return;
	channel_close(channel);
	channel->on_end(channel, 0);
}

static bool is_of(const struct keeper *k, uint32_t rank, uint32_t place)
{
	return rank < k->n_ranks && k->places->place_of[rank] == place;
}

static bool reads_input(const struct keeper *k, uint32_t i)
{
	if (!k->spec || k->places->items[i].done)
		return false;
	switch (k->spec->input) {
	case PULC__JOB__INPUT__INPUT_ALL:
		return true;
	case PULC__JOB__INPUT__INPUT_RANK:
		return is_of(k, k->spec->input_rank, i);
	default:
		return false;
	}
}

/* What every place has read is credit for the owner. */
static void pay_input(struct keeper *k)
{
	uint64_t n = k->places->n_input;

	for (uint32_t i = 0; i < k->places->n; i++)
		if (reads_input(k, i))
			n = MIN(n, k->places->items[i].n_read);
	if (n <= k->places->n_paid)
		return;
	channel_put_credit(&k->owner, FRAME_STDIN, FRAME_ALL_RANKS,
			   (uint32_t)(n - k->places->n_paid));
	k->places->n_paid = n;
}

static void set_done(struct keeper *k, uint32_t i)
{
	k->places->items[i].done = true;
	pay_input(k); /* nobody waits for what this one has not read */
	hang_up(&k->places->items[i]);
	finish_when_done(k);
}

static void take_report(struct keeper *k, uint32_t i, const Pulc__Job__Message *msg)
{
	switch (msg->body_case) {
	case PULC__JOB__MESSAGE__BODY_FENCE:
		keeper_fence_take(k, i, msg->fence);
		return;
	case PULC__JOB__MESSAGE__BODY_NAMES:
		if (is_of(k, msg->names->rank, i))
			keeper_names_take(k, i, msg->names);
		return;
	case PULC__JOB__MESSAGE__BODY_MODEX:
		pass_modex(k, msg);
		return;
	case PULC__JOB__MESSAGE__BODY_DONE:
		set_done(k, i);
		return;
	case PULC__JOB__MESSAGE__BODY_ALIVE:
		k->places->items[i].msec_asked = 0;
		return;
	case PULC__JOB__MESSAGE__BODY_ABORT:
		if (is_of(k, msg->abort->rank, i))
			keeper_head_end(k);
		break;
	case PULC__JOB__MESSAGE__BODY_EXITED:
		if (!is_of(k, msg->exited->rank, i))
			return;
		judge(k, msg->exited);
		break;
	case PULC__JOB__MESSAGE__BODY_NOTE:
	case PULC__JOB__MESSAGE__BODY_STARTED:
		break;
	default:
		return;
	}
	channel_put(&k->owner, msg);
}

void keeper_head_report(struct keeper *k, const Pulc__Job__Message *msg)
{
	if (k->is_head)
		take_report(k, k->start->here, msg);
	else
		channel_put(&k->owner, msg);
}

void keeper_head_done(struct keeper *k)
{
	Pulc__Job__Done done = PULC__JOB__DONE__INIT;
	JOB_MESSAGE(msg, DONE, done) = &done;

	if (k->is_head && !k->place)
		finish_when_done(k);
	else if (!k->said_done)
		keeper_head_report(k, &msg);
	k->said_done = true;
}

/* ---- the other keepers ----------------------------------------------------------------------- */

static uint32_t index_of(const struct keeper *k, const struct channel *channel)
{
	uint32_t i = 0;

	while (i < k->places->n && k->places->items[i].channel != channel)
		i++;
	return i;
}

void keeper_head_input_read(struct keeper *k, uint32_t n)
{
	if (!k->is_head) {
		channel_put_credit(&k->owner, FRAME_STDIN, FRAME_ALL_RANKS, n);
		return;
	}
	if (k->start->here < k->places->n)
		k->places->items[k->start->here].n_read += n;
	pay_input(k);
}

static void on_frame(struct channel *channel, const struct frame *frame)
{
	struct keeper *k = channel->data;
	uint32_t i = index_of(k, channel);
	Pulc__Job__Message *msg;

	if (i == k->places->n)
		return;
	if (frame->kind == FRAME_DATA && is_of(k, frame->rank, i)) {
		channel_put_frame(&k->owner, frame);
	} else if (frame->kind == FRAME_CREDIT) {
		k->places->items[i].n_read += frame_credit(frame);
		pay_input(k);
	} else if (frame->kind == FRAME_MESSAGE && (msg = channel_unpack(channel, frame))) {
		take_report(k, i, msg);
		pulc__job__message__free_unpacked(msg, NULL);
	}
}

/* Who calls late gets what was said before. */
static void replay_input(struct keeper *k, uint32_t i)
{
	struct places *places = k->places;
	struct frame frame = { .kind = FRAME_DATA, .stream = FRAME_STDIN };
	uint64_t at = 0;

	if (!reads_input(k, i))
		return;
	for (; at < places->n_input; at += frame.len) {
		size_t from = (size_t)(at % INPUT_SIZE_WINDOW);

		frame.data = places->input + from;
		frame.len = MIN((size_t)(places->n_input - at), INPUT_SIZE_WINDOW - from);
		channel_put_frame(places->items[i].channel, &frame);
	}
	frame.len = 0;
	if (places->input_ended)
		channel_put_frame(places->items[i].channel, &frame);
}

bool keeper_head_awaits_callers(const struct keeper *k)
{
	for (uint32_t i = 0; k->is_head && i < k->places->n; i++)
		if (i != k->start->here && !k->places->items[i].channel &&
		    !k->places->items[i].done)
			return true;
	return false;
}

int keeper_head_attached(struct keeper *k, uint32_t here, struct channel *channel)
{
	struct place *place = here < k->places->n ? &k->places->items[here] : NULL;
	Pulc__Job__Kill end = PULC__JOB__KILL__INIT;
	JOB_MESSAGE(msg, KILL, kill) = &end;

	if (!place || here == k->start->here || place->channel || place->done)
		return -EINVAL;
	place->channel = channel;
	channel->data = k;
	channel->on_frame = on_frame;
	if (k->ending)
		channel_put(channel, &msg);
	if (k->spec_message)
		channel_put(channel, k->spec_message);
	keeper_signals_replay(k, channel);
	replay_input(k, here);
	return 0;
}

void keeper_head_spec(struct keeper *k)
{
	if (k->is_head)
		put_message_all(k, k->spec_message);
}

static void lose_rank(struct keeper *k, uint32_t rank)
{
	Pulc__Job__Exited exited = PULC__JOB__EXITED__INIT;
	JOB_MESSAGE(msg, EXITED, exited) = &exited;

	if (rank >= k->n_ranks || k->places->ended[rank])
		return;
	exited.rank = rank;
	exited.lost = true;
	judge(k, &exited);
	channel_put(&k->owner, &msg);
	for (enum frame_stream s = FRAME_STDOUT; s <= FRAME_STDERR; s++)
		channel_put_frame(&k->owner,
				  &(struct frame){ .kind = FRAME_DATA, .stream = s, .rank = rank });
}

static void lose_place(struct keeper *k, uint32_t i)
{
	struct place *place = &k->places->items[i];

	hang_up(place);
	if (place->done)
		return;
	for (size_t j = 0; j < k->start->places[i]->n_ranks; j++)
		lose_rank(k, k->start->places[i]->ranks[j]);
	set_done(k, i);
}

void keeper_head_detached(struct keeper *k, struct channel *channel)
{
	uint32_t i = index_of(k, channel);

	if (i == k->places->n)
		return;
	k->places->items[i].channel = NULL;
	lose_place(k, i);
}

static void say_lost(struct keeper *k, uint32_t here, const char *text)
{
	keeper_say(k, "node %s: %s", k->start->places[here]->node, text);
	lose_place(k, here);
}

static void on_silence(uv_timer_t *timer)
{
	struct keeper *k = CONTAINER_OF(timer, struct keeper, silence);
	bool waits = false;

	for (uint32_t i = 0; i < k->places->n; i++) {
		const struct place *place = &k->places->items[i];

		if (!place->channel || !place->msec_asked)
			continue;
		if (uv_now(&k->loop) - place->msec_asked >= MSEC_ALIVE)
			say_lost(k, i, "the cluster has lost it, and its keeper does not answer");
		else
			waits = true;
	}
	if (!waits)
		(void)uv_timer_stop(timer);
}

static void ask_alive(struct keeper *k, struct place *place)
{
	Pulc__Job__Alive alive = PULC__JOB__ALIVE__INIT;
	JOB_MESSAGE(msg, ALIVE, alive) = &alive;

	if (place->msec_asked)
		return;
	place->msec_asked = uv_now(&k->loop);
	channel_put(place->channel, &msg);
	if (!uv_is_active((uv_handle_t *)&k->silence))
		(void)uv_timer_start(&k->silence, on_silence, MSEC_LOOK, MSEC_LOOK);
}

void keeper_head_lost(struct keeper *k, uint32_t here, const char *text)
{
	if (!k->is_head || here >= k->places->n || here == k->start->here ||
	    k->places->items[here].done)
		return;
	if (k->places->items[here].channel)
		ask_alive(k, &k->places->items[here]);
	else
		say_lost(k, here, text);
}

/* ---- from the owner -------------------------------------------------------------------------- */

static bool store_input(struct places *places, const struct frame *frame)
{
	size_t at = (size_t)(places->n_input % INPUT_SIZE_WINDOW);
	size_t first = MIN(frame->len, INPUT_SIZE_WINDOW - at);

	if (!places->input)
		places->input = malloc(INPUT_SIZE_WINDOW);
	if (!places->input)
		keeper_fail("the input", -ENOMEM);
	if (frame->len > INPUT_SIZE_WINDOW - (places->n_input - places->n_paid))
		return false;
	memcpy(places->input + at, frame->data, first);
	memcpy(places->input, frame->data + first, frame->len - first);
	places->n_input += frame->len;
	places->input_ended |= frame->len == 0;
	return true;
}

static void put_input(struct keeper *k, const struct frame *frame)
{
	if (k->places->input_ended || !store_input(k->places, frame))
		return;
	for (uint32_t i = 0; i < k->places->n; i++)
		if (reads_input(k, i) && k->places->items[i].channel)
			channel_put_frame(k->places->items[i].channel, frame);
	pay_input(k); /* nobody may want it */
}

void keeper_head_down(struct keeper *k, const struct frame *frame)
{
	uint32_t i;

	if (!k->is_head)
		return;
	switch (frame->kind) {
	case FRAME_DATA:
		if (frame->stream == FRAME_STDIN)
			put_input(k, frame);
		break;
	case FRAME_CREDIT:
		i = frame->rank < k->n_ranks ? k->places->place_of[frame->rank] : NOWHERE;
		if (i < k->places->n && k->places->items[i].channel)
			channel_put_frame(k->places->items[i].channel, frame);
		break;
	default:
		if (k->spec) /* which itself goes to each keeper that calls */
			put_all(k, frame);
	}
}
