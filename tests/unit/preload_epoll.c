/* The shim's epoll sets, on a fake libpulc: kernel and ring members, each kind of registration. */
#include <sys/epoll.h>
#include <sys/wait.h>

#include "harness.h"
#include "preload_epoll_bed.h"
#include "rawsys.h"

static void level_repeats_until_read(void)
{
	struct bed b;
	char buf[8];

	begin(&b, EPOLLIN);
	CHECK_INT(wait_now(&b), ==, 0);
	fake_arrive(b.s, 3);
	for (int i = 0; i < 3; i++) {
		REQUIRE_INT(wait_now(&b), ==, 1);
		CHECK_INT(b.events[0].events, ==, EPOLLIN);
		CHECK_INT(b.events[0].data.u64, ==, 0x1234567890abcdefull);
	}
	CHECK_INT(recv(b.fds[0], buf, sizeof(buf), 0), ==, 3);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

static void edge_once_for_each_arrival(void)
{
	struct bed b;

	begin(&b, EPOLLIN | EPOLLET);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

static void edge_for_room_only_after_a_short_send(void)
{
	struct bed b;

	begin(&b, EPOLLOUT | EPOLLET);
	fake_room(b.s, 4);
	(void)wait_now(&b);
	fake_room(b.s, 4);
	CHECK_INT(wait_now(&b), ==, 0);
	CHECK_INT(send(b.fds[0], "0123456789", 10, 0), ==, 8);
	CHECK_INT(wait_now(&b), ==, 0);
	fake_room(b.s, 4);
	REQUIRE_INT(wait_now(&b), ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLOUT);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

/* Room was not part of the answer in between, so it is still to come. */
static void edge_for_room_outlives_an_answer_for_data(void)
{
	struct bed b;
	char c;

	begin(&b, EPOLLIN | EPOLLOUT | EPOLLET);
	fake_room(b.s, 8);
	(void)wait_now(&b);
	CHECK_INT(send(b.fds[0], "0123456789", 10, 0), ==, 8);
	CHECK_INT(wait_now(&b), ==, 0);
	fake_arrive(b.s, 1);
	REQUIRE_INT(wait_now(&b), ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLIN);
	CHECK_INT(recv(b.fds[0], &c, 1, 0), ==, 1);
	fake_room(b.s, 4);
	REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3000), ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLOUT);
	end(&b);
}

/* A ring that cannot grow gives its direction to the kernel, which had room all the time. */
static void edge_for_room_where_the_ring_has_ended(void)
{
	struct bed b;

	begin(&b, EPOLLOUT | EPOLLET);
	fake_room(b.s, 8);
	(void)wait_now(&b);
	CHECK_INT(send(b.fds[0], "0123456789", 10, 0), ==, 8);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 1), ==, 0);
	CHECK_INT(send(b.fds[0], "89", 2, 0), ==, -1);
	atomic_store(&b.s->exact, POLLOUT);
	b.s->on_kernel = POLLOUT;
	REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3000), ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLOUT);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

/* An edge of data tells the whole state, also of a direction that has not left the kernel. */
static void edge_tells_what_only_the_kernel_knows(void)
{
	struct bed b;
	char c;

	begin(&b, EPOLLIN | EPOLLOUT | EPOLLET);
	atomic_store(&b.s->exact, POLLOUT);
	b.s->on_kernel = POLLOUT;
	(void)wait_now(&b);
	CHECK_INT(wait_now(&b), ==, 0);
	for (int i = 0; i < 3; i++) {
		fake_arrive(b.s, 1);
		REQUIRE_INT(wait_now(&b), ==, 1);
		CHECK_INT(b.events[0].events, ==, EPOLLIN | EPOLLOUT);
		CHECK_INT(wait_now(&b), ==, 0);
		CHECK_INT(recv(b.fds[0], &c, 1, 0), ==, 1);
	}
	end(&b);
}

/* Bytes from before the switch, which came while the program did not want any: nothing tells of
 * them again. */
static void bytes_of_the_kernel_wait_for_who_wants_them(void)
{
	struct epoll_event event = { .events = 0 };
	struct bed b;

	begin(&b, EPOLLIN);
	b.s->on_kernel = POLLIN;
	(void)wait_now(&b);
	CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, 0);
	atomic_store(&b.s->exact, POLLIN);
	CHECK_INT(wait_now(&b), ==, 0);
	for (int i = 0; i < 2; i++) {
		event.events = i ? 0 : EPOLLIN;
		CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, 0);
		CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, i ? 0 : 3000), ==, !i);
	}
	end(&b);
}

