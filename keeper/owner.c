/*
 * Upwards: to the owner of the job if this is the head keeper, else to the head keeper.
 *
 * From above come, once, what to run; then input, credit, signals, the end. Up go the tasks'
 * output, their ends, and Done as the last word. When above falls silent for good nobody wants the
 * job any more: it is killed, whatever it was doing.
 */
#include "owner.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "fence.h"
#include "head.h"
#include "input.h"
#include "kill.h"
#include "link.h"
#include "macros.h"
#include "names.h"
#include "output.h"
#include "pmi.h"
#include "pty.h"
#include "remote.h"
#include "signals.h"
#include "task.h"

void keeper_say(struct keeper *k, const char *format, ...)
{
	Pulc__Job__Note note = PULC__JOB__NOTE__INIT;
	JOB_MESSAGE(msg, NOTE, note) = &note;
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	note.text = text;
	channel_put(&k->owner, &msg);
}

/* ---- from above ------------------------------------------------------------------------------ */

void keeper_told(struct keeper *k, const Pulc__Job__Message *msg)
{
	switch (msg->body_case) {
	case PULC__JOB__MESSAGE__BODY_FENCE:
		keeper_fence_left(k, msg->fence);
		break;
	case PULC__JOB__MESSAGE__BODY_MODEX:
		keeper_modex(k, msg->modex);
		break;
	case PULC__JOB__MESSAGE__BODY_NAMES:
		keeper_names_answered(k, msg->names);
		break;
	default:
		break;
	}
}

static void take_message(struct keeper *k, Pulc__Job__Message *msg)
{
	switch (msg->body_case) {
	case PULC__JOB__MESSAGE__BODY_SIGNAL:
		keeper_signal(k, msg->signal->number, msg->signal->only);
		break;
	case PULC__JOB__MESSAGE__BODY_KILL:
		k->ending = true;
		keeper_kill(k);
		break;
	case PULC__JOB__MESSAGE__BODY_WINDOW:
		keeper_window(k, msg->window);
		break;
	case PULC__JOB__MESSAGE__BODY_ALIVE:
		if (!k->is_head)
			channel_put(&k->owner, msg);
		break;
	default:
		keeper_told(k, msg);
		break;
	}
}

/* Returns whether the message is kept. */
static bool take_spec(struct keeper *k, Pulc__Job__Message *msg)
{
	if (msg->body_case != PULC__JOB__MESSAGE__BODY_SPEC || k->spec ||
	    msg->spec->n_arguments == 0)
		return false;
	k->spec_message = msg;
	k->spec = msg->spec;
	keeper_head_spec(k);
	keeper_tasks_start(k);
	return true;
}

static void take_data(struct keeper *k, const struct frame *frame)
{
	if (frame->kind == FRAME_CREDIT)
		keeper_output_credit(k, frame);
	else
		keeper_input(k, frame);
}

void keeper_take(struct keeper *k, const struct frame *frame)
{
	Pulc__Job__Message *msg;

	if (frame->kind != FRAME_MESSAGE) {
		if (k->tasks)
			take_data(k, frame);
		return;
	}
	msg = channel_unpack(&k->owner, frame);
	if (!msg || take_spec(k, msg))
		return;
	take_message(k, msg);
	pulc__job__message__free_unpacked(msg, NULL);
}

static void on_frame(struct channel *channel, const struct frame *frame)
{
	struct keeper *k = CONTAINER_OF(channel, struct keeper, owner);

	if (k->is_head)
		keeper_head_down(k, frame);
	keeper_take(k, frame);
}

static void on_end(struct channel *channel, int reason)
{
	struct keeper *k = CONTAINER_OF(channel, struct keeper, owner);

	(void)reason;
	keeper_head_abandon(k);
	keeper_kill(k);
	keeper_look_for_end(k);
}

static void tell_places(struct keeper *k)
{
	Pulc__Job__Placed placed = PULC__JOB__PLACED__INIT;
	JOB_MESSAGE(msg, PLACED, placed) = &placed;

	placed.id = k->start->id;
	placed.places = k->start->places;
	placed.n_places = k->start->n_places;
	channel_put(&k->owner, &msg);
}

int keeper_owner_start(struct keeper *k, int fd)
{
	int r;

	k->owner.on_frame = on_frame;
	k->owner.on_end = on_end;
	if (!k->is_head)
		return keeper_remote_call(k);
	r = fd < 0 ? -EBADF : channel_open(&k->owner, &k->channels, fd);
	if (r == 0)
		tell_places(k);
	return r;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* An MPI program that never asked who the others are has been as many programs of one rank. */
static void look_for_singletons(struct keeper *k)
{
	if (!k->spec || !k->spec->expects_mpi || k->any_mpi || k->n_ranks < 2 || k->said_done)
		return;
	for (uint32_t i = 0; i < k->n_tasks; i++)
		if (k->tasks[i].status != 0 || k->tasks[i].error != 0)
			return; /* that says enough */
	keeper_say(
		k,
		"%s is linked with MPI but no task has asked for its rank: these were %u programs "
		"of one rank each (see --mpi)",
		k->spec->arguments[0], k->n_tasks);
}

void keeper_look_for_end(struct keeper *k)
{
	bool here = k->n_tasks == 0 || (k->childless && k->n_outputs == 0);

	if (k->owner.ended) { /* nobody to tell */
		k->finished |= k->n_tasks == 0 || !k->tasks || k->childless;
		return;
	}
	if (!here || k->finished || (k->n_tasks > 0 && !k->tasks))
		return;
	if (k->n_tasks > 0) {
		if (!keeper_link_settle(k))
			return;
		look_for_singletons(k);
	}
	keeper_head_done(k);
}
