/*
 * Threads: a player that is one more thread of its maker's process, with the same descriptors, and
 * the end of one that sleeps.
 */
#include "call.h"
#include "player.h"

#include <linux/futex.h>
#include <unistd.h>

#include "rawsys.h"

struct begin {
	struct world *world;
	struct player *player;
};

static void *run(void *arg)
{
	struct begin begin = *(struct begin *)arg;

	atomic_store(&begin.player->pid, gettid());
	raw_futex(&begin.player->pid, FUTEX_WAKE, 1, NULL);
	player_run(begin.world, begin.player);
}

/* thread N: player N is a thread of this process */
static void call_thread(struct call *call)
{
	long n = number_of(call->words[1]);
	struct player *player = &call->world->players[n];
	struct begin begin = { call->world, player };

	player->process = getpid();
	player->table = call->player->table;
	if (pthread_create(&player->thread, NULL, run, &begin) != 0) {
		answer(call, " -1");
		return;
	}
	pthread_detach(player->thread);
	while (!atomic_load(&player->pid))
		raw_futex(&player->pid, FUTEX_WAIT, 0, NULL);
	answer(call, " 0");
}

/* cancel N: a thread of this process, in its call */
static void call_cancel(struct call *call)
{
	const struct player *player = &call->world->players[number_of(call->words[1])];

	answer(call, " %d", player->process == getpid() ? pthread_cancel(player->thread) : -1);
}

const struct verb verbs_thread[] = {
	{ "thread", call_thread },
	{ "cancel", call_cancel },
	{ NULL, NULL },
};
