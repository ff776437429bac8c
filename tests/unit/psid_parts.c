/* The small parts of psid: map, tuple, outbox, memory, slab. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel.h"
#include "geometry.h"
#include "harness.h"
#include "macros.h"
#include "map.h"
#include "memory.h"
#include "outbox.h"
#include "pair.h"
#include "psid.h"
#include "tuple.h"
#include "user.h"

/* So often that one of them meets a change. */
#define N_DEATHS 100000u
#define UID_OTHER 65531u

static void maps_find_what_they_hold(void)
{
	enum { N = 5000 };
	static struct psid_map_node nodes[N], twin;
	struct psid_map map = { 0 };
	struct psid_map_node *node = NULL;
	size_t n = 0;

	psid_map_seed();
	CHECK(psid_map_find(&map, 1) == NULL);
	CHECK(psid_map_next(&map, NULL) == NULL);
	for (uint64_t i = 0; i < N; i++)
		REQUIRE_INT(psid_map_insert(&map, &nodes[i], i << 32), ==, 0);
	REQUIRE_INT(psid_map_insert(&map, &twin, 7ull << 32), ==, 0);
	for (uint64_t i = 0; i < N; i += 2)
		if (i != 8)
			psid_map_remove(&map, &nodes[i]);
	CHECK(psid_map_find(&map, 9ull << 32) == &nodes[9]);
	CHECK(psid_map_find(&map, 10ull << 32) == NULL);
	node = psid_map_find(&map, 7ull << 32);
	REQUIRE(node != NULL && psid_map_find_next(node) != NULL);
	CHECK(psid_map_find_next(psid_map_find_next(node)) == NULL);
	for (node = NULL; (node = psid_map_next(&map, node));)
		n++;
	CHECK_INT(n, ==, map.n);
	CHECK_INT(n, ==, N / 2 + 2);
	psid_map_deinit(&map);
}

static void tuples_mirror(void)
{
	Pulc__Wire__Tuple wire = PULC__WIRE__TUPLE__INIT, back;
	uint8_t local[16] = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 };
	uint8_t remote[16] = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 };
	struct psid_tuple tuple, mirror;

	CHECK_INT(psid_tuple_read(NULL, &tuple), ==, -EBADMSG);
	wire.local_addr = (ProtobufCBinaryData){ 16, local };
	wire.remote_addr = (ProtobufCBinaryData){ 15, remote };
	wire.local_port = 1;
	wire.remote_port = 65535;
	CHECK_INT(psid_tuple_read(&wire, &tuple), ==, -EBADMSG);
	wire.remote_addr.len = 16;
	REQUIRE_INT(psid_tuple_read(&wire, &tuple), ==, 0);
	mirror = psid_tuple_mirror(&tuple);
	CHECK(!psid_tuple_equal(&tuple, &mirror));
	CHECK_INT(mirror.local_port, ==, 65535);
	CHECK_MEM(mirror.local, remote, 16);
	mirror = psid_tuple_mirror(&mirror);
	CHECK(psid_tuple_equal(&tuple, &mirror));
	CHECK(psid_tuple_hash(&tuple) == psid_tuple_hash(&mirror));
	CHECK(psid_tuple_is_ipv4(&tuple));
	CHECK(!psid_tuple_is_link_local(&tuple));
	tuple.local[12] = 169;
	tuple.local[13] = 254;
	CHECK(psid_tuple_is_link_local(&tuple));
	tuple = (struct psid_tuple){ .remote = { 0xfe, 0xbf } };
	CHECK(psid_tuple_is_link_local(&tuple));
	CHECK(!psid_tuple_is_ipv4(&tuple));
	psid_tuple_write(&mirror, &back);
	CHECK_INT(back.remote_port, ==, 65535);
	CHECK_INT(back.local_addr.len, ==, 16);
}

/* ---- outboxes: whose they are, and who closes what they keep --------------------------------- */

