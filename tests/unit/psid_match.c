/* psid brings two ends together: the whole dialogue over real TCP connections. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "psid/scene.h"

static void begin(const char *const settings[])
{
	scene_begin(false, settings);
	CHECK_INT(a.id, !=, b.id);
}

static void check_fresh(const struct shm_side *side)
{
	CHECK_INT(side->head, ==, 0);
	CHECK_INT(side->tail, ==, 0);
	CHECK_INT(side->notice, ==, 0);
	CHECK_INT(side->tx_mode, ==, 0);
	CHECK_INT(side->kernel_at, ==, 0);
	CHECK_INT(side->ring_at[0], ==, 0);
	CHECK(side->ring_at[1] == SHM_NOT_BEGUN && side->ring_at[4] == SHM_NOT_BEGUN);
	CHECK_INT(side->rcvlowat, ==, 1);
	CHECK_INT(side->growth, ==, 0);
}

static void check_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	CHECK(seals & F_SEAL_SHRINK);
	CHECK(seals & F_SEAL_GROW);
	CHECK(seals & F_SEAL_SEAL);
	CHECK(!(seals & F_SEAL_WRITE));
	REQUIRE(fstat(fd, &st) == 0);
	CHECK_INT(st.st_mode & 0777, ==, 0600);
}

static void two_ends_meet(void)
{
	struct fake_upgrade u;
	struct shm_side *own, *seen;
	struct stat st;
	int fds[2];

	begin(NULL);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	CHECK_INT(u.side[0].own_id, ==, u.side[1].peer_id);
	CHECK_INT(u.side[0].own_slot, ==, u.side[1].peer_slot);
	CHECK_INT(u.side[1].own_id, ==, u.side[0].peer_id);
	REQUIRE(u.side[0].own_fd >= 0 && u.side[1].peer_fd >= 0);
	REQUIRE(u.side[0].peer_fd >= 0 && u.side[1].own_fd >= 0);
	check_sealed(u.side[0].own_fd);

	/* What is allocated is what a connection needs from its first byte on. */
	REQUIRE(fstat(u.side[0].own_fd, &st) == 0);
	CHECK_INT(st.st_size, ==, u.side[0].size);
	CHECK_INT(st.st_blocks * 512, ==, SHM_SIZE_HEADER + 2 * SHM_PAGE);
	own = fake_side(u.side[0].own_fd, u.side[0].size, u.side[0].own_slot);
	seen = fake_side(u.side[1].peer_fd, u.side[0].size, u.side[0].own_slot);
	check_fresh(seen);
	atomic_store(&own->head, 17);
	CHECK_INT(seen->head, ==, 17);

	/* The peer's descriptor can't be made writable. */
	CHECK_INT(fcntl(u.side[1].peer_fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
	CHECK(mmap(NULL, SHM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, u.side[1].peer_fd, 0) ==
	      MAP_FAILED);

	/* psid holds the sockets no more: a close is a FIN. */
	(void)close(fds[0]);
	CHECK_INT(recv(fds[1], &st, 1, 0), ==, 0);
	(void)close(fds[1]);
	fake_upgrade_done(&u);
	scene_end();
}

static void families_mix(void)
{
	static const int families[] = { AF_INET6, 0 };
	struct fake_upgrade u;
	uint64_t last = 0;
	int fds[2];

	begin(NULL);
	for (unsigned i = 0; i < 2; i++) {
		tcp_connect_pair(fds, families[i]);
		fake_upgrade(&a, &b, fds, 10 * i + 10, &u);
		CHECK_INT(u.side[0].conn, >, last);
		CHECK_INT(u.side[1].conn, ==, u.side[0].conn ^ 1);
		last = u.side[0].conn;
		fake_upgrade_done(&u);
		tcp_close_pair(fds);
	}
	scene_end();
}

static void one_process_has_both_ends(void)
{
	struct fake_upgrade u;
	int fds[2];

	begin(NULL);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &a, fds, 2, &u);
	CHECK_INT(u.side[0].own_id, ==, u.side[1].own_id);
	CHECK_INT(u.side[0].own_slot, !=, u.side[1].own_slot);
	CHECK_INT(u.side[0].own_slot, ==, u.side[1].peer_slot);
	/* Sent once. */
	CHECK(u.side[1].own_fd >= 0 && u.side[1].peer_fd >= 0);
	CHECK(u.side[0].own_fd < 0 && u.side[0].peer_fd < 0);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_end();
}

