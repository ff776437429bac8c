/*
 * Descriptors as weapons: the wrong ones, too many, ones whose close takes for ever, bells that
 * block. psid must not hang.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "board.h"
#include "psid/scene.h"

#define UID_HOSTILE 65532u

static struct fake_client hostile;

static void begin(bool system, uid_t uid, const char *const settings[])
{
	scene_begin(system, settings);
	fake_attach(&hostile, &psid, uid);
}

static void end(void)
{
	fake_close(&hostile);
	scene_end();
}

/* ---- not the socket -------------------------------------------------------------------------- */

enum { N_WRONG = 8 };

static void make_wrong(int wrong[N_WRONG], int other[2])
{
	int pipes[2];

	REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
	tcp_connect_pair(other, AF_INET);
	wrong[0] = pipes[0];
	wrong[1] = pipes[1];
	wrong[2] = eventfd(0, EFD_CLOEXEC);
	wrong[3] = memfd_create("wrong", MFD_CLOEXEC);
	wrong[4] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	wrong[5] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	wrong[6] = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	wrong[7] = fcntl(other[0], F_DUPFD_CLOEXEC, 0); /* a connected TCP socket, another one */
}

/* The liar is denied, the honest end may hint again and is not kept waiting. */
static void wrong_sockets(void)
{
	int wrong[N_WRONG], other[2], fds[2];

	begin(false, FAKE_SELF, NULL);
	make_wrong(wrong, other);
	tcp_connect_pair(fds, AF_INET);
	for (unsigned i = 0; i < N_WRONG; i++) {
		fake_hint(&a, fds[0], 1, true);
		fake_hint(&hostile, fds[1], 2, false);
		(void)EXPECT(&a, WANT);
		(void)EXPECT(&hostile, WANT);
		fake_socket(&a, fds[0], 1);
		fake_socket(&hostile, wrong[i], 2);
		CHECK_INT(EXPECT(&hostile, DENY)->deny->reason, !=,
			  PULC__WIRE__REASON__REASON_WAITING_PEER);
		CHECK_INT(EXPECT(&a, DENY)->deny->reason, ==,
			  PULC__WIRE__REASON__REASON_WAITING_PEER);
		(void)close(wrong[i]);
	}
	tcp_close_pair(other);
	tcp_close_pair(fds);
	scene_check_upgrade(4);
	end();
}

static void unasked_sockets(void)
{
	int fds[2];

	begin(false, FAKE_SELF, NULL);
	tcp_connect_pair(fds, AF_INET);
	for (unsigned i = 0; i < 100; i++)
		fake_socket(&hostile, fds[0], i);
	for (unsigned i = 0; i < 100; i++)
		CHECK_INT(EXPECT(&hostile, DENY)->deny->reason, ==,
			  PULC__WIRE__REASON__REASON_STALE);
	/* All of them are closed: the end of the connection is seen. */
	(void)close(fds[0]);
	CHECK_INT(recv(fds[1], &(char){ 0 }, 1, 0), ==, 0);
	(void)close(fds[1]);
	end();
}

