/*
 * The driver's part: it gives a call to a player, and waits until the call has returned or sleeps,
 * and then until all has settled.
 *
 * There is one call at a time, so what a sequence does is the same each time. A call that sleeps is
 * no exception: its player is left alone until what others do has ended that call, and this is told
 * behind the line that did it. On the kernel a call that is asleep in a call that has no time limit
 * sleeps for others; under the shim it is known from the kernel's play which of the two is to come,
 * and that is waited for, so that no moment's sleep on the way is taken for the other thing.
 */
#include "stage.h"
#include "settle.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rawsys.h"

#define NSEC_LOOK 300000
#define N_LOOKS_MAX 8000 /* about three seconds: nothing takes as long but what never comes */
#define N_WARM_MAX 1000

/* ---- players --------------------------------------------------------------------------------- */

static void become_player(unsigned index, const char *library)
{
	char number[16];
	char *argv[] = { "sequence", "--player", number, NULL };

	if (library)
		setenv("LD_PRELOAD", library, 1);
	(void)snprintf(number, sizeof(number), "%u", index);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv("/proc/self/exe", argv);
	_exit(2);
}

static int make_world(struct stage *stage)
{
	int fd = memfd_create("world", 0), hat[2];

	if (fd < 0 || ftruncate(fd, sizeof(struct world)) < 0 ||
	    socketpair(AF_UNIX, SOCK_DGRAM, 0, hat) < 0)
		return -1;
	if (dup2(fd, FD_WORLD) < 0 || dup2(hat[0], FD_HAT_IN) < 0 || dup2(hat[1], FD_HAT_OUT) < 0)
		return -1;
	close(fd);
	close(hat[0]);
	close(hat[1]);
	stage->world = mmap(NULL, sizeof(struct world), PROT_READ | PROT_WRITE, MAP_SHARED,
			    FD_WORLD, 0);
	if (stage->world == MAP_FAILED)
		return -1;
	stage->world->driver = getpid();
	for (unsigned i = 0; i < N_PLAYERS; i++) {
		stage->world->players[i].table = i;
		for (unsigned slot = 0; slot < N_SLOTS; slot++)
			stage->world->tables[i].fds[slot] = -1;
	}
	return 0;
}

int stage_open(struct stage *stage, const char *library, unsigned preloaded)
{
	if (make_world(stage) < 0 || settle_begin() < 0)
		return -1;
	for (unsigned i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (pid == 0)
			become_player(i, preloaded & 1u << i ? library : NULL);
		if (pid < 0)
			return -1;
		stage->world->players[i].pid = stage->world->players[i].process = pid;
	}
	return 0;
}

