/* A connection of two processes, one of which is about to execute a program and lets go of it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/fds.h>
#include <pulc/process.h>

#include "macros.h"
#include "private.h"
#include "psid/fake_client.h"
#include "psid/fork_here.h"
#include "upgrade.h"

#define TOKEN 1u
#define N_TURNS 30000
/* More calls than a process makes without a look at who may come back. */
#define N_ENOUGH 40
#define SEC_PATIENCE 20
/* For all but slabs. */
#define SIZE_ROOM (64ull << 20)

static struct daemon psid;
static struct fake_client peer;
static int fds[2]; /* ours, the peer's */
static pulc_stream *stream;
static const struct shm_side *seen; /* our side, as the peer maps it */
static int to_child[2], to_parent[2];

/* All but our own end. */
static void begin_psid(void)
{
	static const char *const settings[] = { "PULC_HAND_OVER_MSEC=60000", NULL };

	if (!psid.pid)
		daemon_start(&psid, false, settings);
	(void)unsetenv("PULC_SOCKET");
	(void)setenv("PULC_RUNTIME_DIR", psid.dir, 1);
	fake_attach(&peer, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
}

static void begin(void)
{
	begin_psid();
	client_prepare();
	REQUIRE_INT(pulc_stream_new(fds[0], PULC_CONNECTED, &stream), ==, 0);
	for (unsigned i = 0; i <= client_hint_after(); i++)
		upgrade_step(stream, fds[0]);
	fake_hint(&peer, fds[1], TOKEN, false);
	(void)EXPECT(&peer, WANT);
}

static void look_while(int state)
{
	for (unsigned i = 0; i < N_TURNS && atomic_load(&stream->state) == state; i++) {
		REQUIRE(client_lock());
		client_look();
		client_unlock();
		(void)poll(NULL, 0, 1);
	}
}

/* The peer's part; returns its side. */
static struct shm_side *finish_upgrade(void)
{
	const Pulc__Wire__Upgrade *m;
	struct shm_side *side;

	fake_socket(&peer, fds[1], TOKEN);
	m = EXPECT(&peer, UPGRADE)->upgrade;
	REQUIRE(m->own_slab_fd);
	side = fake_side(peer.fds[0], m->own->size, m->own_slot);
	REQUIRE(m->peer_slab_fd);
	seen = fake_side(peer.fds[1], m->peer->size, m->peer_slot);
	return side;
}

/* Upgraded, and both ways on rings. */
static void upgrade(void)
{
	struct shm_side *side;

	look_while(STREAM_HINTED);
	side = finish_upgrade();
	look_while(STREAM_GIVEN);
	REQUIRE(pulc_stream_attached(stream));
	(void)atomic_fetch_or(&side->notice, SHM_RX_READY | SHM_RX_RING);
}

static void end(void)
{
	if (stream)
		pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	tcp_close_pair(fds);
	fake_close(&peer);
	for (int i = 0; i < 2; i++) {
		(void)close(to_child[i]);
		(void)close(to_parent[i]);
	}
}

static void send_text(const char *text)
{
	REQUIRE_INT(pulc_stream_send(stream, fds[0], text, strlen(text), 0), ==, strlen(text));
}

static void say(const int to[2])
{
	REQUIRE_INT(write(to[1], "", 1), ==, 1);
}

static void await(const int from[2])
{
	char byte;

	REQUIRE_INT(read(from[0], &byte, 1), ==, 1);
}

/* All that has been sent. */
static void check_ring(const char *text)
{
	const struct shm_stream *ring = &stream->tcp.ring;

	CHECK_INT(atomic_load(&ring->own->head), ==, strlen(text));
	CHECK_MEM(ring->tx_ring[0], text, strlen(text));
}

static uint32_t n_holders(void)
{
	return atomic_load(stream->tcp.ring.own_holders);
}

static void let_go(void)
{
	pulc_stream_leaves(stream);
	say(to_parent);
	await(to_child);
}

/* A child whose exec has failed. */
static void come_back_and_send(void)
{
	let_go();
	pulc_stream_stays(stream);
	pulc_exec_failed();
	send_text("child,");
	say(to_parent);
	await(to_child);
	_exit(0);
}

static void reap(pid_t pid)
{
	int status = -1;

	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

static void whoever_comes_back_and_whoever_stayed_send_in_turn(void)
{
	pid_t pid;

	begin();
	upgrade();
	send_text("parent,");
	pid = fork_here();
	if (pid == 0)
		come_back_and_send();
	await(to_parent);
	for (int i = 0; i < N_ENOUGH; i++)
		send_text("+");
	CHECK(!shm_is_alone(&stream->tcp.ring));
	say(to_child);
	await(to_parent);
	send_text("parent");
	check_ring("parent,++++++++++++++++++++++++++++++++++++++++child,parent");
	say(to_child);
	reap(pid);
	end();
}

static void whoever_stays_is_alone_after_the_exec(void)
{
	pid_t pid;

	begin();
	upgrade();
	pid = fork_here();
	if (pid == 0) {
		let_go();
		(void)execl("/bin/true", "true", NULL);
		_exit(1);
	}
	await(to_parent);
	send_text("-");
	CHECK_INT(n_holders(), !=, 1);
	say(to_child);
	reap(pid);
	for (int i = 0; i < N_ENOUGH; i++)
		send_text("+");
	CHECK_INT(n_holders(), ==, 1);
	CHECK(shm_is_alone(&stream->tcp.ring));
	check_ring("-++++++++++++++++++++++++++++++++++++++++");
	end();
}

static void whoever_is_killed_before_the_exec_does_not_come_back(void)
{
	pid_t pid;
	int status;

	begin();
	upgrade();
	pid = fork_here();
	if (pid == 0) {
		let_go();
		_exit(1);
	}
	await(to_parent);
	(void)kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	for (int i = 0; i < N_ENOUGH; i++)
		send_text("+");
	CHECK_INT(n_holders(), ==, 1);
	end();
}

/* Nobody can see whether it comes back. */
static void without_the_descriptor_of_the_slab_nobody_is_alone(void)
{
	pid_t pid;

	begin();
	upgrade();
	pulc_fd_release(&stream->own_slab->fd);
	pid = fork_here();
	if (pid == 0)
		come_back_and_send();
	await(to_parent);
	for (int i = 0; i < N_ENOUGH; i++)
		send_text("+");
	say(to_child);
	await(to_parent);
	send_text("parent");
	check_ring("++++++++++++++++++++++++++++++++++++++++child,parent");
	say(to_child);
	reap(pid);
	end();
}

static void close_ours(void)
{
	pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	(void)close(fds[0]);
	fds[0] = -1;
}

/* It is the only one that holds the connection, and closes it. */
static void come_back_and_close(void)
{
	let_go();
	pulc_stream_stays(stream);
	pulc_exec_failed();
	if ((n_holders() & ~(uint32_t)SHM_MAY_RETURN) != 1)
		_exit(1);
	if (seen->notice & (SHM_CLOSED | SHM_TX_FIN | SHM_DEAD))
		_exit(2);
	send_text("child");
	fake_wait_counts(&psid, 3, 1);
	close_ours();
	_exit(seen->notice & SHM_CLOSED ? 0 : 3);
}

static void whoever_comes_back_finds_open_what_was_closed_meanwhile(void)
{
	pid_t pid;

	begin();
	upgrade();
	send_text("parent,");
	pid = fork_here();
	if (pid == 0)
		come_back_and_close();
	await(to_parent);
	close_ours();
	CHECK_INT(seen->notice & (SHM_CLOSED | SHM_TX_FIN), ==, 0);
	say(to_child);
	reap(pid);
	CHECK_INT(atomic_load(&seen->head), ==, strlen("parent,child"));
	end();
}

/* One who may come back is enough, be it that another one does not; it is counted once. */
static void one_of_two_comes_back(void)
{
	pid_t pids[2];

	begin();
	upgrade();
	for (int i = 0; i < 2; i++) {
		pids[i] = fork_here();
		if (pids[i] == 0 && i == 0) {
			pulc_stream_leaves(stream);
			say(to_parent);
			(void)pause();
		}
		if (pids[i] == 0)
			come_back_and_close();
		await(to_parent);
	}
	close_ours();
	(void)kill(pids[0], SIGKILL);
	REQUIRE_INT(waitpid(pids[0], NULL, 0), ==, pids[0]);
	CHECK_INT(seen->notice & (SHM_CLOSED | SHM_TX_FIN), ==, 0);
	say(to_child);
	reap(pids[1]);
	end();
}

/* Then it has ended without a word: the kernel says it, and psid. */
static void whoever_does_not_come_back_ends_what_was_closed_meanwhile(void)
{
	struct pollfd p = { .events = POLLRDHUP };
	pid_t pid;

	begin();
	upgrade();
	p.fd = fds[1];
	pid = fork_here();
	if (pid == 0) {
		let_go();
		(void)execl("/bin/true", "true", NULL);
		_exit(1);
	}
	await(to_parent);
	close_ours();
	CHECK_INT(poll(&p, 1, 0), ==, 0);
	say(to_child);
	reap(pid);
	CHECK_INT(poll(&p, 1, N_TURNS), ==, 1);
	for (unsigned i = 0; i < N_TURNS && !(seen->notice & SHM_DEAD); i++)
		(void)poll(NULL, 0, 1);
	CHECK_INT(seen->notice & (SHM_CLOSED | SHM_DEAD), ==, SHM_DEAD);
	end();
}

/* The mark is looked into by who closes. */
static void an_exec_that_is_over_does_not_matter(void)
{
	pid_t pid;

	begin();
	upgrade();
	pid = fork_here();
	if (pid == 0) {
		pulc_stream_leaves(stream);
		(void)execl("/bin/true", "true", NULL);
		_exit(1);
	}
	reap(pid);
	close_ours();
	CHECK_INT(seen->notice & (SHM_CLOSED | SHM_ABRUPT), ==, SHM_CLOSED | SHM_ABRUPT);
	end();
}

/* What the program does that was executed with a connection of which psid keeps nothing: 0, or what
 * it finds otherwise. */
static int inherit(int fd)
{
	pulc_stream *inherited;
	char byte;

	client_prepare();
	if (!pulc_socket_is_upgraded(fd))
		return 1;
	if (pulc_stream_inherit(fd, &inherited) != -ESTALE)
		return 2;
	if (pulc_socket_is_upgraded(fd))
		return 3;
	if (recv(fd, &byte, 1, 0) != 0)
		return 4;
	return send(fd, "", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE ? 0 : 5;
}

/* The same of one that may have no more memory than it has, which does not do for the rings. */
static int inherit_without_room(int fd)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned long n_pages;
	pulc_stream *inherited;
	char byte;
	FILE *statm = fopen("/proc/self/statm", "r");

	(void)alarm(SEC_PATIENCE);
	client_prepare();
	if (!statm || fscanf(statm, "%lu", &n_pages) != 1 || fclose(statm) != 0)
		return 1;
	limit.rlim_cur = n_pages * SHM_PAGE + SIZE_ROOM;
	if (setrlimit(RLIMIT_AS, &limit) < 0)
		return 2;
	if (pulc_stream_inherit(fd, &inherited) != -ESTALE)
		return 3;
	return recv(fd, &byte, 1, 0) == -1 && errno == ECONNRESET ? 0 : 4;
}

static void become_another_program(const char *what)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", fds[0]);
	(void)close(fds[1]);
	(void)fcntl(fds[0], F_SETFD, 0);
	say(to_parent);
	await(to_child);
	(void)execl("/proc/self/exe", "stream_exec", what, number, NULL);
	_exit(99);
}

static void reset_by_peer(void)
{
	struct linger at_once = { .l_onoff = 1 };
	int error = 0;
	socklen_t len = sizeof(error);

	REQUIRE_INT(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), ==, 0);
	REQUIRE_INT(close(fds[1]), ==, 0);
	fds[1] = -1;
	REQUIRE_INT(getsockopt(fds[0], SOL_SOCKET, SO_ERROR, &error, &len), ==, 0);
	CHECK_INT(error, ==, ECONNRESET);
}

