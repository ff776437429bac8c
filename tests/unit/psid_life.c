/* How clients end, and what is then true for the others; how psid ends. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "psid/fake_return.h"
#include "psid/scene.h"

static int fds[2];
static struct fake_upgrade u;

static void begin(const char *const settings[])
{
	scene_begin(false, settings);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
}

static void end(void)
{
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_end();
}

#define N_LOOKS 5000u /* one a millisecond */

/* A process lets its channel go a moment before it has ended. */
static void wait_for_death(const struct shm_side *side)
{
	for (unsigned i = 0; i < N_LOOKS && !(atomic_load(&side->notice) & SHM_DEAD); i++)
		(void)usleep(1000);
	CHECK_INT(atomic_load(&side->notice) & SHM_DEAD, ==, SHM_DEAD);
}

static void adopt(struct fake_client *c, uint32_t parent)
{
	Pulc__Wire__Adopt body = PULC__WIRE__ADOPT__INIT;
	FROM_CLIENT(msg, ADOPT, adopt) = &body;

	body.parent = parent;
	body.conns = &u.side[0].conn;
	body.n_conns = 1;
	fake_send(c, &msg, NULL, 0);
}

/* ---- death ----------------------------------------------------------------------------------- */

static void the_dead_are_marked(void)
{
	struct shm_side *side;

	begin(NULL);
	side = fake_own_side(&u, 0);
	atomic_store(&side->notice, 7ull << 32 | SHM_RX_READY);
	fake_close(&a);
	CHECK_INT(EXPECT(&b, SLAB_GONE)->slab_gone->id, >, 0);
	CHECK_INT(EXPECT(&b, SLAB_GONE)->slab_gone->id, >, 0);
	CHECK_INT(EXPECT(&b, GONE)->gone->client, ==, a.id);
	CHECK_INT(side->notice, ==, (7ull << 32 | SHM_RX_READY | SHM_DEAD));
	fake_wait_counts(&psid, 1, 1);
	fake_closed(&b, u.side[1].conn);
	fake_wait_counts(&psid, 1, 0);
	end();
}

static void the_closed_are_not(void)
{
	struct shm_side *side;

	begin(NULL);
	side = fake_own_side(&u, 0);
	atomic_store(fake_own_holders(&u, 0), 0);
	fake_closed(&a, u.side[0].conn);
	fake_close(&a);
	(void)EXPECT(&b, SLAB_GONE);
	(void)EXPECT(&b, SLAB_GONE);
	(void)EXPECT(&b, GONE);
	CHECK_INT(side->notice & SHM_DEAD, ==, 0);
	end();
}

/* Nobody says it for a process that is counted and was killed before psid knew of it, and the
 * kernel does not, where the connection was shut down before. */
static void the_counted_who_are_gone_are_marked(void)
{
	struct shm_side *side;

	begin(NULL);
	side = fake_own_side(&u, 0);
	atomic_store(&side->notice, SHM_RX_READY | SHM_TX_FIN);
	REQUIRE_INT(shutdown(fds[0], SHUT_WR), ==, 0);
	(void)close(fds[0]);
	fake_closed(&a, u.side[0].conn);
	fake_wait_counts(&psid, 2, 1);
	CHECK_INT(side->notice & SHM_DEAD, ==, SHM_DEAD);
	fake_upgrade_done(&u);
	(void)close(fds[1]);
	scene_end();
}

/* The process lives and has only lost its socket: its connections go on. */
static void a_lost_socket_is_not_death(void)
{
	begin(NULL);
	(void)close(a.fd);
	a.fd = -1;
	fake_wait_counts(&psid, 2, 1);
	CHECK(fake_is_quiet(&b));
	CHECK_INT(fake_own_side(&u, 0)->notice & SHM_DEAD, ==, 0);
	fake_kill(&a);
	(void)EXPECT(&b, SLAB_GONE);
	(void)EXPECT(&b, SLAB_GONE);
	(void)EXPECT(&b, GONE);
	CHECK_INT(fake_own_side(&u, 0)->notice & SHM_DEAD, ==, SHM_DEAD);
	end();
}

/* Of two holders one has counted itself off, psid was too busy to hear of it, and then it has
 * ended. */