static void wrong_numbers_of_descriptors(void)
{
	Pulc__Wire__Socket body = PULC__WIRE__SOCKET__INIT;
	FROM_CLIENT(msg, SOCKET, socket) = &body;
	struct iovec iov = { .iov_base = (char[]){ 0x1a, 0 }, .iov_len = 2 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = { 0 };
	struct msghdr raw = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&raw);
	int fds[2];

	begin(false, FAKE_SELF, NULL);
	fake_send(&hostile, &msg, NULL, 0);
	fake_expect_end(&hostile);
	fake_close(&hostile);

	fake_attach(&hostile, &psid, FAKE_SELF);
	fake_send(&hostile, &msg, (int[]){ 0, 1 }, 2);
	fake_expect_end(&hostile);
	fake_close(&hostile);

	fake_attach(&hostile, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(253 * sizeof(int));
	for (unsigned i = 0; i < 253; i++)
		memcpy(CMSG_DATA(cmsg) + i * sizeof(int), &fds[0], sizeof(int));
	REQUIRE(sendmsg(hostile.fd, &raw, MSG_NOSIGNAL) == 2);
	fake_expect_end(&hostile);
	(void)close(fds[0]);
	CHECK_INT(recv(fds[1], &(char){ 0 }, 1, 0), ==, 0); /* none is kept */
	(void)close(fds[1]);
	scene_check_upgrade(2);
	end();
}

/* ---- descriptors that block ------------------------------------------------------------------ */

static bool has_strangers(void)
{
	if (geteuid() == 0)
		return true;
	test_skip("needs root to have a client of another user");
	return false;
}

/* Many times more than a user's closes under way at once, as sockets and beside other messages. */
static void closes_that_hang(void)
{
	enum { N = 12 };
	unsigned denied = 0;
	int peers[N];

	if (!has_strangers())
		return;
	begin(true, UID_HOSTILE, NULL);
	(void)kill(psid.pid, SIGSTOP); /* so that its close is the last one, not ours */
	for (unsigned i = 0; i < N; i++) {
		int fd = tcp_connect_lingering(&peers[i]);

		fake_socket(&hostile, fd, i);
		(void)close(fd);
	}
	(void)kill(psid.pid, SIGCONT);
	for (unsigned i = 0; i < 8; i++)
		scene_check_upgrade(2 * i + 2);
	/* Each is answered when its close is done, though nobody reads at the other ends. */
	for (unsigned i = 0; i < N; i++)
		denied |= 1u << (EXPECT(&hostile, DENY)->deny->token % 32);
	CHECK_INT(denied, ==, (1u << N) - 1);
	for (unsigned i = 0; i < N; i++)
		(void)close(peers[i]);
	end();
}

/* The same descriptors in messages never read: psid's close of the client's socket is the last. */
static void closes_that_hang_unread(void)
{
	Pulc__Wire__Socket body = PULC__WIRE__SOCKET__INIT;
	FROM_CLIENT(msg, SOCKET, socket) = &body;
	int peer, fd;

	if (!has_strangers())
		return;
	begin(true, UID_HOSTILE, NULL);
	fd = tcp_connect_lingering(&peer);
	(void)kill(psid.pid, SIGSTOP);
	fake_send(&hostile, &msg, NULL, 0); /* nonsense: psid reads no further */
	(void)wire_send_from_client(hostile.fd, &msg, &fd, 1);
	(void)close(fd);
	(void)kill(psid.pid, SIGCONT);
	fake_close(&hostile);
	scene_check_upgrade(2);
	(void)close(peer);
	end();
}

/* Clients of one user that come and go, each with such a socket that nobody has read: what psid
 * has of them is soon gone, though nothing is read at the other ends. */
static void closes_that_hang_again_and_again(void)
{
	static const struct timespec moment = { .tv_nsec = 10000000 };
	enum { N = 60 };
	Pulc__Wire__Socket body = PULC__WIRE__SOCKET__INIT;
	FROM_CLIENT(msg, SOCKET, socket) = &body;
	unsigned before;
	int peers[N];

	if (!has_strangers())
		return;
	scene_begin(true, NULL);
	before = daemon_n_open(&psid);
	for (unsigned i = 0; i < N; i++) {
		int fd;

		fake_open(&hostile, &psid, UID_HOSTILE);
		fd = tcp_connect_lingering(&peers[i]); /* of which its process knows nothing */
		(void)kill(psid.pid, SIGSTOP);
		fake_send(&hostile, &msg, NULL, 0); /* nonsense: psid reads no further */
		CHECK_INT(wire_send_from_client(hostile.fd, &msg, &fd, 1), ==, 0);
		(void)close(fd);
		(void)kill(psid.pid, SIGCONT);
		fake_close(&hostile);
	}
	scene_check_upgrade(2); /* psid has seen all of them, and has one slab more for each side */
	for (unsigned i = 0; i < 1000 && daemon_n_open(&psid) > before + 4; i++)
		(void)nanosleep(&moment, NULL);
	CHECK_INT(daemon_n_open(&psid), <=, before + 4);
	for (unsigned i = 0; i < N; i++)
		(void)close(peers[i]);
	scene_end();
}

/* The same as pulcrun's end of a job's channel. */
static void jobs_whose_end_hangs(void)
{
	Pulc__Wire__Host host = PULC__WIRE__HOST__INIT, *hosts = &host;
	Pulc__Wire__Submit submit = PULC__WIRE__SUBMIT__INIT;
	FROM_CLIENT(msg, SUBMIT, submit) = &submit;
	int peer, fd;

	if (!has_strangers())
		return;
	scene_begin(true, NULL);
	fake_open(&hostile, &psid, UID_HOSTILE);
	fake_hello(&hostile, PULC__WIRE__ROLE__ROLE_OWNER);
	(void)EXPECT(&hostile, WELCOME);
	host.name = (char *)"nowhere";
	submit.n_tasks = 1;
	submit.hosts = &hosts;
	submit.n_hosts = 1;
	submit.program = (char *)"true";
	fd = tcp_connect_lingering(&peer);
	(void)kill(psid.pid, SIGSTOP);
	fake_send(&hostile, &msg, &fd, 1);
	(void)close(fd);
	(void)kill(psid.pid, SIGCONT);
	CHECK(EXPECT(&hostile, SUBMIT)->submit->error[0] != '\0');
	scene_check_upgrade(2);
	(void)close(peer);
	end();
}

static void make_partition(struct fake_client *c, const char *name)
{
	Pulc__Wire__Partition partition = PULC__WIRE__PARTITION__INIT;
	Pulc__Wire__PartitionRequest request = PULC__WIRE__PARTITION_REQUEST__INIT;
	FROM_CLIENT(msg, PARTITION, partition) = &request;
	char *nodes[] = { (char *)"n1" };

	partition.name = (char *)name;
	partition.nodes = nodes;
	partition.n_nodes = 1;
	partition.max_jobs = 1;
	request.partition = &partition;
	fake_send(c, &msg, NULL, 0);
	REQUIRE_STR(EXPECT(c, PARTITION)->partition->error, "");
}

/* A job of that partition; takes fd. */
static const Pulc__Wire__SubmitReply *submit_to(struct fake_client *c, const char *partition,
						int fd)
{
	Pulc__Wire__Submit submit = PULC__WIRE__SUBMIT__INIT;
	FROM_CLIENT(msg, SUBMIT, submit) = &submit;

	fake_open(c, &psid, UID_HOSTILE);
	fake_hello(c, PULC__WIRE__ROLE__ROLE_OWNER);
	(void)EXPECT(c, WELCOME);
	submit.n_tasks = 1;
	submit.program = (char *)"true";
	submit.partition = (char *)partition;
	submit.wait = true;
	(void)kill(psid.pid, SIGSTOP); /* so that its close is the last one, not ours */
	fake_send(c, &msg, &fd, 1);
	(void)close(fd);
	(void)kill(psid.pid, SIGCONT);
	return EXPECT(c, SUBMIT)->submit;
}

/* One that waits, with a descriptor whose close takes for ever. */
static void wait_in(struct fake_client *c, const char *partition, int *ret_peer)
{
	CHECK(submit_to(c, partition, tcp_connect_lingering(ret_peer))->waits[0] != '\0');
}

/* Their owner goes, or somebody ends them, and nobody waits for that. */
static void jobs_that_wait(void)
{
	/* Of each: its owner's channel and process, what it has passed, or its keeper; the keeper's
	 * channel and process. */
	static const char *const settings[] = { "PULC_MAX_DESCRIPTORS_PER_USER=14",
						"PULC_NODE_NAME=n1", NULL };
	enum { N = 3 };
	struct fake_client owners[N + 1], root, first;
	Pulc__Wire__KillRequest request = PULC__WIRE__KILL_REQUEST__INIT;
	FROM_CLIENT(msg, KILL, kill) = &request;
	int peers[N + 1];
	int ends[2];
	char job[80];

	if (!has_strangers())
		return;
	scene_begin(true, settings);
	fake_close(&b); /* root has as much as anybody */
	fake_open(&root, &psid, FAKE_SELF);
	fake_hello(&root, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&root, WELCOME);
	make_partition(&root, "p");
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	REQUIRE_STR(submit_to(&first, "p", ends[1])->error, "");
	while (first.msg->submit->waits[0])
		(void)EXPECT(&first, SUBMIT);
	fake_wait_counts(&psid, 3, 0); /* a, its owner, its keeper */
	for (unsigned i = 0; i < N; i++)
		wait_in(&owners[i], "p", &peers[i]);
	/* Nobody else of this user. */
	fake_open(&owners[N], &psid, UID_HOSTILE);
	fake_expect_refusal(&owners[N], PULC__WIRE__REASON__REASON_DESCRIPTORS);
	fake_close(&owners[0]);
	(void)snprintf(job, sizeof(job), "%s", owners[1].msg->submit->job);
	request.job = job;
	fake_send(&root, &msg, NULL, 0);
	REQUIRE_STR(EXPECT(&root, KILL)->kill->error, "");
	CHECK(EXPECT(&owners[1], SUBMIT)->submit->error[0] != '\0');
	fake_kill(&owners[2]);
	fake_close(&owners[2]);
	fake_close(&root);
	fake_attach(&b, &psid, FAKE_SELF);
	scene_check_upgrade(2);
	/* What they had is given back, though none of it is closed yet. */
	wait_in(&owners[0], "p", &peers[N]);
	fake_close(&owners[0]);
	fake_close(&owners[1]);
	fake_close(&first);
	(void)close(ends[0]);
	scene_check_upgrade(4);
	for (unsigned i = 0; i <= N; i++)
		(void)close(peers[i]);
	fake_wait_counts(&psid, 2, 2);
	scene_end();
}

/* A full bell that psid would have to wait for. */
static void bells_that_block(void)
{
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	Pulc__Wire__Ring ring = PULC__WIRE__RING__INIT;
	FROM_CLIENT(bell_msg, BELL, bell) = &bell;
	FROM_CLIENT(ring_msg, RING, ring) = &ring;
	int event = eventfd(0, EFD_CLOEXEC), fds[2];
	uint64_t full = UINT64_MAX - 1;
	struct shm_boards *boards;
	struct fake_upgrade u;

	daemon_start(&psid, false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
	REQUIRE(shm_boards_map(hostile.fds[0], &boards) == 0);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &hostile, fds, 2, &u);
	REQUIRE(write(event, &full, sizeof(full)) == sizeof(full));
	fake_send(&hostile, &bell_msg, &event, 1);
	CHECK(fake_is_quiet(&hostile));
	shm_board_arm(shm_board_of(boards, 0));
	ring.client = hostile.id;
	for (unsigned i = 0; i < 10; i++)
		fake_send(&a, &ring_msg, NULL, 0);
	(void)EXPECT(&a, INTRODUCE);
	CHECK(fake_is_quiet(&a));
	shm_boards_unmap(boards);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_check_upgrade(4);
	(void)close(event);
	end();
}

static void things_that_are_no_bells(void)
{
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	FROM_CLIENT(msg, BELL, bell) = &bell;
	int wrong[N_WRONG], other[2];

	begin(false, FAKE_SELF, NULL);
	make_wrong(wrong, other);
	for (unsigned i = 0; i < N_WRONG; i++) {
		if (i != 2) {
			fake_close(&hostile);
			fake_attach(&hostile, &psid, FAKE_SELF);
			fake_send(&hostile, &msg, &wrong[i], 1);
			fake_expect_end(&hostile);
		}
		(void)close(wrong[i]);
	}
	tcp_close_pair(other);
	end();
}

static const struct test tests[] = {
	TEST(wrong_sockets),
	TEST(unasked_sockets),
	TEST(wrong_numbers_of_descriptors),
	TEST(closes_that_hang),
	TEST(closes_that_hang_unread),
	TEST(jobs_whose_end_hangs),
	TEST(closes_that_hang_again_and_again),
	TEST(jobs_that_wait),
	TEST(bells_that_block),
	TEST(things_that_are_no_bells),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
