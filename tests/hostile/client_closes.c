/*
 * The last close of what a client has sent waits for what the client likes: psid's loop must never
 * make it. Bells that an epoll set of the client's looks at, whose lock it holds; and messages with
 * more descriptors than psid's table has room for, which the kernel would close in the receiver.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psid/no_page.h"
#include "psid/scene.h"

#define UID_HOSTILE 65532u

static struct fake_client hostile;

/* ---- bells ----------------------------------------------------------------------------------- */

/* A thread that waits for an epoll set and never gets its answer: the page for it does not come,
 * and the set is locked meanwhile. */
struct holder {
	int epoll, ready;
	struct no_page page;
	pthread_t thread;
};

static void *hold(void *arg)
{
	struct holder *h = arg;

	(void)epoll_wait(h->epoll, h->page.at, 1, -1);
	return NULL;
}

static void watch(const struct holder *h, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	REQUIRE(epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

static bool holder_init(struct holder *h)
{
	if (!no_page_init(&h->page))
		return false;
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	h->ready = eventfd(1, EFD_CLOEXEC);
	return true;
}

static void holder_start(struct holder *h)
{
	watch(h, h->ready);
	REQUIRE(pthread_create(&h->thread, NULL, hold, h) == 0);
	no_page_wait(&h->page);
}

static void holder_end(struct holder *h)
{
	no_page_come(&h->page);
	(void)pthread_join(h->thread, NULL);
	(void)close(h->epoll);
	(void)close(h->ready);
	no_page_deinit(&h->page);
}

/* Takes the eventfd. */
static void send_bell_of(struct fake_client *c, uint32_t board, int event)
{
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	FROM_CLIENT(msg, BELL, bell) = &bell;

	bell.board = board;
	fake_send(c, &msg, &event, 1);
	(void)close(event);
}

/* One that psid will have alone. */
static void send_bell(const struct holder *h, struct fake_client *c, uint32_t board)
{
	int event = eventfd(0, EFD_CLOEXEC);

	watch(h, event);
	send_bell_of(c, board, event);
	CHECK(fake_is_quiet(c));
}

/* Replaced by another one, and at the end of its client. */
static void bells_that_are_watched(void)
{
	struct holder h;

	scene_begin(false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
	if (holder_init(&h)) {
		send_bell(&h, &hostile, 0);
		send_bell(&h, &hostile, 1);
		holder_start(&h);
		send_bell_of(&hostile, 0, eventfd(0, EFD_CLOEXEC));
		scene_check_upgrade(2);
		fake_close(&hostile);
		scene_check_upgrade(4);
		holder_end(&h);
	}
	fake_close(&hostile);
	scene_end();
}

/* Many users let as many closes hang as they can: nobody else waits for theirs. */
static void bells_of_many_users(void)
{
	enum { N = 40, N_BELLS = 6 };
	static struct fake_client users[N];
	struct holder h;

	if (geteuid() != 0) {
		test_skip("needs root to have clients of other users");
		return;
	}
	scene_begin(true, NULL);
	for (uint32_t i = 0; i < N; i++)
		fake_attach(&users[i], &psid, UID_HOSTILE - i);
	if (holder_init(&h)) {
		for (uint32_t i = 0; i < N * N_BELLS; i++)
			send_bell(&h, &users[i / N_BELLS], i % N_BELLS);
		holder_start(&h);
		for (uint32_t i = 0; i < N * N_BELLS; i++)
			send_bell_of(&users[i / N_BELLS], i % N_BELLS, eventfd(0, EFD_CLOEXEC));
		for (uint32_t i = 0; i < N; i++)
			CHECK(fake_is_quiet(&users[i]));
		scene_check_upgrade(2);
		holder_end(&h);
	}
	for (uint32_t i = 0; i < N; i++)
		fake_close(&users[i]);
	scene_end();
}

/* ---- messages -------------------------------------------------------------------------------- */

#define N_FDS 253u /* that the kernel takes in a message */

static void send_many(int socket, const int *fds)
{
	static _Alignas(struct cmsghdr) char control[CMSG_SPACE(N_FDS * sizeof(int))];
	struct iovec iov = { .iov_base = (char[]){ 0x1a, 0 }, .iov_len = 2 };
	struct msghdr raw = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&raw);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(N_FDS * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, N_FDS * sizeof(int));
	REQUIRE(sendmsg(socket, &raw, MSG_NOSIGNAL) == 2);
}

/* The last of them has no place in psid's table. */
static void more_than_fit(void)
{
	struct rlimit limit = { 0 }, few;
	int fds[N_FDS], peer, last;

	scene_begin(false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
	REQUIRE(prlimit(psid.pid, RLIMIT_NOFILE, NULL, &limit) == 0);
	few = (struct rlimit){ 200, limit.rlim_max };
	REQUIRE(prlimit(psid.pid, RLIMIT_NOFILE, &few, NULL) == 0);
	last = tcp_connect_lingering(&peer);
	for (unsigned i = 0; i < N_FDS - 1; i++)
		fds[i] = STDERR_FILENO;
	fds[N_FDS - 1] = last;
	(void)kill(psid.pid, SIGSTOP); /* so that its close is the last one, not ours */
	send_many(hostile.fd, fds);
	(void)close(last);
	(void)kill(psid.pid, SIGCONT);
	fake_expect_end(&hostile);
	scene_check_upgrade(2);
	(void)close(peer);
	fake_close(&hostile);
	scene_end();
}

static const struct test tests[] = {
	TEST(bells_that_are_watched),
	TEST(bells_of_many_users),
	TEST(more_than_fit),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