static struct psid psid;
static struct psid_user user;

static void begin_closes(void)
{
	psid = (struct psid){ 0 };
	user = (struct psid_user){ .psid = &psid, .n_refs = 1 };
	TAILQ_INIT(&user.closings);
	REQUIRE_INT(uv_loop_init(&psid.loop), ==, 0);
	REQUIRE_INT(psid_closer_start(&psid.closer, &psid.loop), ==, 0);
}

static void end_closes(void)
{
	while (psid_closer_pending(&psid.closer) > 0)
		(void)uv_run(&psid.loop, UV_RUN_ONCE);
	REQUIRE(psid_closer_stop(&psid.closer));
	(void)uv_run(&psid.loop, UV_RUN_DEFAULT);
	REQUIRE_INT(uv_loop_close(&psid.loop), ==, 0);
}

/* Everything arrives, in order, with its descriptors, though nobody read for a while. */
static void outboxes_keep_order(void)
{
	enum { N = 2000 };
	struct psid_outbox box;
	uint32_t number;
	unsigned char buf[WIRE_SIZE_MAX];
	int pair[2], fds[WIRE_FDS_MAX], memory = memfd_create("test", MFD_CLOEXEC);
	size_t len, n_fds;

	begin_closes();
	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	psid_outbox_init(&box, &user);
	for (number = 0; number < N; number++)
		REQUIRE_INT(psid_outbox_send(&box, pair[0], &number, sizeof(number), &memory,
					     number % 5 == 0,
					     (struct psid_outbox_room){ 1 << 20, N }),
			    ==, 0);
	CHECK(!psid_outbox_is_empty(&box));
	for (uint32_t i = 0; i < N; i++) {
		int r = wire_recv(pair[1], buf, &len, fds, &n_fds);

		if (r == -EAGAIN) {
			REQUIRE_INT(psid_outbox_flush(&box, pair[0]), ==, 0);
			r = wire_recv(pair[1], buf, &len, fds, &n_fds);
		}
		REQUIRE_INT(r, ==, 0);
		memcpy(&number, buf, sizeof(number));
		CHECK_INT(number, ==, i);
		CHECK_INT(n_fds, ==, (i % 5 == 0));
		if (n_fds)
			(void)close(fds[0]);
	}
	CHECK(psid_outbox_is_empty(&box));
	CHECK_INT(box.size, ==, 0);
	(void)close(pair[0]);
	(void)close(pair[1]);
	(void)close(memory);
	end_closes();
}

static void outboxes_are_bounded(void)
{
	static unsigned char large[8192];
	struct psid_outbox box;
	int pair[2], r = 0;
	unsigned n = 0;

	begin_closes();
	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	psid_outbox_init(&box, &user);
	while (r == 0 && n++ < 10000)
		r = psid_outbox_send(&box, pair[0], large, sizeof(large), NULL, 0,
				     (struct psid_outbox_room){ 100000 - box.size, 0 });
	CHECK_INT(r, ==, -ENOBUFS);
	CHECK_INT(box.size, <=, 100000);
	(void)close(pair[1]);
	CHECK_INT(psid_outbox_flush(&box, pair[0]), <, 0); /* gone, with messages unread */
	psid_outbox_deinit(&box);
	CHECK_INT(box.size, ==, 0);
	(void)close(pair[0]);
	end_closes();
}