/* Neither psid nor sock_diag knows of it any more; there was nothing in the rings. */
static void what_was_read_out_and_reset_is_the_kernels(void)
{
	pid_t pid;

	begin();
	upgrade();
	pid = fork_here();
	if (pid == 0)
		become_another_program("inherit");
	await(to_parent);
	reset_by_peer();
	fake_closed(&peer, stream->conn);
	close_ours();
	fake_wait_counts(&psid, 2, 0);
	say(to_child);
	reap(pid);
	end();
}

/* What is in the rings it can't have: it is told so, and its peer is. */
static void whoever_can_not_map_the_memory_resets(void)
{
	int error = 0;
	socklen_t len = sizeof(error);
	pid_t pid;

	begin();
	upgrade();
	pid = fork_here();
	if (pid == 0)
		become_another_program("narrow");
	await(to_parent);
	close_ours();
	fake_wait_counts(&psid, 2, 1);
	say(to_child);
	reap(pid);
	REQUIRE_INT(getsockopt(fds[1], SOL_SOCKET, SO_ERROR, &error, &len), ==, 0);
	CHECK_INT(error, ==, ECONNRESET);
	end();
}

/* ---- killed between counting itself off and telling psid ------------------------------------- */

/* The next word to psid ends the process. */
static void die_of_the_next_message(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(1);
}