/* The peer has put bytes into its ring, and the kernel's last ones, which are before them, come
 * later. */
static void bytes_behind_some_that_are_under_way(void)
{
	struct bed b;

	begin(&b, EPOLLIN | EPOLLOUT | EPOLLET);
	b.s->on_kernel = POLLIN;
	fake_room(b.s, 8);
	(void)wait_now(&b);
	CHECK_INT(wait_now(&b), ==, 0);
	(void)atomic_fetch_add(&b.s->mark_in, 4);
	fake_tell(b.s, POLLIN);
	CHECK_INT(wait_now(&b), ==, 0);
	atomic_store(&b.s->exact, POLLIN);
	REQUIRE_INT(raw_send(b.fds[1], "x", 1, 0), ==, 1);
	REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3000), ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLIN | EPOLLOUT);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

/* The ring's bytes and those behind it are told of at once; one receive takes the ring, the whole
 * of it, and leaves the rest. */
static void bytes_behind_a_ring_that_was_taken_at_once(void)
{
	struct bed b;
	char c[8];

	begin(&b, EPOLLIN);
	b.s->on_kernel = POLLIN;
	(void)wait_now(&b);
	atomic_store(&b.s->exact, POLLIN);
	REQUIRE_INT(send(b.fds[1], "x", 1, 0), ==, 1);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3000), ==, 1);
	fake_arrive(b.s, 8);
	REQUIRE_INT(send(b.fds[1], "y", 1, 0), ==, 1); /* behind the ring: the last edge */
	CHECK_INT(wait_now(&b), ==, 1);
	CHECK_INT(recv(b.fds[0], c, 8, 0), ==, 8);
	for (int i = 0; i < 3; i++)
		CHECK_INT(wait_now(&b), ==, 1);
	atomic_store(&b.s->exact, 0);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

static void modified_edge_asks_again(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct bed b;

	begin(&b, EPOLLIN | EPOLLET);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	REQUIRE_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, 0);
	CHECK_INT(wait_now(&b), ==, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	end(&b);
}

static void deleted_and_added_again(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 5 };
	struct bed b;

	begin(&b, EPOLLIN);
	fake_arrive(b.s, 1);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_ADD, b.fds[0], &event), ==, -1);
		CHECK_INT(errno, ==, EEXIST);
		CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_DEL, b.fds[0], NULL), ==, 0);
		CHECK_INT(wait_now(&b), ==, 0);
		CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_DEL, b.fds[0], NULL), ==, -1);
		CHECK_INT(errno, ==, ENOENT);
		CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, -1);
		CHECK_INT(errno, ==, ENOENT);
		CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_ADD, b.fds[0], &event), ==, 0);
		REQUIRE_INT(wait_now(&b), ==, 1);
		CHECK_INT(b.events[0].data.u64, ==, 5);
	}
	end(&b);
}

static void exclusive_cannot_be_modified(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct bed b;

	begin(&b, EPOLLIN | EPOLLEXCLUSIVE);
	CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, -1);
	CHECK_INT(errno, ==, EINVAL);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	end(&b);
}

static void kernel_members_are_seen_too(void)
{
	int pipes[2], n_ring = 0, n_kernel = 0;
	struct bed b;

	begin(&b, EPOLLIN);
	REQUIRE_INT(pipe(pipes), ==, 0);
	add(b.ep, pipes[0], EPOLLIN, 9);
	fake_arrive(b.s, 1);
	CHECK_INT(write(pipes[1], "x", 1), ==, 1);
	for (int i = 0; i < 64; i++) {
		REQUIRE_INT(epoll_wait(b.ep, b.events, 1, 0), ==, 1);
		if (b.events[0].data.u64 == 9)
			n_kernel++;
		else
			n_ring++;
	}
	CHECK_INT(n_ring, >, 0);
	CHECK_INT(n_kernel, >, 0);
	close(pipes[0]);
	close(pipes[1]);
	end(&b);
}

static void kernel_news_of_a_ring_member(void)
{
	struct bed b;

	begin(&b, EPOLLIN | EPOLLRDHUP);
	atomic_store(&b.s->exact, POLLIN | POLLRDHUP);
	shutdown(b.fds[1], SHUT_WR);
	REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 3000), ==, 1);
	CHECK_INT(b.events[0].events, ==, EPOLLIN | EPOLLRDHUP);
	CHECK_INT(wait_now(&b), ==, 1);
	end(&b);
}