void stage_close(struct stage *stage)
{
	for (unsigned i = 0; i < N_PLAYERS; i++)
		if (stage->world->players[i].pid)
			kill(stage->world->players[i].pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	munmap(stage->world, sizeof(*stage->world));
}

static bool is_gone(const struct player *player)
{
	char state = process_state(player->pid);

	return state == 'X' || state == 'Z';
}

/* ---- one call -------------------------------------------------------------------------------- */

enum outcome { RETURNED, ASLEEP, GONE };

static enum outcome await(struct player *player, enum expected expected)
{
	for (unsigned n = 0; n < N_LOOKS_MAX; n++) {
		if (atomic_load(&player->turn) == TURN_DRIVER)
			return RETURNED;
		if (expected != EXPECT_RETURN && player->may_sleep && is_asleep(player->pid))
			return atomic_load(&player->turn) == TURN_DRIVER ? RETURNED : ASLEEP;
		if (n % 16 == 15 && is_gone(player))
			return GONE;
		raw_futex(&player->turn, FUTEX_WAIT, TURN_PLAYER,
			  &(struct timespec){ .tv_nsec = NSEC_LOOK });
	}
	return ASLEEP;
}

static void begin(struct stage *stage, struct player *player, const char *call)
{
	(void)snprintf(player->call, sizeof(player->call), "%s", call);
	player->answer[0] = '\0';
	player->may_sleep = false;
	player->step = stage->step;
	atomic_store(&player->turn, TURN_PLAYER);
	raw_futex(&player->turn, FUTEX_WAKE, 1, NULL);
}

static void tell(const struct player *player, enum outcome outcome, char *ret_outcome)
{
	const char *text = outcome == RETURNED ? player->answer
			   : outcome == ASLEEP ? " asleep"
					       : " gone";

	(void)snprintf(ret_outcome, ANSWER_MAX, "%s", text);
}

/* All threads of a process that is about to end have ended. */
static void bury(struct stage *stage, pid_t process)
{
	for (unsigned i = 0; i < N_PLAYERS; i++) {
		struct player *player = &stage->world->players[i];

		if (!player->pid || player->process != process)
			continue;
		while (!is_gone(player))
			raw_futex(&player->turn, FUTEX_WAIT, player->turn,
				  &(struct timespec){ .tv_nsec = NSEC_LOOK });
		player->pid = 0;
		stage->asleep[i] = false;
	}
}

static void have_made(struct stage *stage, unsigned index, const char *call, enum expected expected,
		      char *ret_outcome)
{
	struct player *player = &stage->world->players[index];
	enum outcome outcome;

	begin(stage, player, call);
	outcome = await(player, expected);
	stage->asleep[index] = outcome == ASLEEP;
	if (outcome == GONE && strcmp(call, "exit") == 0)
		bury(stage, player->process);
	if (outcome == GONE)
		player->pid = 0;
	tell(player, outcome, ret_outcome);
}

static bool is_ready(const struct stage *stage, unsigned index)
{
	return index < N_PLAYERS && stage->world->players[index].pid && !stage->asleep[index];
}

static void have_everyone_look(struct stage *stage)
{
	char unused[ANSWER_MAX];

	for (unsigned i = 0; i < N_PLAYERS; i++)
		if (is_ready(stage, i))
			have_made(stage, i, "look", EXPECT_RETURN, unused);
}

/* ---- lines that are no call of one player ---------------------------------------------------- */

struct end {
	unsigned player;
	char slot[8], address[8];
};

static bool has(const struct stage *stage, const struct end *end)
{
	return is_ready(stage, end->player) &&
	       table_of(stage->world, &stage->world->players[end->player])
			       ->fds[end->slot[0] - 'a'] >= 0;
}

/* One byte from one end to the other. True: both have seen it on rings. */
static bool exchange(struct stage *stage, const struct end *from, const struct end *to)
{
	struct player *players = stage->world->players;
	char call[CALL_MAX], unused[ANSWER_MAX];

	(void)snprintf(call, sizeof(call), "warm_put %s %s", from->slot, to->address);
	have_made(stage, from->player, call, EXPECT_RETURN, unused);
	settle(stage->psid);
	(void)snprintf(call, sizeof(call), "warm_take %s", to->slot);
	players[to->player].on_rings = players[from->player].on_rings;
	have_made(stage, to->player, call, EXPECT_RETURN, unused);
	return players[to->player].on_rings;
}

/* warm p0 a A p1 b B times: so often, and until rings if they are wanted */
static bool warm(struct stage *stage, const char *line)
{
	struct end one, other;
	int times, n_seen = 0;

	if (sscanf(line, "warm p%u %7s %7s p%u %7s %7s %d", &one.player, one.slot, one.address,
		   &other.player, other.slot, other.address, &times) != 7)
		return false;
	if (!has(stage, &one) || !has(stage, &other))
		return true;
	for (int n = 0; n < N_WARM_MAX && (n < times || (stage->until_rings && n_seen < 2)); n++) {
		bool there = exchange(stage, &one, &other), back = exchange(stage, &other, &one);

		n_seen = there && back ? n_seen + 1 : 0;
	}
	return true;
}

/* signal p0, jump p0, or kill p0 */
static void send_signal(struct stage *stage, unsigned index, int signal, char *ret_outcome)
{
	struct player *player = &stage->world->players[index];
	char unused[ANSWER_MAX];

	(void)strcpy(ret_outcome, " no such player");
	if (index >= N_PLAYERS || !player->pid)
		return;
	if (signal == SIGKILL && !stage->asleep[index])
		have_made(stage, index, "drain", EXPECT_RETURN, unused);
	tgkill(player->process, player->pid, signal);
	(void)strcpy(ret_outcome, " sent");
	if (signal == SIGKILL)
		bury(stage, player->process);
}

/* prod p0 a, or strip p0 a: a signal whose handler does something with that descriptor */
static void prod(struct stage *stage, unsigned index, char letter, int signal, char *ret_outcome)
{
	if (index < N_PLAYERS)
		stage->world->players[index].handler_slot = (unsigned)(letter - 'a') % N_SLOTS;
	send_signal(stage, index, signal, ret_outcome);
}

/* pause p0: stopped, and made to go on. Some calls of the kernel end by that. */
static void pause_player(struct stage *stage, unsigned index, char *ret_outcome)
{
	const struct player *player = &stage->world->players[index];

	send_signal(stage, index, SIGSTOP, ret_outcome);
	for (unsigned n = 0; n < N_LOOKS_MAX && player->pid; n++) {
		char state = process_state(player->pid);

		if (state == 'T')
			break;
		nanosleep(&(struct timespec){ .tv_nsec = NSEC_LOOK }, NULL);
	}
	if (player->pid)
		kill(player->process, SIGCONT);
}

/* What is on its way then comes with its sender's next call (docs/upgrade.md). */
static bool moves_away(const char *line)
{
	static const char *const verbs[] = { " give ",	  " take ", " give_both ", " peer_in ",
					     " spill ",	  " exec",  " spawn ",	   " stream ",
					     " peek_at ", " told " };

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strstr(line, verbs[i]))
			return true;
	return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

bool stage_play(struct stage *stage, const char *line, enum expected expected, char *ret_outcome)
{
	unsigned player;
	char letter;
	int at = 0;

	ret_outcome[0] = '\0';
	stage->step++;
	if (strncmp(line, "warm ", 5) == 0)
		return warm(stage, line);
	if (sscanf(line, "signal p%u", &player) == 1)
		send_signal(stage, player, SIGUSR1, ret_outcome);
	else if (sscanf(line, "jump p%u", &player) == 1)
		send_signal(stage, player, SIGUSR2, ret_outcome);
	else if (sscanf(line, "nudge p%u", &player) == 1)
		send_signal(stage, player, SIGWINCH, ret_outcome);
	else if (sscanf(line, "prod p%u %c", &player, &letter) == 2)
		prod(stage, player, letter, SIGHUP, ret_outcome);
	else if (sscanf(line, "strip p%u %c", &player, &letter) == 2)
		prod(stage, player, letter, SIGQUIT, ret_outcome);
	else if (sscanf(line, "pause p%u", &player) == 1 && player < N_PLAYERS)
		pause_player(stage, player, ret_outcome);
	else if (sscanf(line, "kill p%u", &player) == 1)
		send_signal(stage, player, SIGKILL, ret_outcome);
	else if (sscanf(line, "p%u %n", &player, &at) != 1 || !at)
		return false;
	else if (!is_ready(stage, player))
		(void)strcpy(ret_outcome, " not there");
	else
		have_made(stage, player, line + at, expected, ret_outcome);
	settle(stage->psid);
	if (moves_away(line))
		have_everyone_look(stage);
	settle(stage->psid);
	return true;
}

bool stage_woken(struct stage *stage, unsigned index, enum expected expected, char *ret_outcome)
{
	struct player *player = &stage->world->players[index];
	enum outcome outcome;

	if (!stage->asleep[index])
		return false;
	outcome = await(player, expected);
	if (outcome == ASLEEP)
		return false;
	stage->asleep[index] = false;
	if (outcome == GONE)
		player->pid = 0;
	tell(player, outcome, ret_outcome);
	return true;
}
