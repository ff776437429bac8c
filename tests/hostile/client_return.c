/*
 * What a client brings back to a new psid is not what it says: other descriptors, memory of its own
 * making, slots that are not there, connections that are not its own. psid takes only what it made,
 * and nobody else loses anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "psid/fake_return.h"
#include "psid/scene.h"

#define SOMEBODY 65534

static struct fake_client hostile;
static int fds[2];
static struct fake_upgrade u;

/* A connection of a psid that is gone; a, b and somebody else are attached to the next one. */
static void begin(bool system, uid_t uid)
{
	static const char *const settings[] = { "PULC_ALLOW_USERS=*", NULL };

	scene_begin(system, settings);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	scene_restart(system, settings);
	fake_attach(&hostile, &psid, uid);
}

static void end(void)
{
	fake_close(&hostile);
	tcp_close_pair(fds);
	scene_end();
	fake_upgrade_done(&u);
}

static void honest_ones_come_back(void)
{
	uint64_t conn = fake_return(&a, &u, 0, fds[0], 7);

	CHECK_INT(conn, !=, 0);
	CHECK_INT(fake_return(&b, &u, 1, fds[1], 8), ==, conn ^ 1);
	fake_wait_counts(&psid, 3, 1);
}

/* Sent as a slab it ends the client. */
static void expect_refusal(int fd)
{
	struct fake_client liar;
	struct fake_kept k;

	fake_attach(&liar, &psid, FAKE_SELF);
	fake_kept_fill(&k, &u, 0, fds[0], 1);
	fake_return_send(&liar, &k, fd);
	fake_expect_end(&liar);
	fake_close(&liar);
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A copy of the true slab's header in memory that is wrong in one way. */
static int forge(uint64_t size, mode_t mode, int seals)
{
	int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct shm_slab header;

	REQUIRE(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && fchmod(fd, mode) == 0);
	REQUIRE(pread(u.side[0].own_fd, &header, sizeof(header), 0) == sizeof(header));
	REQUIRE(pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
	REQUIRE(fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

static void things_that_are_no_slab(void)
{
	char path[64];
	int wrong[9], pipes[2];

	begin(false, FAKE_SELF);
	REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", u.side[0].own_fd);
	wrong[0] = pipes[0];
	wrong[1] = eventfd(0, EFD_CLOEXEC);
	wrong[2] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	wrong[3] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	wrong[4] = open(path, O_RDONLY | O_CLOEXEC); /* the peer's view of it */
	wrong[5] = forge(u.side[0].size, 0644, SEALS);
	wrong[6] = forge(u.side[0].size, 0600,
			 F_SEAL_GROW | F_SEAL_SEAL); /* can be shrunk under us */
	wrong[7] = forge(u.side[0].size, 0600, SEALS | F_SEAL_WRITE);
	wrong[8] = forge(u.side[0].size - SHM_PAGE, 0600, SEALS); /* not the size that it says */
	for (unsigned i = 0; i < 9; i++) {
		expect_refusal(wrong[i]);
		(void)close(wrong[i]);
	}
	(void)close(pipes[1]);
	honest_ones_come_back();
	end();
}

/* Memory that another user has made is not psid's, however it looks. */
static void memory_of_ones_own(void)
{
	int fd, r;

	if (geteuid() != 0) {
		test_skip("needs root, to be another user");
		return;
	}
	begin(true, SOMEBODY);
	r = seteuid(SOMEBODY);
	fd = forge(u.side[0].size, 0600, SEALS);
	REQUIRE(r == 0 && seteuid(0) == 0);
	expect_refusal(fd);
	(void)close(fd);
	honest_ones_come_back();
	end();
}

static void headers_that_lie(void)
{
	struct shm_geometry header, lie;

	begin(false, FAKE_SELF);
	REQUIRE(pread(u.side[0].own_fd, &header, sizeof(header), 0) == sizeof(header));
	for (unsigned i = 0; i < 8; i++) {
		lie = header;
		if (i == 0)
			lie.magic++;
		else if (i == 1)
			lie.version++;
		else if (i == 2)
			lie.n_slots = SHM_SLOTS_MAX + 1;
		else if (i == 3)
			lie.n_slots = 0;
		else if (i == 4)
			lie.n_slots++;
		else if (i == 5)
			lie.size_slot = 64;
		else if (i == 6)
			lie.size_ring[1] = 3;
		else
			lie.size += SHM_PAGE;
		REQUIRE(pwrite(u.side[0].own_fd, &lie, sizeof(lie), 0) == sizeof(lie));
		expect_refusal(u.side[0].own_fd);
	}
	REQUIRE(pwrite(u.side[0].own_fd, &header, sizeof(header), 0) == sizeof(header));
	honest_ones_come_back();
	end();
}

static void sides_that_are_not_there(void)
{
	struct fake_client liar;
	struct fake_kept k;

	begin(false, FAKE_SELF);
	for (unsigned i = 0; i < 4; i++) {
		fake_attach(&liar, &psid, FAKE_SELF);
		fake_kept_fill(&k, &u, 0, fds[0], 1);
		if (i == 0)
			k.kept.slot = 64;
		else if (i == 1)
			k.kept.slot = UINT32_MAX;
		else if (i == 2)
			k.named.tuple.local_port = 0;
		else
			k.named.tuple.remote_addr.len = 4;
		fake_return_send(&liar, &k, u.side[0].own_fd);
		fake_expect_end(&liar);
		fake_close(&liar);
	}
	honest_ones_come_back();
	end();
}

/* One of one's own slots said to belong to the peer of others: it stays alone. */
static void joined_only_if_both_say_so(void)
{
	struct fake_upgrade mine;
	struct fake_kept k;
	int pair[2];
	uint64_t conn;

	begin(true, geteuid() == 0 ? SOMEBODY : FAKE_SELF);
	/* hostile gets a slab honestly, with itself as its peer */
	tcp_connect_pair(pair, AF_INET);
	fake_upgrade(&hostile, &hostile, pair, 30, &mine);
	conn = fake_return(&a, &u, 0, fds[0], 7);
	fake_kept_fill(&k, &u, 1, fds[1], 9);
	k.kept.slot = 40;
	fake_return_send(&hostile, &k,
			 mine.side[1].own_fd >= 0 ? mine.side[1].own_fd : mine.side[0].own_fd);
	CHECK_INT(EXPECT(&hostile, RETURNED)->returned->conns[0] / 2, !=, conn / 2);
	CHECK_INT(fake_return(&b, &u, 1, fds[1], 8), ==, conn ^ 1);
	fake_upgrade_done(&mine);
	tcp_close_pair(pair);
	end();
}

/* The cookie of others, claimed: their connections are upgraded all the same, and their sides not
 * given away. */
static void cookies_of_others(void)
{
	struct fake_upgrade mine, theirs;
	struct fake_kept k;
	int pair[2], self[2];

	if (geteuid() != 0) {
		test_skip("needs root, to be another user");
		return;
	}
	begin(true, SOMEBODY);
	tcp_connect_pair(self, AF_INET);
	fake_upgrade(&hostile, &hostile, self, 30, &mine);
	tcp_connect_pair(pair, AF_INET);
	for (uint32_t i = 0; i < 2; i++) {
		fake_kept_fill(&k, &u, 1, pair[i], 9);
		k.kept.slot = 40 + i;
		fake_return_send(&hostile, &k,
				 mine.side[1].own_fd >= 0 ? mine.side[1].own_fd
							  : mine.side[0].own_fd);
		CHECK_INT(EXPECT(&hostile, RETURNED)->returned->conns[0], !=, 0);
	}
	fake_upgrade(&a, &b, pair, 20, &theirs);
	fake_ask_attach(&hostile, pair[0], 33);
	CHECK_INT(EXPECT(&hostile, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_USER);
	fake_upgrade_done(&mine);
	fake_upgrade_done(&theirs);
	for (unsigned i = 0; i < 2; i++) {
		(void)close(pair[i]);
		(void)close(self[i]);
	}
	end();
}

static void slabs_of_others(void)
{
	struct fake_kept k;

	if (geteuid() != 0) {
		test_skip("needs root, to be another user");
		return;
	}
	begin(true, SOMEBODY);
	honest_ones_come_back();
	fake_kept_fill(&k, &u, 0, fds[0], 9);
	fake_return_send(&hostile, &k, u.side[0].own_fd);
	CHECK_INT(EXPECT(&hostile, RETURNED)->returned->conns[0], ==, 0);
	fake_wait_counts(&psid, 3, 1);
	end();
}

/* A socket has one side: no second slot is taken for it. */
static void one_socket_for_many_slots(void)
{
	struct fake_upgrade again;

	begin(false, FAKE_SELF);
	again = u;
	CHECK_INT(fake_return(&a, &u, 0, fds[0], 7), !=, 0);
	for (unsigned i = 1; i < 4; i++) {
		again.side[0].own_slot = u.side[0].own_slot + i;
		again.side[0].peer_slot = u.side[0].peer_slot + i;
		CHECK_INT(fake_return(&a, &again, 0, fds[0], 7 + i), ==, 0);
	}
	honest_ones_come_back();
	end();
}

static const struct test tests[] = {
	TEST(one_socket_for_many_slots), TEST(things_that_are_no_slab),
	TEST(memory_of_ones_own),	 TEST(headers_that_lie),
	TEST(sides_that_are_not_there),	 TEST(joined_only_if_both_say_so),
	TEST(cookies_of_others),	 TEST(slabs_of_others),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
