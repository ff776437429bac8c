/* A psid that was killed, the next one, and those who come back to it; and sides asked for
 * again. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "psid/fake_return.h"
#include "psid/scene.h"

#define SOMEBODY 65534

static int fds[2];
static struct fake_upgrade u;

static void upgrade_one(void)
{
	scene_begin(false, NULL);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
}

/* One upgraded connection whose psid is gone; the two processes are there, attached to the next. */
static void begin(const char *const settings[])
{
	upgrade_one();
	scene_restart(false, settings);
}

static void end(void)
{
	fake_close(&a);
	fake_close(&b);
	tcp_close_pair(fds);
	fake_wait_counts(&psid, 0, 0);
	fake_wait_no_areas(&psid);
	fake_upgrade_done(&u);
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

/* ---- coming back ----------------------------------------------------------------------------- */

static void both_come_back(void)
{
	Pulc__Wire__StatusReply status;
	uint64_t conn;

	begin(NULL);
	atomic_store(&fake_own_side(&u, 0)->tx_mode, SHM_TX_RING);
	conn = fake_return(&a, &u, 0, fds[0], 7);
	CHECK_INT(conn, !=, 0);
	CHECK_INT(fake_return(&b, &u, 1, fds[1], 8), ==, conn ^ 1);
	CHECK_INT(fake_count_sockets(&psid, "rings"), ==, 2);
	fake_status(&psid, &status);
	CHECK_INT(status.n_connections, ==, 1);
	CHECK_INT(status.n_areas, ==, 4); /* two boards, two slabs */
	/* Its end is as with any other. */
	fake_closed(&a, conn);
	fake_closed(&b, conn ^ 1);
	fake_wait_counts(&psid, 2, 0);
	fake_status(&psid, &status);
	CHECK_INT(status.n_areas, ==, 2);
	end();
}

/* A slot that is used is not given to others, and new connections of the two get new memory. */
static void new_connections_beside_old_ones(void)
{
	struct fake_upgrade more;
	int pair[2];

	begin(NULL);
	(void)fake_return(&a, &u, 0, fds[0], 7);
	(void)fake_return(&b, &u, 1, fds[1], 8);
	tcp_connect_pair(pair, AF_INET6);
	fake_upgrade(&a, &b, pair, 20, &more);
	CHECK_INT(more.side[0].own_fd, >=, 0);
	CHECK(fake_inode(more.side[0].own_fd) != fake_inode(u.side[0].own_fd));
	fake_wait_counts(&psid, 2, 2);
	fake_upgrade_done(&more);
	tcp_close_pair(pair);
	end();
}

static void the_dead_are_marked(void)
{
	struct shm_side *side;

	begin(NULL);
	side = fake_own_side(&u, 0);
	atomic_store(&side->notice, SHM_RX_READY);
	(void)fake_return(&a, &u, 0, fds[0], 7);
	(void)fake_return(&b, &u, 1, fds[1], 8);
	fake_close(&a);
	(void)EXPECT(&b, GONE);
	CHECK_INT(side->notice, ==, SHM_RX_READY | SHM_DEAD);
	end();
}

/* Only one is back. The other one's socket is still held, so nothing is said; then it is not. */
static void one_never_comes_back(void)
{
	uint64_t conn;

	begin(NULL);
	conn = fake_return(&a, &u, 0, fds[0], 7);
	CHECK_INT(fake_count_sockets(&psid, "switching"), ==, 1);
	(void)usleep(1500000); /* long enough for a look */
	CHECK(fake_is_quiet(&a));
	(void)close(fds[1]);
	CHECK_INT(EXPECT(&a, DEAD)->dead->conn, ==, conn);
	fds[1] = -1;
	fake_closed(&a, conn);
	fake_wait_counts(&psid, 2, 0);
	end();
}

/* Bytes of one who has closed before its reader was back are still there. */
static void what_is_unread_stays(void)
{
	unsigned char *ring;
	uint64_t conn;

	begin(NULL);
	ring = (unsigned char *)fake_own_side(&u, 0) + SHM_PAGE;
	ring[17] = 42;
	conn = fake_return(&a, &u, 0, fds[0], 7);
	fake_closed(&a, conn);
	fake_wait_counts(&psid, 2, 0);
	CHECK_INT(ring[17], ==, 42);
	CHECK_INT(fake_return(&b, &u, 1, fds[1], 8), !=, 0);
	end();
}

/* Parent and child hold the same side: the one who comes second is one more holder. */
static void a_family_comes_back(void)
{
	struct fake_client child;
	struct shm_side *side;
	uint64_t conn;

	begin(NULL);
	side = fake_own_side(&u, 0);
	atomic_store(&side->notice, SHM_RX_READY);
	atomic_store(fake_own_holders(&u, 0), 2);
	conn = fake_return(&a, &u, 0, fds[0], 7);
	(void)fake_return(&b, &u, 1, fds[1], 8);
	fake_attach(&child, &psid, FAKE_SELF);
	CHECK_INT(fake_return(&child, &u, 0, fds[0], 9), ==, conn);
	fake_close(&a);
	(void)EXPECT(&b, GONE);
	CHECK_INT(side->notice, ==, SHM_RX_READY);
	fake_close(&child);
	(void)EXPECT(&b, GONE);
	CHECK_INT(side->notice, ==, SHM_RX_READY | SHM_DEAD);
	end();
}

/* A child that is counted and has not come back keeps the side alive, for as long as it has the
 * socket. */
static void a_child_that_is_late(void)
{
	struct shm_side *side;

	begin(NULL);
	side = fake_own_side(&u, 0);
	atomic_store(&side->notice, SHM_RX_READY);
	atomic_store(fake_own_holders(&u, 0), 2);
	(void)fake_return(&a, &u, 0, fds[0], 7);
	(void)fake_return(&b, &u, 1, fds[1], 8);
	fake_close(&a);
	(void)EXPECT(&b, GONE);
	CHECK_INT(side->notice, ==, SHM_RX_READY);
	(void)close(fds[0]);
	fds[0] = -1;
	for (int i = 0; i < 1000 && side->notice == SHM_RX_READY; i++)
		(void)usleep(10000);
	CHECK_INT(side->notice, ==, SHM_RX_READY | SHM_DEAD);
	end();
}

/* This very process as a client. */
static void attach_myself(struct fake_client *c)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*c = (struct fake_client){ .pid = -1 };
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", psid.socket);
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE(connect(c->fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	fake_hello(c, PULC__WIRE__ROLE__ROLE_PROCESS);
	c->id = EXPECT(c, WELCOME)->welcome->client;
}

/* A process that lost only its channel comes back to the same psid. It is the same process, not one
 * more. */
static void back_to_the_same(void)
{
	daemon_start(&psid, false, NULL);
	attach_myself(&a);
	fake_attach(&b, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	fake_close(&a);
	attach_myself(&a);
	CHECK_INT(fake_return(&a, &u, 0, fds[0], 7), ==, u.side[0].conn);
	fake_wait_counts(&psid, 2, 1);
	fake_closed(&a, u.side[0].conn);
	fake_closed(&b, u.side[1].conn);
	fake_wait_counts(&psid, 2, 0);
	end();
}

/* A psid that ends in good order leaves connections and their bytes alone. */
static void a_psid_that_stops(void)
{
	unsigned char *ring;
	struct shm_side *sides[2];
	uint64_t conn;

	upgrade_one();
	for (unsigned k = 0; k < 2; k++) {
		sides[k] = fake_own_side(&u, k);
		atomic_store(&sides[k]->notice, SHM_RX_READY);
	}
	ring = (unsigned char *)fake_own_side(&u, 0) + SHM_PAGE;
	ring[17] = 42;
	(void)kill(psid.pid, SIGTERM);
	CHECK_INT(EXPECT(&a, REFUSE)->refuse->reason, ==, PULC__WIRE__REASON__REASON_SHUTDOWN);
	daemon_kill(&psid);
	CHECK_INT(sides[0]->notice, ==, SHM_RX_READY);
	CHECK_INT(sides[1]->notice, ==, SHM_RX_READY);
	CHECK_INT(ring[17], ==, 42);
	daemon_run(&psid, false, NULL);
	fake_close(&a);
	fake_close(&b);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, FAKE_SELF);
	conn = fake_return(&a, &u, 0, fds[0], 7);
	CHECK_INT(fake_return(&b, &u, 1, fds[1], 8), ==, conn ^ 1);
	end();
}

static void limits_hold(void)
{
	static const char *const settings[] = { "PULC_MAX_AREAS_PER_USER=2", NULL };

	begin(settings);
	CHECK_INT(fake_return(&a, &u, 0, fds[0], 7), ==, 0);
	fake_wait_counts(&psid, 2, 0);
	end();
}

/* ---- a side asked for again ------------------------------------------------------------------ */

static void check_side(struct fake_client *c, uint64_t token, unsigned k)
{
	const Pulc__Wire__Upgrade *m = EXPECT(c, UPGRADE)->upgrade;

	CHECK_INT(m->token, ==, token);
	CHECK_INT(m->own_slot, ==, u.side[k].own_slot);
	CHECK_INT(m->peer_slot, ==, u.side[k].peer_slot);
	CHECK(m->own_slab_fd && m->peer_slab_fd);
	REQUIRE_INT(c->n_fds, ==, 2);
	CHECK_INT(fake_inode(c->fds[0]), ==, fake_inode(u.side[k].own_fd));
	CHECK_INT(fake_inode(c->fds[1]), ==, fake_inode(u.side[k].peer_fd));
	CHECK(mmap(NULL, SHM_PAGE, PROT_WRITE, MAP_SHARED, c->fds[1], 0) == MAP_FAILED);
}

static void a_program_that_inherits(void)
{
	struct fake_client heir;

	upgrade_one();
	fake_attach(&heir, &psid, FAKE_SELF);
	fake_ask_attach(&heir, fds[0], 5);
	check_side(&heir, 5, 0);
	fake_close(&a);
	fake_closed(&heir, u.side[0].conn);
	fake_closed(&b, u.side[1].conn);
	fake_wait_counts(&psid, 2, 0);
	fake_close(&heir);
	fake_attach(&a, &psid, FAKE_SELF);
	end();
}

/* From now on psid gets descriptors only of those that it keeps free for what is soon closed. */
static void fill_psid(void)
{
	struct rlimit limit;
	rlim_t n = 0;
	char path[64];

	do
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%u", psid.pid, (unsigned)n++);
	while (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	REQUIRE_INT(prlimit(psid.pid, RLIMIT_NOFILE, NULL, &limit), ==, 0);
	limit.rlim_cur = n - 1 + n / 7; /* descriptors.c */
	REQUIRE_INT(prlimit(psid.pid, RLIMIT_NOFILE, &limit, NULL), ==, 0);
}

static void a_psid_without_descriptors_gives_a_side_again(void)
{
	struct fake_client heir;

	upgrade_one();
	fake_attach(&heir, &psid, FAKE_SELF);
	fill_psid();
	fake_ask_attach(&heir, fds[0], 5);
	check_side(&heir, 5, 0);
	fake_close(&heir);
	end();
}

static void after_a_restart(void)
{
	struct fake_client heir;

	begin(NULL);
	fake_attach(&heir, &psid, FAKE_SELF);
	fake_ask_attach(&heir, fds[0], 5);
	CHECK_INT(EXPECT(&heir, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_STALE);
	(void)fake_return(&a, &u, 0, fds[0], 7);
	fake_ask_attach(&heir, fds[0], 6);
	CHECK_INT(EXPECT(&heir, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_WAITING_PEER);
	(void)fake_return(&b, &u, 1, fds[1], 8);
	fake_ask_attach(&heir, fds[0], 7);
	check_side(&heir, 7, 0);
	fake_close(&heir);
	end();
}

static void another_users_side(void)
{
	static const char *const settings[] = { "PULC_ALLOW_USERS=*", NULL };
	struct fake_client other;
	int pair[2];

	if (geteuid() != 0) {
		test_skip("needs root, to be another user");
		return;
	}
	daemon_start(&psid, true, settings);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, FAKE_SELF);
	fake_attach(&other, &psid, SOMEBODY);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	fake_ask_attach(&other, fds[0], 5);
	CHECK_INT(EXPECT(&other, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_USER);
	tcp_connect_pair(pair, AF_INET); /* never upgraded */
	fake_ask_attach(&other, pair[0], 6);
	CHECK_INT(EXPECT(&other, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_STALE);
	fake_ask_attach(&other, STDIN_FILENO, 6);
	CHECK_INT(EXPECT(&other, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_STALE);
	tcp_close_pair(pair);
	fake_close(&other);
	end();
}

static const struct test tests[] = {
	TEST(both_come_back),	       TEST(new_connections_beside_old_ones),
	TEST(the_dead_are_marked),     TEST(one_never_comes_back),
	TEST(what_is_unread_stays),    TEST(a_family_comes_back),
	TEST(a_child_that_is_late),    TEST(back_to_the_same),
	TEST(a_psid_that_stops),       TEST(limits_hold),
	TEST(a_program_that_inherits), TEST(a_psid_without_descriptors_gives_a_side_again),
	TEST(after_a_restart),	       TEST(another_users_side),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