static void who_had_no_room_to_say_that_it_closed_was_not_killed(void)
{
	struct shm_slab *slab;
	struct shm_side *side;

	begin(NULL);
	side = fake_own_side(&u, 0);
	atomic_store(&side->notice, SHM_RX_READY);
	atomic_store(fake_own_holders(&u, 0), 1);
	slab = (struct shm_slab *)((char *)(fake_own_holders(&u, 0) - u.side[0].own_slot) -
				   offsetof(struct shm_slab, n_holders));
	atomic_store(&slab->let_go[u.side[0].own_slot], SHM_LET_GO_UNSAID);
	fake_close(&a);
	fake_wait_counts(&psid, 1, 1);
	CHECK_INT(side->notice & SHM_DEAD, ==, 0);
	(void)close(fds[0]);
	fake_closed(&b, u.side[1].conn);
	fake_wait_counts(&psid, 1, 0);
	fake_upgrade_done(&u);
	(void)close(fds[1]);
	scene_end();
}

static void reset_by_peer(const int pair[2])
{
	struct linger at_once = { .l_onoff = 1 };

	REQUIRE_INT(setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), ==, 0);
	REQUIRE_INT(close(pair[1]), ==, 0);
}

enum { UNREAD, UNTOLD, READ_OUT, N_RESET };

/* All of them lie in the same slabs. */
static void upgrade_others(int pairs[N_RESET][2], struct fake_upgrade upgrades[N_RESET])
{
	for (int i = 0; i < 2; i++)
		pairs[0][i] = fds[i];
	upgrades[0] = u;
	for (int i = 1; i < N_RESET; i++) {
		tcp_connect_pair(pairs[i], AF_INET);
		fake_upgrade(&a, &b, pairs[i], 2 + 2 * (uint64_t)i, &upgrades[i]);
		for (int end = 0; end < 2; end++)
			upgrades[i].side[end].own_fd = u.side[end].own_fd;
	}
}

static void close_by_reset(const int pair[2], const struct fake_upgrade *upgrade)
{
	reset_by_peer(pair);
	atomic_store(fake_own_holders(upgrade, 1), 0);
	fake_closed(&b, upgrade->side[1].conn);
}

/*
 * The kernel does not know a socket any more that was reset. A process that has become another
 * program may have it, and not all that lies in shared memory; one that has needs the kernel alone.
 */