/* Its child, of which psid has not heard, goes on with the connection. */
static void fork_and_close(void (*leave_it)(void))
{
	client_prepare();
	if (pulc_stream_new(fds[0], PULC_CONNECTED, &stream) < 0)
		_exit(2);
	for (unsigned i = 0; i <= client_hint_after(); i++)
		upgrade_step(stream, fds[0]);
	look_while(STREAM_HINTED);
	look_while(STREAM_GIVEN);
	send_text("parent,");
	if (fork_here() == 0) {
		say(to_parent);
		await(to_child);
		_exit(0);
	}
	die_of_the_next_message();
	leave_it();
	_exit(3);
}

static void check_that_the_child_lives(void (*leave_it)(void))
{
	struct shm_side *side;
	pid_t pid;
	int status;

	begin_psid();
	pid = fork_here();
	if (pid == 0)
		fork_and_close(leave_it);
	(void)close(fds[0]);
	fds[0] = -1;
	fake_hint(&peer, fds[1], TOKEN, false);
	(void)EXPECT(&peer, WANT);
	side = finish_upgrade();
	(void)atomic_fetch_or(&side->notice, SHM_RX_READY | SHM_RX_RING);
	await(to_parent);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	fake_wait_counts(&psid, 1 + pulc_process_attached(), 1);
	CHECK_INT(seen->notice & (SHM_CLOSED | SHM_DEAD), ==, 0);
	say(to_child);
	for (unsigned i = 0; i < N_TURNS && !(seen->notice & SHM_DEAD); i++)
		(void)poll(NULL, 0, 1);
	CHECK_INT(seen->notice & (SHM_CLOSED | SHM_DEAD), ==, SHM_DEAD);
	end();
}

