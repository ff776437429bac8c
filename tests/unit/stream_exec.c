/* A connection of two processes, one of which is about to execute a program and lets go of it. */
#include "stream_exec.h"

#include <fcntl.h>
#include <string.h>

#include <pulc/fds.h>

/* More calls than a process makes without a look at who may come back. */
#define N_ENOUGH 40

static void send_text(const char *text)
{
	REQUIRE_INT(pulc_stream_send(stream, fds[0], text, strlen(text), 0), ==, strlen(text));
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

/* ---- killed between counting itself off and telling psid ------------------------------------- */

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
	/* The next word to psid ends the process. */
	if (!filter_call(SYS_sendmsg, SECCOMP_RET_KILL_PROCESS))
		_exit(1);
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
	TEST(whoever_is_killed_while_it_closes_leaves_the_others_alone),
	TEST(whoever_is_killed_while_it_ends_leaves_the_others_alone),
	TEST(psid_was_well),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
