/*
 * A player: a process, or a thread of one, that takes a call, makes it, answers, and waits for the
 * next one.
 *
 * Between two calls it sleeps in a futex of the world, so whatever it does with sockets is what the
 * driver has told it. Behind each call it waits until TCP has sent all that it was given and not
 * too many packets, and no end, are unacknowledged: what a full congestion window holds back, and
 * when an acknowledgement opens it, is a matter of time.
 */
#include "player.h"
#include "call.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "preload/kernel_count.h"

#define N_UNACKED_MAX 4 /* packets; the window begins with ten */
#define N_LOOKS 500	/* at intervals of a millisecond */
/* States of netinet/tcp.h, which does not go together with linux/tcp.h. */
enum { STATE_FIN_WAIT1 = 4, STATE_CLOSE = 7, STATE_LAST_ACK = 9, STATE_CLOSING = 11 };

static __thread volatile sig_atomic_t n_broken_pipes;
static __thread sigjmp_buf *volatile way_out; /* of the call that is being made */
static __thread struct player *self;
static __thread struct table *own;

static void on_signal(int signal)
{
	if (signal == SIGPIPE)
		n_broken_pipes++;
	if (signal == SIGUSR2 && way_out)
		siglongjmp(*way_out, 1);
}

/* SIGHUP sends through a socket, SIGQUIT closes it, whatever has been interrupted; both ask for
 * SA_RESTART. */
static void on_prod(int signal)
{
	int error = errno, slot = (int)self->handler_slot;

	if (signal == SIGHUP)
		(void)!send(own->fds[slot], "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (signal == SIGQUIT && own->kinds[slot] != KIND_EPOLL) {
		for (unsigned i = 0; i < N_SLOTS; i++)
			if (own->kinds[i] == KIND_EPOLL)
				epoll_ctl(own->fds[i], EPOLL_CTL_DEL, own->fds[slot], NULL);
		close(own->fds[slot]);
		own->fds[slot] = -1;
		own->kinds[slot] = KIND_NONE;
	}
	errno = error;
}

static void install(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(signal, &action, NULL);
}

/* ---- a call ---------------------------------------------------------------------------------- */

static const struct verb *verb_of(const char *name)
{
	static const struct verb *const families[] = { verbs_data,   verbs_file,   verbs_wait,
						       verbs_life,   verbs_option, verbs_odd,
						       verbs_thread, verbs_warm,   verbs_hat,
						       verbs_beside, verbs_rare };

	for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		for (const struct verb *v = families[i]; v->name; v++)
			if (strcmp(v->name, name) == 0)
				return v;
	return NULL;
}

static void read_call(struct call *call, char *text)
{
	static char none[] = "-";
	char *rest = NULL;

	for (unsigned i = 0; i < N_WORDS; i++) {
		char *word = strtok_r(i ? NULL : text, " ", &rest);

		call->words[i] = word ? word : none;
	}
	call->slot = slot_of(call->words[1]);
	call->fd = fd_of(call, call->words[1]);
}

static void make_or_jump(const struct verb *verb, struct call *call)
{
	sigjmp_buf place;

	if (sigsetjmp(place, 1) == 0) {
		way_out = &place;
		verb->make(call);
	} else {
		answer(call, " jumped");
	}
	way_out = NULL;
}

static void make(struct world *world, struct player *player)
{
	struct call call = { .world = world, .player = player, .table = table_of(world, player) };
	char text[CALL_MAX];
	const struct verb *verb;

	memcpy(text, player->call, sizeof(text));
	read_call(&call, text);
	verb = verb_of(call.words[0]);
	n_broken_pipes = 0;
	if (verb)
		make_or_jump(verb, &call);
	else
		answer(&call, " no such call");
	if (n_broken_pipes)
		answer(&call, ", SIGPIPE");
}

/* ---- what was sent is on its way ------------------------------------------------------------- */

/* An end that is on its way: who sleeps for no bytes is woken when it has been acknowledged. */
static bool is_ending(unsigned state)
{
	return state == STATE_FIN_WAIT1 || state == STATE_LAST_ACK || state == STATE_CLOSING;
}

static bool is_sent(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);
	int unsent = 0;

	if (raw_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ||
	    info.tcpi_state == STATE_CLOSE)
		return true;
	raw_ioctl(fd, SIOCOUTQNSD, &unsent);
	return unsent == 0 && info.tcpi_unacked <= N_UNACKED_MAX && !is_ending(info.tcpi_state);
}

static void await_sent(const struct table *table)
{
	for (int i = 0; i < N_SLOTS; i++) {
		if (table->kinds[i] != KIND_STREAM)
			continue;
		raw_syscall(SYS_setsockopt, table->fds[i], IPPROTO_TCP, TCP_QUICKACK, &(int){ 1 },
			    sizeof(int));
		for (unsigned n = 0; n < N_LOOKS && !is_sent(table->fds[i]); n++)
			raw_syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/* ---- one after the other --------------------------------------------------------------------- */

static void give_back(struct world *world, struct player *player)
{
	await_sent(table_of(world, player));
	atomic_store(&player->turn, TURN_DRIVER);
	raw_futex(&player->turn, FUTEX_WAKE, 1, NULL);
}

/* The driver's own children die with it; theirs notice. */
static void await_turn(const struct world *world, struct player *player)
{
	while (atomic_load(&player->turn) != TURN_PLAYER) {
		raw_futex(&player->turn, FUTEX_WAIT, TURN_DRIVER,
			  &(struct timespec){ .tv_sec = 5 });
		if (kill(world->driver, 0) < 0)
			exit(2);
	}
}

_Noreturn void player_run(struct world *world, struct player *player)
{
	self = player;
	own = table_of(world, player);
	install(SIGPIPE, on_signal, 0);
	install(SIGUSR1, on_signal, 0);
	install(SIGUSR2, on_signal, 0);
	install(SIGWINCH, on_signal, SA_RESTART);
	install(SIGHUP, on_prod, SA_RESTART);
	install(SIGQUIT, on_prod, SA_RESTART);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		await_turn(world, player);
		make(world, player);
		player->may_sleep = false;
		give_back(world, player);
	}
}

/* What was closed by the exec. */
static void drop_closed(struct table *table)
{
	for (int i = 0; i < N_SLOTS; i++)
		if (table->fds[i] >= 0 && fcntl(table->fds[i], F_GETFD) < 0) {
			table->fds[i] = -1;
			table->kinds[i] = KIND_NONE;
		}
}

_Noreturn void player_begin(unsigned index)
{
	struct world *world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED,
				   FD_WORLD, 0);
	struct player *player;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (world == MAP_FAILED || index >= N_PLAYERS)
		exit(2);
	player = &world->players[index];
	player->pid = player->process = getpid();
	if (player->is_executing) {
		player->is_executing = false;
		drop_closed(table_of(world, player));
		(void)strcpy(player->answer, " 0");
		give_back(world, player);
	}
	player_run(world, player);
}
