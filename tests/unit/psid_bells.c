/* What psid does for processes that are connected: rings, introductions, credit. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "board.h"
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

static void set_bell(struct fake_client *c, uint32_t board, int bell)
{
	Pulc__Wire__Bell body = PULC__WIRE__BELL__INIT;
	FROM_CLIENT(msg, BELL, bell) = &body;

	body.board = board;
	fake_send(c, &msg, &bell, 1);
}

static void announce(struct fake_client *c, uint32_t board)
{
	Pulc__Wire__Announce body = PULC__WIRE__ANNOUNCE__INIT;
	FROM_CLIENT(msg, ANNOUNCE, announce) = &body;

	body.board = board;
	fake_send(c, &msg, NULL, 0);
}

static void ring(struct fake_client *c, uint32_t client, uint32_t board, uint32_t bit)
{
	Pulc__Wire__Ring body = PULC__WIRE__RING__INIT;
	FROM_CLIENT(msg, RING, ring) = &body;

	body.client = client;
	body.board = board;
	body.bit = bit;
	fake_send(c, &msg, NULL, 0);
}

static bool bell_rings(int bell)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };
	uint64_t count;

	return poll(&p, 1, 5000) == 1 && read(bell, &count, sizeof(count)) == sizeof(count);
}

/* Whoever sleeps for a dead peer is woken. */
static void survivors_are_woken(void)
{
	struct fake_client c;
	struct shm_boards *boards;
	int bell = eventfd(0, EFD_CLOEXEC);
	uint32_t bit;

	daemon_start(&psid, false, NULL);
	fake_attach(&c, &psid, FAKE_SELF);
	REQUIRE(shm_boards_map(c.fds[0], &boards) == 0);
	fake_attach(&a, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&c, &a, fds, 2, &u);
	set_bell(&c, 3, bell);
	shm_board_arm(shm_board_of(boards, 3));
	atomic_store(&fake_own_side(&u, 0)->rx_watch[1], SHM_WATCH(c.id, 3, 77));
	CHECK(fake_is_quiet(&c));
	fake_close(&a);
	CHECK(bell_rings(bell));
	REQUIRE(shm_board_take(shm_board_of(boards, 3), &bit));
	CHECK_INT(bit, ==, 77);
	shm_boards_unmap(boards);
	(void)close(bell);
	b = c;
	end();
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

/* Of a family one is killed: the others, and those at the other end, look after what it was about
 * to do. */
static void all_who_sleep_are_woken_for_one_of_a_family(void)
{
	int own = eventfd(0, EFD_CLOEXEC), others = eventfd(0, EFD_CLOEXEC);
	struct shm_boards *boards[2];
	struct fake_client child;

	daemon_start(&psid, false, NULL);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, FAKE_SELF);
	REQUIRE(shm_boards_map(a.fds[0], &boards[0]) == 0);
	REQUIRE(shm_boards_map(b.fds[0], &boards[1]) == 0);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	set_bell(&a, 3, own);
	set_bell(&b, 4, others);
	shm_board_arm(shm_board_of(boards[0], 3));
	shm_board_arm(shm_board_of(boards[1], 4));
	atomic_store(&fake_own_side(&u, 0)->rx_watch[1], SHM_WATCH(a.id, 3, 77));
	atomic_store(&fake_own_side(&u, 1)->tx_watch[0], SHM_WATCH(b.id, 4, 5));
	atomic_store(fake_own_holders(&u, 0), 2);
	fake_attach(&child, &psid, FAKE_SELF);
	adopt(&child, a.id);
	CHECK(fake_is_quiet(&child));
	fake_close(&child);
	CHECK(bell_rings(own));
	CHECK(bell_rings(others));
	CHECK(!(atomic_load(&fake_own_side(&u, 0)->notice) & SHM_DEAD));
	for (unsigned i = 0; i < 2; i++)
		shm_boards_unmap(boards[i]);
	(void)close(own);
	(void)close(others);
	end();
}

/* A child that sends its last bytes and exits: psid hears of it only afterwards. */
static void last_words_are_heard(void)
{
	int bell = eventfd(0, EFD_CLOEXEC);
	struct shm_boards *boards;
	struct fake_client child;

	daemon_start(&psid, false, NULL);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, FAKE_SELF);
	REQUIRE(shm_boards_map(b.fds[0], &boards) == 0);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	set_bell(&b, 3, bell);
	shm_board_arm(shm_board_of(boards, 3));
	CHECK(fake_is_quiet(&b));
	(void)kill(psid.pid, SIGSTOP);
	fake_open(&child, &psid, FAKE_SELF);
	fake_hello(&child, PULC__WIRE__ROLE__ROLE_PROCESS);
	adopt(&child, a.id);
	ring(&child, b.id, 3, 5);
	fake_close(&child);
	(void)kill(psid.pid, SIGCONT);
	CHECK(bell_rings(bell));
	shm_boards_unmap(boards);
	(void)close(bell);
	end();
}