static void whoever_is_killed_while_it_closes_leaves_the_others_alone(void)
{
	check_that_the_child_lives(close_ours);
}

static void whoever_is_killed_while_it_ends_leaves_the_others_alone(void)
{
	check_that_the_child_lives(pulc_process_ends);
}

static void psid_was_well(void)
{
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

static const struct test tests[] = {
	TEST(whoever_comes_back_and_whoever_stayed_send_in_turn),
	TEST(whoever_stays_is_alone_after_the_exec),
	TEST(whoever_is_killed_before_the_exec_does_not_come_back),
	TEST(without_the_descriptor_of_the_slab_nobody_is_alone),
	TEST(whoever_comes_back_finds_open_what_was_closed_meanwhile),
	TEST(one_of_two_comes_back),
	TEST(whoever_does_not_come_back_ends_what_was_closed_meanwhile),
	TEST(an_exec_that_is_over_does_not_matter),
	TEST(what_was_read_out_and_reset_is_the_kernels),
	TEST(whoever_can_not_map_the_memory_resets),
	TEST(whoever_is_killed_while_it_closes_leaves_the_others_alone),
	TEST(whoever_is_killed_while_it_ends_leaves_the_others_alone),
	TEST(psid_was_well),
};

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "inherit") == 0)
		return inherit(atoi(argv[2]));
	if (argc == 3 && strcmp(argv[1], "narrow") == 0)
		return inherit_without_room(atoi(argv[2]));
	return TESTS_RUN(tests, argc, argv);
}