/* As a user who may not have more descriptors under way than open: 0, or which step has failed. */
static int send_under_way(void)
{
	enum { N = 64 };
	struct rlimit limit = { N / 2, N / 2 };
	struct psid_outbox_room room = { 1 << 20, N };
	struct psid_outbox box;
	unsigned char buf[WIRE_SIZE_MAX];
	int others[2], pair[2], fds[WIRE_FDS_MAX], own = memfd_create("test", MFD_CLOEXEC);
	size_t len, n_fds;

	begin_closes();
	psid_outbox_init(&box, &user);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, others) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || own < 0 ||
	    setrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    (geteuid() == 0 && setresuid(UID_OTHER, UID_OTHER, UID_OTHER) < 0))
		return 1;
	while (wire_send(others[0], "o", 1, &own, 1) == 0)
		;
	if (wire_send(pair[0], "s", 1, &own, 1) != -ETOOMANYREFS ||
	    psid_outbox_send(&box, pair[0], "1", 1, &own, 1, room) != 0)
		return 2;
	if (psid_outbox_send(&box, pair[0], "2", 1, NULL, 0, room) != 0 ||
	    psid_outbox_flush(&box, pair[0]) != -ETOOMANYREFS || box.n_fds != 1)
		return 3;
	(void)close(others[1]);
	if (psid_outbox_flush(&box, pair[0]) != 0 || !psid_outbox_is_empty(&box))
		return 4;
	if (wire_recv(pair[1], buf, &len, fds, &n_fds) != 0 || buf[0] != '1' || n_fds != 1 ||
	    wire_recv(pair[1], buf, &len, fds, &n_fds) != 0 || buf[0] != '2')
		return 5;
	end_closes();
	return 0;
}

/* What others of its user leave in the kernel is no client's fault. */
static void outboxes_wait_for_descriptors_under_way(void)
{
	int status = -1;
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(send_under_way());
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), ==, 0);
}

static void messages_have_a_largest_size(void)
{
	static unsigned char buf[WIRE_SIZE_MAX + 1], got[WIRE_SIZE_MAX];
	int pair[2], fds[WIRE_FDS_MAX], many[WIRE_FDS_MAX + 1] = { 0 };
	size_t len, n_fds;

	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK_INT(wire_send(pair[0], buf, WIRE_SIZE_MAX + 1, NULL, 0), ==, -EMSGSIZE);
	CHECK_INT(wire_send(pair[0], buf, 1, many, WIRE_FDS_MAX + 1), ==, -EMSGSIZE);
	CHECK_INT(wire_send(pair[0], buf, WIRE_SIZE_MAX, NULL, 0), ==, 0);
	CHECK_INT(wire_recv(pair[1], got, &len, fds, &n_fds), ==, 0);
	CHECK_INT(len, ==, WIRE_SIZE_MAX);
	CHECK_INT(wire_recv(pair[1], got, &len, fds, &n_fds), ==, -EAGAIN);
	REQUIRE(send(pair[0], buf, sizeof(buf), 0) == sizeof(buf));
	CHECK_INT(wire_recv(pair[1], got, &len, fds, &n_fds), ==, -EBADMSG);
	(void)close(pair[0]);
	CHECK_INT(wire_recv(pair[1], got, &len, fds, &n_fds), ==, -EPIPE);
	CHECK_INT(wire_send(pair[1], buf, 1, NULL, 0), ==, -EPIPE);
	(void)close(pair[1]);
}

static void memory_is_sealed_and_given_back(void)
{
	struct stat st;
	struct psid_window window = { 0 };
	int fd, again;
	char byte, *map;

	REQUIRE_INT(psid_memory_new("test", 1 << 20, "head", 4, &fd), ==, 0);
	CHECK_INT(ftruncate(fd, 0), ==, -1);
	CHECK_INT(ftruncate(fd, 2 << 20), ==, -1);
	CHECK_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), ==, -1);
	REQUIRE_INT(psid_memory_readonly(fd, &again), ==, 0);
	CHECK(write(again, "x", 1) < 0);
	map = psid_window_open(&window, fd, 1 << 20);
	REQUIRE(map != NULL);
	CHECK_INT(psid_memory_allocate(map + 65536, 8192), ==, 0);
	REQUIRE(fstat(fd, &st) == 0);
	CHECK_INT(st.st_blocks * 512, ==, 3 * 4096);
	CHECK_INT(psid_memory_write(&(struct psid_piece){ map + 65536, "y", 1 }, 1), ==, 0);
	CHECK_INT(psid_memory_read(fd, 65536, &byte, 1), ==, 0);
	CHECK_INT(byte, ==, 'y');
	psid_memory_release(fd, 65536, 8192);
	CHECK_INT(psid_memory_read(fd, 65536, &byte, 1), ==, 0);
	CHECK_INT(byte, ==, 0);
	REQUIRE(fstat(fd, &st) == 0);
	CHECK_INT(st.st_blocks * 512, ==, 4096);
	CHECK_INT(psid_memory_read(fd, 1 << 20, &byte, 1), ==, -ENODATA);
	psid_window_close(&window);
	psid_window_close(&window);
	(void)close(fd);
	(void)close(again);
}

