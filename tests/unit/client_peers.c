/* libpulc/peers.c: other clients' boards and bells, and how long they stay. */
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pulc/fds.h>

#include "board.h"
#include "client.h"
#include "harness.h"
#include "peers.h"

/* Two that go into the same place, one after the other. */
#define CLIENT 4711u
#define CLIENT_LATER (4711u + 256u)
#define CLIENT_WHO_STAYS 12u
#define BOARD 3u
#define BIT 5u
#define N_TURNS 60000

static struct shm_boards *make_boards(uint32_t client)
{
	struct shm_boards header = {
		.magic = SHM_MAGIC_BOARDS,
		.version = SHM_VERSION,
		.n_boards = SHM_N_BOARDS,
		.client = client,
	};
	int fd = memfd_create("boards", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct shm_boards *boards = NULL;

	REQUIRE(fd >= 0 && ftruncate(fd, SHM_SIZE_BOARDS) == 0);
	REQUIRE(write(fd, &header, sizeof(header)) == sizeof(header));
	REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	REQUIRE_INT(shm_boards_map(fd, &boards), ==, 0);
	(void)close(fd);
	return boards;
}

static struct shm_boards *introduce(uint32_t client)
{
	struct shm_boards *boards = make_boards(client);

	REQUIRE(client_lock());
	peers_introduce(client, BOARD, boards, eventfd(0, EFD_CLOEXEC));
	client_unlock();
	return boards;
}

static void go(uint32_t client)
{
	REQUIRE(client_lock());
	peers_gone(client);
	client_unlock();
}

static unsigned n_own(void)
{
	unsigned n = 0;

	for (int fd = pulc_fd_next_own(0); fd >= 0; fd = pulc_fd_next_own(fd + 1))
		n++;
	return n;
}

static void one_is_rung(void)
{
	struct shm_boards *boards = introduce(CLIENT_WHO_STAYS);
	unsigned bit;

	peers_tell(SHM_WATCH(CLIENT_WHO_STAYS, BOARD, BIT));
	CHECK(shm_board_take(shm_board_of(boards, BOARD), &bit));
	CHECK_INT(bit, ==, BIT);
}

/* A thread that has found board and bell may use them after psid's word. */
static void who_has_gone_is_kept_for_a_while(void)
{
	unsigned n_before = n_own();
	struct shm_boards *boards = introduce(CLIENT);

	CHECK_INT(n_own(), ==, n_before + 1);
	go(CLIENT);
	CHECK_INT(n_own(), ==, n_before + 1);
	CHECK(!shm_board_set(shm_board_of(boards, BOARD), BIT));
	/* Its place is not taken meanwhile. */
	(void)introduce(CLIENT_LATER);
	CHECK_INT(n_own(), ==, n_before + 2);
	CHECK(!shm_board_set(shm_board_of(boards, BOARD), BIT));
	go(CLIENT_LATER);
	for (unsigned i = 0; i < N_TURNS && n_own() > n_before; i++) {
		(void)poll(NULL, 0, 1);
		REQUIRE(client_lock());
		peers_bury();
		client_unlock();
	}
	CHECK_INT(n_own(), <=, n_before);
}

static struct shm_exchange *hold(uint32_t client, uint32_t i)
{
	struct shm_exchange *line;

	REQUIRE(client_lock());
	line = peers_hold_line(client, i);
	client_unlock();
	return line;
}

/* A link may outlive its peer: what that one has told last is still to be read. */
static void a_line_that_is_held_stays(void)
{
	const uint32_t i = SHM_N_LINES - 1;
	unsigned n_before = n_own();
	unsigned char resident;
	struct shm_boards *boards;
	struct shm_exchange *line;

	CHECK(hold(CLIENT, i) == NULL);
	boards = introduce(CLIENT);
	line = hold(CLIENT, i);
	REQUIRE(line == shm_line_of(boards, i));
	go(CLIENT);
	CHECK(hold(CLIENT, i) == NULL);
	/* Longer than what has gone is kept. */
	for (unsigned n = 0; n < 25; n++) {
		(void)poll(NULL, 0, 100);
		REQUIRE(client_lock());
		peers_bury();
		client_unlock();
		atomic_store(&line->halves[1].mark, n);
	}
	/* Its bell does not: nobody sleeps there. */
	CHECK_INT(n_own(), <=, n_before);
	REQUIRE(client_lock());
	peers_let_line_go(CLIENT, line);
	client_unlock();
	for (unsigned n = 0; n < N_TURNS && mincore(boards, SHM_PAGE, &resident) == 0; n++) {
		(void)poll(NULL, 0, 1);
		REQUIRE(client_lock());
		peers_bury();
		client_unlock();
	}
	CHECK(mincore(boards, SHM_PAGE, &resident) < 0);
}

/* A watch that names a page of lines, as only a liar's does, sets nothing there. */
static void lines_are_no_boards(void)
{
	struct shm_boards *boards = introduce(CLIENT_WHO_STAYS + 1);
	struct shm_board *page;

	for (uint32_t i = SHM_FIRST_LINES; i < SHM_N_BOARDS; i++) {
		page = shm_board_of(boards, i);
		peers_tell(SHM_WATCH(CLIENT_WHO_STAYS + 1, i, BIT));
		REQUIRE(client_lock());
		peers_introduce(CLIENT_WHO_STAYS + 1, i, NULL, eventfd(0, EFD_CLOEXEC));
		client_unlock();
		peers_tell(SHM_WATCH(CLIENT_WHO_STAYS + 1, i, BIT));
		for (size_t w = 0; w < SHM_PAGE / 8; w++)
			REQUIRE_INT(((uint64_t *)page)[w], ==, 0);
	}
}

static const struct test tests[] = {
	TEST(one_is_rung),
	TEST(who_has_gone_is_kept_for_a_while),
	TEST(a_line_that_is_held_stays),
	TEST(lines_are_no_boards),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