static void bells_are_introduced(void)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct shm_boards *boards;
	uint64_t one = 1;

	begin(NULL);
	set_bell(&a, 9, bell);
	announce(&a, 9);
	CHECK_INT(EXPECT(&b, INTRODUCE)->introduce->client, ==, a.id);
	CHECK_INT(b.msg->introduce->board, ==, 9);
	CHECK(b.msg->introduce->board_fd);
	REQUIRE_INT(b.n_fds, ==, 2);
	REQUIRE(shm_boards_map(b.fds[0], &boards) == 0);
	CHECK_INT(boards->client, ==, a.id);
	CHECK(write(b.fds[1], &one, sizeof(one)) == sizeof(one));
	CHECK(bell_rings(bell));
	shm_boards_unmap(boards);
	/* Once is enough; another board comes without the area. */
	announce(&a, 9);
	CHECK(fake_is_quiet(&a));
	CHECK(fake_is_quiet(&b));
	set_bell(&a, 255, bell);
	announce(&a, 255);
	CHECK_INT(EXPECT(&b, INTRODUCE)->introduce->board, ==, 255);
	CHECK(!b.msg->introduce->board_fd);
	CHECK_INT(b.n_fds, ==, 1);
	(void)close(bell);
	end();
}

static void psid_rings_for_others(void)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct fake_client stranger;
	struct shm_boards *boards;
	uint32_t bit;

	begin(NULL);
	set_bell(&b, 0, bell);
	CHECK(fake_is_quiet(&b)); /* in order: b's bell, then a's ring */
	ring(&a, b.id, 0, 5);
	CHECK_INT(EXPECT(&a, INTRODUCE)->introduce->client, ==, b.id);
	REQUIRE(shm_boards_map(a.fds[0], &boards) == 0);
	REQUIRE(shm_board_take(shm_board_of(boards, 0), &bit));
	CHECK_INT(bit, ==, 5);
	/* Not armed: not rung. Armed: rung. */
	shm_board_arm(shm_board_of(boards, 0));
	ring(&a, b.id, 0, 6);
	CHECK(bell_rings(bell));
	/* One that shares no connection with it can't. */
	fake_attach(&stranger, &psid, FAKE_SELF);
	shm_board_clear(shm_board_of(boards, 0));
	ring(&stranger, b.id, 0, 7);
	CHECK(fake_is_quiet(&stranger));
	CHECK(!shm_board_pending(shm_board_of(boards, 0)));
	fake_close(&stranger);
	/* Nor in a page of lines, which holds no board. */
	ring(&a, b.id, SHM_FIRST_LINES, 0);
	ring(&a, b.id, SHM_N_BOARDS - 1, 64);
	CHECK(fake_is_quiet(&a));
	CHECK(!shm_board_pending(shm_board_of(boards, SHM_FIRST_LINES)));
	CHECK(!shm_board_pending(shm_board_of(boards, SHM_N_BOARDS - 1)));
	shm_boards_unmap(boards);
	(void)close(bell);
	end();
}

/* ---- credit ---------------------------------------------------------------------------------- */

static uint64_t want_credit(struct fake_client *c, uint64_t size)
{
	Pulc__Wire__WantCredit body = PULC__WIRE__WANT_CREDIT__INIT;
	FROM_CLIENT(msg, WANT_CREDIT, want_credit) = &body;

	body.size = size;
	fake_send(c, &msg, NULL, 0);
	return EXPECT(c, CREDIT)->credit->size;
}

static void credit_is_bounded(void)
{
	static const char *const settings[] = { "PULC_MAX_BYTES_PER_USER=1M",
						"PULC_CREDIT_INITIAL=64K", NULL };
	uint64_t granted, sum = 0;

	begin(settings);
	CHECK_INT(a.credit, ==, 65536);
	while ((granted = want_credit(&a, 1 << 20)) > 0)
		sum += granted;
	CHECK_INT(sum, >, 700 << 10);
	CHECK_INT(sum, <, 1 << 20);
	fake_close(&a); /* all of it comes back */
	(void)EXPECT(&b, SLAB_GONE);
	(void)EXPECT(&b, SLAB_GONE);
	(void)EXPECT(&b, GONE);
	CHECK_INT(want_credit(&b, 256 << 10), ==, 256 << 10);
	end();
}

static const struct test tests[] = {
	TEST(all_who_sleep_are_woken_for_one_of_a_family),
	TEST(last_words_are_heard),
	TEST(survivors_are_woken),
	TEST(bells_are_introduced),
	TEST(psid_rings_for_others),
	TEST(credit_is_bounded),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