/* More members than the hot list holds, ready in several orders: everybody's turn comes. */
static void many_members_take_turns(void)
{
	enum { N = 100 };
	int fds[N][2], ep = epoll_create1(0), n_seen[N] = { 0 };
	struct epoll_event events[3];

	for (int i = 0; i < N; i++) {
		fake_pair(fds[i]);
		fake_attach(fake_of(fds[i][0]));
		add(ep, fds[i][0], EPOLLIN, (uint64_t)i);
	}
	CHECK_INT(epoll_wait(ep, events, 3, 0), ==, 0);
	for (int i = 0; i < N; i++)
		fake_arrive(fake_of(fds[i * 7 % N][0]), 1);
	for (int i = 0; i < 2 * N; i++) {
		int n = epoll_wait(ep, events, 3, 0);

		for (int k = 0; k < n; k++)
			n_seen[events[k].data.u64]++;
	}
	for (int i = 0; i < N; i++)
		CHECK_INT(n_seen[i], >, 0);
	for (int i = 0; i < N; i++) {
		close(fds[i][0]);
		close(fds[i][1]);
	}
	CHECK_INT(epoll_wait(ep, events, 3, 0), ==, 0);
	close(ep);
	CHECK_INT(fake.n_streams, ==, 0);
}

static void duplicates_are_two_members(void)
{
	struct bed b;
	int copy;

	begin(&b, EPOLLIN);
	copy = dup(b.fds[0]);
	add(b.ep, copy, EPOLLIN, 2);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 2);
	close(copy); /* its membership goes on: the file lives */
	CHECK_INT(wait_now(&b), ==, 2);
	end(&b);
}

/* Somebody else (psid, at an upgrade) may hold the socket for a moment after its last close. */
static void closed_by_another_number_it_is_gone(void)
{
	struct epoll_event event;
	int fds[2], ep = epoll_create1(0), copy, held;
	struct pre_file *f;

	fake_pair(fds);
	copy = dup(fds[0]);
	held = fcntl(fds[0], F_DUPFD, 100);
	f = pre_file_at(held);
	pre_file_forget(held);
	REQUIRE(f != NULL);
	add(ep, fds[0], EPOLLOUT, 1);
	close(fds[0]);
	CHECK_INT(epoll_wait(ep, &event, 1, 1000), ==, 1);
	close(copy);
	CHECK_INT(epoll_wait(ep, &event, 1, 0), ==, 0);
	close(held);
	close(fds[1]);
	close(ep);
}

/* A number that was closed and given to another member is that one's. */
static void closed_number_reused_stays_a_member(void)
{
	struct epoll_event event;
	int fds[2], ep = epoll_create1(0), copy, pipes[2];

	fake_pair(fds);
	copy = dup(fds[0]);
	add(ep, fds[0], EPOLLIN, 1);
	REQUIRE_INT(pipe(pipes), ==, 0);
	REQUIRE_INT(dup2(pipes[0], fds[0]), ==, fds[0]);
	add(ep, fds[0], EPOLLIN, 2);
	close(copy);
	CHECK_INT(write(pipes[1], "x", 1), ==, 1);
	REQUIRE_INT(epoll_wait(ep, &event, 1, 1000), ==, 1);
	CHECK_INT(event.data.u64, ==, 2);
	close(fds[0]);
	close(fds[1]);
	close(pipes[0]);
	close(pipes[1]);
	close(ep);
}

static void time_out_is_kept(void)
{
	struct timespec before, after;
	struct bed b;
	long msec;

	begin(&b, EPOLLIN);
	clock_gettime(CLOCK_MONOTONIC, &before);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 60), ==, 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	msec = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	CHECK_INT(msec, >=, 60);
	CHECK_INT(msec, <, 1000);
	end(&b);
}

static void nested_set_is_exact(void)
{
	struct epoll_event event;
	int outer = epoll_create1(0);
	struct bed b;
	char c;

	begin(&b, EPOLLIN);
	add(outer, b.ep, EPOLLIN, 11);
	CHECK_INT(epoll_wait(outer, &event, 1, 0), ==, 0);
	fake_arrive(b.s, 1);
	REQUIRE_INT(epoll_wait(outer, &event, 1, 1000), ==, 1);
	CHECK_INT(event.data.u64, ==, 11);
	CHECK_INT(wait_now(&b), ==, 1);
	CHECK_INT(recv(b.fds[0], &c, 1, 0), ==, 1);
	CHECK_INT(epoll_wait(outer, &event, 1, 0), ==, 0);
	close(outer);
	end(&b);
}