/* Those used last stay. */
static void windows_are_few(void)
{
	enum { N = 40 };
	struct psid_window windows[N] = { 0 };
	unsigned n = 0;
	char *first;
	int fd;

	REQUIRE_INT(psid_memory_new("test", 1 << 20, "head", 4, &fd), ==, 0);
	first = psid_window_open(&windows[0], fd, 1 << 20);
	for (unsigned i = 1; i < N; i++) {
		REQUIRE(psid_window_open(&windows[i], fd, 1 << 20) != NULL);
		CHECK(psid_window_open(&windows[0], fd, 1 << 20) == first);
	}
	for (unsigned i = 0; i < N; i++)
		n += windows[i].map != NULL;
	CHECK_INT(n, <, N);
	CHECK(windows[N - 1].map != NULL);
	for (unsigned i = 0; i < N; i++)
		psid_window_close(&windows[i]);
	(void)close(fd);
}

struct lively {
	_Atomic uint64_t *notice;
	_Atomic bool enough;
	bool lost;
};

/* Changes a flag all the time, and knows what it is. */
static void *change(void *arg)
{
	struct lively *l = arg;
	uint64_t had;

	for (unsigned i = 0; !atomic_load(&l->enough); i++) {
		had = atomic_fetch_xor(l->notice, SHM_TX_FIN);
		l->lost |= !(had & SHM_TX_FIN) != !(i % 2);
	}
	return NULL;
}

/* Psid thinks so, or it is stopped; or there are children whom psid knows nothing of. */
static void who_is_marked_dead_may_be_at_work(void)
{
	struct psid_slab slab = { .size_slot = SHM_PAGE, .size = 16 * SHM_PAGE };
	struct lively lively = { 0 };
	struct shm_side *side;
	pthread_t thread;

	REQUIRE_INT(psid_memory_new("test", 16 * SHM_PAGE, "", 1, &slab.fd), ==, 0);
	side = mmap(NULL, SHM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, slab.fd,
		    (off_t)shm_slot_at(slab.size_slot, 1));
	REQUIRE(side != MAP_FAILED);
	lively.notice = &side->notice;
	pthread_create(&thread, NULL, change, &lively);
	for (unsigned i = 0; i < N_DEATHS; i++)
		psid_slot_mark_dead(&slab, 1, i == 0);
	atomic_store(&lively.enough, true);
	pthread_join(thread, NULL);
	CHECK(!lively.lost);
	CHECK_INT(side->notice | SHM_TX_FIN, ==, SHM_TX_FIN | SHM_DEAD | SHM_EXITED);
	(void)munmap(side, SHM_PAGE);
	psid_window_close(&slab.window);
	(void)close(slab.fd);
}

static const struct test tests[] = {
	TEST(maps_find_what_they_hold),
	TEST(tuples_mirror),
	TEST(outboxes_keep_order),
	TEST(outboxes_are_bounded),
	TEST(outboxes_wait_for_descriptors_under_way),
	TEST(messages_have_a_largest_size),
	TEST(memory_is_sealed_and_given_back),
	TEST(windows_are_few),
	TEST(who_is_marked_dead_may_be_at_work),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
