/* The shim, on a fake libpulc: of which file of this process a descriptor that comes by SCM_RIGHTS
 * is one more. */
#include <string.h>

#include "harness.h"
#include "inherit.h"
#include "preload_fake.h"
#include "rawsys.h"

#define COPY 60
#define N_MANY 300
/* Beyond all that are given out: nobody else takes them while they are free. */
#define NUMBER 700
#define OTHER_NUMBER 1000
#define N_ROUNDS 20
#define N_TRIES 200

union control {
	char buf[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static struct msghdr message(union control *control, struct iovec *iov)
{
	return (struct msghdr){ .msg_iov = iov,
				.msg_iovlen = 1,
				.msg_control = control->buf,
				.msg_controllen = sizeof(control->buf) };
}

/* seen: the shim is told of it. */
static void pass(int via, int fd, bool seen)
{
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = message(&control, &iov);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	*cmsg = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS,
				  .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	REQUIRE_INT(seen ? sendmsg(via, &msg, 0) : raw_sendmsg(via, &msg, 0), ==, 1);
}

static int take(int via, int flags)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = message(&control, &iov);
	int got = -1;

	REQUIRE_INT(recvmsg(via, &msg, flags), ==, 1);
	REQUIRE(CMSG_FIRSTHDR(&msg) != NULL);
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(got));
	return got;
}

/* What of fd comes back to this process. */
static int passed(int fd, bool seen)
{
	int via[2], got;

	REQUIRE_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, via), ==, 0);
	pass(via[0], fd, seen);
	got = take(via[1], 0);
	close(via[0]);
	close(via[1]);
	return got;
}