static void child_has_its_own_half(void)
{
	struct bed b;
	int status;
	pid_t pid;

	begin(&b, EPOLLIN);
	(void)epoll_wait(b.ep, b.events, N_EVENTS, 1);
	pid = fork();
	if (pid == 0) {
		if (wait_now(&b) != 0)
			_exit(1);
		fake_arrive(b.s, 1);
		_exit(epoll_wait(b.ep, b.events, N_EVENTS, 2000) == 1 ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	CHECK_INT(WEXITSTATUS(status), ==, 0);
	CHECK_INT(wait_now(&b), ==, 0); /* the fake's memory is not shared */
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	end(&b);
}

static void reap(pid_t pid)
{
	int status;

	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

static bool is_watched(const struct bed *b)
{
	bool found = false;

	for (int i = 0; i < 8; i++)
		found |= b->s->watches[i].set != NULL;
	return found;
}

/* A server's child that needs none of it. What is said in a fork's memory stands for the shared
 * memory of rings. */
static void child_that_closes_takes_nothing_away(void)
{
	struct bed b;
	pid_t pid;

	for (int i = 0; i < 3; i++) {
		begin(&b, EPOLLIN | EPOLLRDHUP);
		CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 1), ==, 0);
		CHECK(is_watched(&b));
		pid = fork();
		if (pid == 0) {
			(void)pulc_stream_ref(b.s);
			if (i != 0)
				close(b.fds[0]);
			if (i != 1)
				close(b.ep);
			_exit(is_watched(&b) ? 0 : 1);
		}
		reap(pid);
		atomic_store(&b.s->exact, POLLIN | POLLRDHUP);
		shutdown(b.fds[1], SHUT_WR);
		CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 30000), ==, 1);
		end(&b);
	}
}

/* What the kernel says of a member the parent hears, whatever the child has looked at. */
static void child_that_looks_takes_nothing_away(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP };
	struct bed b;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		begin(&b, EPOLLIN | EPOLLRDHUP);
		CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 1), ==, 0);
		atomic_store(&b.s->exact, POLLIN | POLLRDHUP);
		shutdown(b.fds[1], SHUT_WR);
		pid = fork();
		if (pid == 0) {
			if (i == 1 && epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event) < 0)
				_exit(1);
			_exit(epoll_wait(b.ep, b.events, N_EVENTS, 0) == 1 ? 0 : 2);
		}
		reap(pid);
		CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 30000), ==, 1);
		end(&b);
	}
}

static void unknown_set_keeps_members_on_the_kernel(void)
{
	int fds[2], ep = epoll_create1(0), hidden;
	struct epoll_event event = { .events = EPOLLIN };

	fake_pair(fds);
	hidden = fcntl(ep, F_DUPFD, 80);
	pre_file_forget(hidden); /* as if it had come from elsewhere */
	CHECK_INT(epoll_ctl(hidden, EPOLL_CTL_ADD, fds[0], &event), ==, 0);
	CHECK_INT(fake_of(fds[0])->reason, ==, 18);
	close(hidden);
	close(ep);
	close(fds[0]);
	close(fds[1]);
}

static const struct test tests[] = {
	TEST(level_repeats_until_read),
	TEST(edge_once_for_each_arrival),
	TEST(edge_for_room_only_after_a_short_send),
	TEST(edge_for_room_outlives_an_answer_for_data),
	TEST(edge_for_room_where_the_ring_has_ended),
	TEST(edge_tells_what_only_the_kernel_knows),
	TEST(bytes_of_the_kernel_wait_for_who_wants_them),
	TEST(bytes_behind_some_that_are_under_way),
	TEST(bytes_behind_a_ring_that_was_taken_at_once),
	TEST(modified_edge_asks_again),
	TEST(deleted_and_added_again),
	TEST(exclusive_cannot_be_modified),
	TEST(kernel_members_are_seen_too),
	TEST(kernel_news_of_a_ring_member),
	TEST(many_members_take_turns),
	TEST(duplicates_are_two_members),
	TEST(closed_by_another_number_it_is_gone),
	TEST(closed_number_reused_stays_a_member),
	TEST(time_out_is_kept),
	TEST(nested_set_is_exact),
	TEST(child_has_its_own_half),
	TEST(child_that_closes_takes_nothing_away),
	TEST(child_that_looks_takes_nothing_away),
	TEST(unknown_set_keeps_members_on_the_kernel),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