/* The second connection of a pair brings no descriptors; the third gets the first's slot, clean. */
static void slots_are_used_again(void)
{
	struct fake_upgrade u1, u2, u3;
	struct shm_side *side;
	unsigned char *ring;
	int fds[3][2];

	begin(NULL);
	for (unsigned i = 0; i < 3; i++)
		tcp_connect_pair(fds[i], AF_INET);
	fake_upgrade(&a, &b, fds[0], 2, &u1);
	fake_upgrade(&a, &b, fds[1], 4, &u2);
	CHECK(u2.side[0].own_fd < 0 && u2.side[0].peer_fd < 0 && u2.side[1].own_fd < 0);
	CHECK_INT(u2.side[0].own_id, ==, u1.side[0].own_id);
	CHECK_INT(u2.side[0].own_slot, !=, u1.side[0].own_slot);

	side = fake_side(u1.side[0].own_fd, u1.side[0].size, u1.side[0].own_slot);
	ring = (unsigned char *)side + SHM_PAGE;
	memset(side, 0xab, SHM_PAGE);
	memset(ring, 0xcd, 4096);
	atomic_store(fake_own_holders(&u1, 0), 0);
	fake_closed(&a, u1.side[0].conn);
	fake_wait_counts(&psid, 2, 2); /* the other side may still read */
	CHECK_INT(ring[0], ==, 0xcd);
	fake_closed(&b, u1.side[1].conn);
	fake_wait_counts(&psid, 2, 1);
	fake_upgrade(&a, &b, fds[2], 6, &u3);
	CHECK_INT(u3.side[0].own_slot, ==, u1.side[0].own_slot);
	check_fresh(side);
	CHECK_INT(ring[0], ==, 0);
	fake_upgrade_done(&u1);
	for (unsigned i = 0; i < 3; i++) {
		(void)close(fds[i][0]);
		(void)close(fds[i][1]);
	}
	scene_end();
}

/* More connections than a slab has slots: another slab, retired when it is empty. */
static void full_slabs_get_company(void)
{
	static const char *const settings[] = { "PULC_SLOTS_PER_SLAB=2", NULL };
	struct fake_upgrade u[3];
	int fds[3][2];

	begin(settings);
	for (unsigned i = 0; i < 3; i++) {
		tcp_connect_pair(fds[i], AF_INET);
		fake_upgrade(&a, &b, fds[i], 2 * i + 2, &u[i]);
	}
	CHECK_INT(u[1].side[0].own_id, ==, u[0].side[0].own_id);
	CHECK_INT(u[2].side[0].own_id, !=, u[0].side[0].own_id);
	CHECK(u[2].side[0].own_fd >= 0);
	fake_closed(&a, u[2].side[0].conn);
	fake_closed(&b, u[2].side[1].conn);
	CHECK_INT(EXPECT(&a, SLAB_GONE)->slab_gone->id, >, 0);
	CHECK_INT(EXPECT(&a, SLAB_GONE)->slab_gone->id, >, 0);
	for (unsigned i = 0; i < 3; i++) {
		fake_upgrade_done(&u[i]);
		(void)close(fds[i][0]);
		(void)close(fds[i][1]);
	}
	scene_end();
}

/* Many hints of one side first, then all of the other. */
static void a_crowd_meets(void)
{
	enum { N = 300 };
	static int fds[N][2];
	unsigned n_upgrades = 0, n_wants = 0;

	begin(NULL);
	for (unsigned i = 0; i < N; i++) {
		tcp_connect_pair(fds[i], AF_INET);
		fake_hint(&a, fds[i][0], i, true);
	}
	CHECK(fake_is_quiet(&a));
	for (unsigned i = 0; i < N; i++)
		fake_hint(&b, fds[i][1], i, false);
	while (n_upgrades < N && fake_receive(&a)) {
		if (a.msg->body_case == PULC__WIRE__TO_CLIENT__BODY_WANT) {
			uint64_t token = a.msg->want->token;

			fake_socket(&a, fds[token][0], token);
			token = EXPECT(&b, WANT)->want->token;
			fake_socket(&b, fds[token][1], token);
			n_wants++;
			continue;
		}
		REQUIRE_INT(a.msg->body_case, ==, PULC__WIRE__TO_CLIENT__BODY_UPGRADE);
		n_upgrades++;
		if (n_wants < N)
			continue;
	}
	CHECK_INT(n_upgrades, ==, N);
	fake_wait_counts(&psid, 2, N);
	for (unsigned i = 0; i < N; i++) {
		(void)close(fds[i][0]);
		(void)close(fds[i][1]);
	}
	scene_end();
}

static const struct test tests[] = {
	TEST(two_ends_meet),	    TEST(families_mix),		  TEST(one_process_has_both_ends),
	TEST(slots_are_used_again), TEST(full_slabs_get_company), TEST(a_crowd_meets),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