static void close_both(int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

static void what_comes_back_is_a_duplicate(void)
{
	int fds[2], got;

	fake_pair(fds);
	for (unsigned i = 0; i < 3; i++) {
		got = passed(fds[0], true);
		CHECK(pre_file_at(got) == pre_file_at(fds[0]));
		close(got);
	}
	close_both(fds);
	CHECK_INT(fake.n_streams, ==, 0);
}

/* The descriptor by which the file is known has been closed: another one of the same file is found,
 * and known from then on. */
static void by_another_number(void)
{
	int fds[2], got;
	struct pre_file *f;

	fake_pair(fds);
	f = pre_file_at(fds[0]);
	close(passed(fds[0], true));
	REQUIRE(dup2(fds[0], COPY) == COPY);
	close(fds[0]);
	fds[0] = COPY;
	for (unsigned i = 0; i < 2; i++) {
		got = passed(COPY, true);
		CHECK(pre_file_at(got) == f);
		close(got);
	}
	close_both(fds);
	CHECK_INT(fake.n_streams, ==, 0);
}

/* A fork shares all that there is, and another process passes one of these on. */
static void what_a_fork_has_shared(void)
{
	int fds[N_MANY][2], got;
	struct pre_use use;

	for (unsigned i = 0; i < N_MANY; i++) {
		fake_pair(fds[i]);
		REQUIRE(pre_use_shared(&use, fds[i][0], pre_file_at(fds[i][0])));
		pre_use_end(&use);
	}
	for (unsigned i = 0; i < N_MANY; i++) {
		got = passed(fds[i][0], false);
		CHECK(pre_file_at(got) == pre_file_at(fds[i][0]));
		close(got);
	}
	for (unsigned i = 0; i < N_MANY; i++)
		close_both(fds[i]);
	CHECK_INT(fake.n_streams, ==, 0);
}

/* As far as another thread has come that is about to pass the same socket on. */
static void what_is_just_being_listed(void)
{
	uint64_t cookie;
	int fds[2], got;
	struct pre_file *f;

	fake_pair(fds);
	f = pre_file_at(fds[0]);
	cookie = pre_cookie_of(fds[0]);
	REQUIRE(cookie != 0);
	atomic_store(&f->cookie, cookie);
	got = passed(fds[0], true);
	CHECK(pre_file_at(got) == f);
	close(got);
	close_both(fds);
	CHECK_INT(fake.n_streams, ==, 0);
}

struct mover {
	int from, to;
	_Atomic bool ends;
};

/* Its file has one number or the other, and for a moment both. */
static void *move(void *arg)
{
	struct mover *mover = arg;

	while (!atomic_load(&mover->ends)) {
		(void)dup2(mover->from, mover->to);
		close(mover->from);
		(void)dup2(mover->to, mover->from);
		close(mover->to);
	}
	return NULL;
}

/* Who looks for it may miss it: that is not for ever. */
static void what_moves_meanwhile_is_not_forgotten(void)
{
	int fds[N_MANY][2], kept, got;
	struct mover mover = { .from = NUMBER, .to = OTHER_NUMBER };
	struct pre_use use;
	pthread_t thread;

	for (unsigned i = 0; i < N_MANY; i++) {
		fake_pair(fds[i]);
		REQUIRE(pre_use_shared(&use, fds[i][0], pre_file_at(fds[i][0])));
		pre_use_end(&use);
	}
	REQUIRE(dup2(fds[0][0], NUMBER) == NUMBER);
	close(fds[0][0]);
	fds[0][0] = NUMBER;
	kept = (int)raw_syscall(SYS_fcntl, NUMBER, F_DUPFD, OTHER_NUMBER + 1);
	for (unsigned round = 0; round < N_ROUNDS; round++) {
		atomic_store(&mover.ends, false);
		REQUIRE_INT(pthread_create(&thread, NULL, move, &mover), ==, 0);
		for (unsigned i = 0, missed = 0; i < N_TRIES && !missed; i++) {
			got = passed(kept, false);
			missed = pre_file_at(got) == NULL;
			close(got);
		}
		atomic_store(&mover.ends, true);
		pthread_join(thread, NULL);
		got = passed(kept, false);
		CHECK(pre_file_at(got) == pre_file_at(NUMBER));
		close(got);
	}
	(void)raw_close(kept);
	for (unsigned i = 0; i < N_MANY; i++)
		close_both(fds[i]);
	CHECK_INT(fake.n_streams, ==, 0);
}

/* One that was here, and one that never was; the number of neither says anything. */
static void what_is_not_here(void)
{
	int fds[2], kept, got;

	fake_pair(fds);
	close(passed(fds[0], true));
	kept = (int)raw_syscall(SYS_fcntl, fds[0], F_DUPFD, COPY, 0, 0, 0); /* nobody hears of it */
	close(fds[0]);
	for (unsigned i = 0; i < 2; i++) {
		got = passed(kept, false);
		CHECK(pre_file_at(got) == NULL);
		close(got);
	}
	(void)raw_close(kept);
	kept = (int)raw_syscall(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0, 0);
	got = passed(kept, false);
	CHECK(pre_file_at(got) == NULL);
	close(got);
	(void)raw_close(kept);
	close(fds[1]);
	CHECK_INT(fake.n_streams, ==, 0);
}

static void use(int fd)
{
	char byte;

	(void)recv(fd, &byte, 1, MSG_DONTWAIT);
}

/* Another process's, which is not taken up before it is used; by who has only looked at the message
 * as one holder more. */
static void what_a_message_shows_is_taken_up_when_it_is_used(void)
{
	int fds[2], via[2], kept, looked, got, n = fake.n_inherited;

	fake_pair(fds);
	kept = (int)raw_syscall(SYS_fcntl, fds[0], F_DUPFD, COPY, 0, 0, 0); /* nobody hears of it */
	close_both(fds);
	REQUIRE_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, via), ==, 0);
	fake.is_upgraded = true;
	pass(via[0], kept, false);
	close(take(via[1], MSG_PEEK));
	looked = take(via[1], MSG_PEEK);
	CHECK_INT(fake.n_inherited, ==, n);
	use(looked);
	CHECK_INT(fake.n_inherited, ==, n + 1);
	CHECK_INT(fake_of(looked)->n_passed, ==, 1);
	close(looked);
	looked = take(via[1], MSG_PEEK);
	got = take(via[1], 0);
	CHECK_INT(fake.n_inherited, ==, n + 1);
	use(looked);
	CHECK_INT(fake.n_inherited, ==, n + 2);
	CHECK(pre_file_at(got) == pre_file_at(looked));
	CHECK_INT(fake_of(got)->n_passed, ==, 0);
	close(looked);
	close(got);
	fake.is_upgraded = false;
	(void)raw_close(kept);
	close_both(via);
	CHECK_INT(fake.n_streams, ==, 0);
}

static const struct test tests[] = {
	TEST(what_comes_back_is_a_duplicate),
	TEST(by_another_number),
	TEST(what_a_fork_has_shared),
	TEST(what_moves_meanwhile_is_not_forgotten),
	TEST(what_is_just_being_listed),
	TEST(what_is_not_here),
	TEST(what_a_message_shows_is_taken_up_when_it_is_used),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