static void what_was_reset_stays_for_who_may_read_it(void)
{
	struct fake_upgrade upgrades[N_RESET];
	struct fake_client next;
	int pairs[N_RESET][2];

	begin(NULL);
	upgrade_others(pairs, upgrades);
	atomic_store(&fake_own_side(&upgrades[UNREAD], 1)->head, 5);
	atomic_store(&fake_own_side(&upgrades[UNTOLD], 0)->local, SHM_LOCAL_UNTOLD);
	for (int i = 0; i < N_RESET; i++) {
		atomic_store(&fake_own_side(&upgrades[i], 0)->notice, SHM_RX_READY);
		close_by_reset(pairs[i], &upgrades[i]);
	}
	fake_wait_counts(&psid, 2, N_RESET);
	(void)close(a.fd);
	a.fd = -1;
	/* All are looked at by then. */
	fake_wait_counts(&psid, 2, N_RESET - 1);
	fake_attach(&next, &psid, FAKE_SELF);
	for (int i = 0; i < READ_OUT; i++) {
		fake_ask_attach(&next, pairs[i][0], 7 + (uint64_t)i);
		CHECK_INT(EXPECT(&next, UPGRADE)->upgrade->token, ==, 7 + i);
	}
	fake_ask_attach(&next, pairs[READ_OUT][0], 9);
	CHECK_INT(EXPECT(&next, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_OVER);
	fake_close(&next);
	for (int i = 0; i < N_RESET; i++)
		(void)close(pairs[i][0]);
	fake_upgrade_done(&u);
	scene_end();
}

/* ---- children -------------------------------------------------------------------------------- */

/*
 * A child adopts before it lets go of its parent's socket; the parent's end then is not the
 * connection's.
 */
static void children_inherit(void)
{
	struct fake_client child;

	begin(NULL);
	fake_kill(&a); /* its socket is still held, as by a child */
	fake_attach(&child, &psid, FAKE_SELF);
	adopt(&child, a.id);
	(void)close(a.fd);
	a.fd = -1;
	(void)EXPECT(&b, SLAB_GONE);
	(void)EXPECT(&b, SLAB_GONE);
	CHECK_INT(EXPECT(&b, GONE)->gone->client, ==, a.id);
	CHECK_INT(fake_own_side(&u, 0)->notice & SHM_DEAD, ==, 0);
	fake_close(&child);
	CHECK_INT(EXPECT(&b, GONE)->gone->client, ==, child.id);
	wait_for_death(fake_own_side(&u, 0));
	end();
}

/* The parent closes its copy before psid has heard of the child: the side's own count keeps it. */
static void unclaimed_sides_wait_for_their_heir(void)
{
	struct fake_client child;

	begin(NULL);
	atomic_store(&fake_own_side(&u, 0)->notice, SHM_RX_READY);
	atomic_store(fake_own_holders(&u, 0), 1); /* parent left, child remains */
	fake_closed(&a, u.side[0].conn);
	fake_closed(&b, u.side[1].conn);
	fake_wait_counts(&psid, 2, 1);
	fake_attach(&child, &psid, FAKE_SELF);
	adopt(&child, 0);
	CHECK(fake_is_quiet(&child));
	atomic_store(fake_own_holders(&u, 0), 0);
	fake_closed(&child, u.side[0].conn);
	fake_wait_counts(&psid, 3, 0);
	fake_close(&child);
	end();
}

/*
 * One process has both ends, and a child of its that psid does not know yet. What it closes is the
 * end that it names, though that counts no fewer holders than are known: when it is killed the
 * other one is marked, and at once.
 */
static void each_of_both_ends_is_closed_by_itself(void)
{
	Pulc__Wire__Adopt body = PULC__WIRE__ADOPT__INIT;
	FROM_CLIENT(msg, ADOPT, adopt) = &body;
	struct fake_client child;
	struct shm_side *sides[2];
	uint64_t conns[2];

	scene_begin(false, NULL);
	fake_attach(&child, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &a, fds, 2, &u);
	u.side[0].own_fd = u.side[1].own_fd; /* one slab for both */
	for (unsigned i = 0; i < 2; i++) {
		sides[i] = fake_own_side(&u, i);
		conns[i] = u.side[i].conn;
		atomic_store(&sides[i]->notice, SHM_RX_READY);
		atomic_store(fake_own_holders(&u, i), 2 - i);
	}
	fake_closed(&a, conns[1]);
	CHECK(fake_is_quiet(&a));
	body.parent = a.id;
	body.conns = conns;
	body.n_conns = 2;
	fake_send(&child, &msg, NULL, 0);
	atomic_store(fake_own_holders(&u, 0), 1);
	fake_closed(&child, conns[0]);
	CHECK(fake_is_quiet(&child));
	fake_close(&a);
	(void)EXPECT(&child, GONE);
	wait_for_death(sides[0]);
	CHECK_INT(sides[1]->notice & SHM_DEAD, ==, 0);
	atomic_store(fake_own_holders(&u, 1), 0);
	fake_closed(&child, conns[1]);
	fake_wait_counts(&psid, 2, 0);
	fake_close(&child);
	fake_attach(&a, &psid, FAKE_SELF);
	u.side[0].own_fd = -1;
	end();
}

/* psid's helpers empty memory, after the counts say that it is nobody's. */
static void wait_for_head(const struct shm_side *side, uint64_t head)
{
	for (unsigned i = 0; i < N_LOOKS && atomic_load(&side->head) != head; i++)
		(void)usleep(1000);
	CHECK_INT(atomic_load(&side->head), ==, head);
}

/* Both directions have ended, so the kernel knows no socket any more; a child that psid does not
 * know has not read all. */
static void end_in_both_directions(uint64_t n_read, uint64_t n_left)
{
	struct shm_side *reader, *writer;

	begin(NULL);
	reader = fake_own_side(&u, 0);
	writer = fake_own_side(&u, 1);
	atomic_store(fake_own_holders(&u, 0), 2);
	atomic_store(fake_own_holders(&u, 1), 2);
	atomic_store(&reader->rx_taken, n_read);
	atomic_store(&reader->notice, SHM_RX_READY | SHM_TX_FIN);
	atomic_store(&writer->head, 5);
	atomic_store(&writer->notice, SHM_RX_READY | SHM_TX_FIN);
	REQUIRE_INT(shutdown(fds[0], SHUT_WR), ==, 0);
	REQUIRE_INT(shutdown(fds[1], SHUT_WR), ==, 0);
	fake_close(&a);
	fake_close(&b);
	fake_wait_counts(&psid, 0, 0);
	wait_for_head(writer, n_left);
	CHECK_INT(reader->rx_taken, ==, n_left ? n_read : 0);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_close();
}

static void what_an_unknown_child_may_read_stays(void)
{
	end_in_both_directions(3, 5);
}

static void what_it_has_read_does_not(void)
{
	end_in_both_directions(5, 0);
}

/* ---- psid's own end -------------------------------------------------------------------------- */

static void clients_are_told_of_the_end(void)
{
	begin(NULL);
	(void)kill(psid.pid, SIGTERM);
	CHECK_INT(EXPECT(&a, REFUSE)->refuse->reason, ==, PULC__WIRE__REASON__REASON_SHUTDOWN);
	CHECK(fake_receive(&a) == NULL);
	CHECK_INT(daemon_wait(&psid), ==, 0);
	fake_close(&a);
	fake_close(&b);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
}

static void idle_psid_goes_away(void)
{
	static const char *const settings[] = { "PULC_IDLE_EXIT_SEC=1", NULL };

	begin(settings);
	fake_close(&a);
	fake_close(&b);
	CHECK_INT(daemon_wait(&psid), ==, 0);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
}

static void one_psid_in_a_place(void)
{
	char command[512];
	const char *build = getenv("PULC_BUILD");

	daemon_start(&psid, false, NULL);
	(void)snprintf(command, sizeof(command), "PULC_RUNTIME_DIR=%s %s/bin/psid 2>/dev/null",
		       psid.dir, build ? build : "build");
	CHECK_INT(WEXITSTATUS(system(command)), ==, 1);
	/* To the background: what was wanted is there. */
	(void)snprintf(command, sizeof(command),
		       "PULC_RUNTIME_DIR=%s PULC_LOG_LEVEL=error %s/bin/psid --daemonize", psid.dir,
		       build ? build : "build");
	CHECK_INT(WEXITSTATUS(system(command)), ==, 0);
	fake_wait_counts(&psid, 0, 0);
	/* A dead one's socket is no obstacle. */
	(void)kill(psid.pid, SIGKILL);
	(void)waitpid(psid.pid, NULL, 0);
	CHECK_INT(access(psid.socket, F_OK), ==, 0);
	CHECK_INT(WEXITSTATUS(system(command)), ==, 0);
	fake_wait_counts(&psid, 0, 0);
	(void)snprintf(command, sizeof(command), "rm -r %s", psid.dir);
	fake_open(&a, &psid, FAKE_SELF);
	fake_hello(&a, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&a, WELCOME);
	{
		Pulc__Wire__StopRequest body = PULC__WIRE__STOP_REQUEST__INIT;
		FROM_CLIENT(msg, STOP, stop) = &body;

		fake_send(&a, &msg, NULL, 0);
	}
	(void)EXPECT(&a, STOP);
	fake_expect_end(&a);
	fake_close(&a);
	CHECK_INT(WEXITSTATUS(system(command)), ==, 0);
}

static const struct test tests[] = {
	TEST(the_dead_are_marked),
	TEST(the_closed_are_not),
	TEST(the_counted_who_are_gone_are_marked),
	TEST(who_had_no_room_to_say_that_it_closed_was_not_killed),
	TEST(a_lost_socket_is_not_death),
	TEST(what_was_reset_stays_for_who_may_read_it),
	TEST(children_inherit),
	TEST(unclaimed_sides_wait_for_their_heir),
	TEST(each_of_both_ends_is_closed_by_itself),
	TEST(what_an_unknown_child_may_read_stays),
	TEST(what_it_has_read_does_not),
	TEST(clients_are_told_of_the_end),
	TEST(idle_psid_goes_away),
	TEST(one_psid_in_a_place),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
