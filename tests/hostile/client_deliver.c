/*
 * Deliver: the last bytes of a sender that has gone, and what a client can make of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psid/scene.h"

#define N_OF_A_USER 16
#define SIZE_MUCH (8u << 20) /* more than a connection whose receiver does not read takes */
#define MSEC_PATIENCE 20000

static struct fake_client sender;

static void begin(void)
{
	scene_begin(false, NULL);
	fake_open(&sender, &psid, FAKE_SELF);
	fake_hello(&sender, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&sender, WELCOME);
}

static void end(void)
{
	fake_close(&sender);
	scene_end();
}

static char byte_at(size_t i)
{
	return (char)(i * 2654435761u >> 13);
}

static int memory_of(size_t size)
{
	int fd = memfd_create("rest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *bytes;

	REQUIRE(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(bytes != MAP_FAILED);
	for (size_t i = 0; i < size; i++)
		bytes[i] = byte_at(i);
	(void)munmap(bytes, size);
	return fd;
}

/* The socket is set as a sender's is, and stays ours. */
static void ask(int socket, int memory, uint64_t size, bool shut)
{
	Pulc__Wire__Deliver body = PULC__WIRE__DELIVER__INIT;
	FROM_CLIENT(msg, DELIVER, deliver) = &body;
	struct linger by_reset = { .l_onoff = 1 };

	(void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &by_reset, sizeof(by_reset));
	body.size = size;
	body.shut = shut;
	body.lingers = true;
	body.sec_linger = 7;
	fake_send(&sender, &msg, (int[]){ socket, memory }, 2);
}

/* Does psid take it? */
static bool deliver(int socket, int memory, uint64_t size, bool shut)
{
	ask(socket, memory, size, shut);
	return fake_receive(&sender)->body_case == PULC__WIRE__TO_CLIENT__BODY_DELIVERING;
}

/* A new connection, whose sender has gone with SIZE_MUCH bytes to be sent. Returns its receiver. */
static int leave_much(int memory)
{
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	CHECK(deliver(fds[0], memory, SIZE_MUCH, false));
	(void)close(fds[0]);
	return fds[1];
}

/* Waits for what poll tells of the receiver. */
static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	REQUIRE_INT(poll(&p, 1, MSEC_PATIENCE), ==, 1);
}

/* Reads to the end. Returns how many bytes came; *ret_end is what recv said behind them. */
static size_t read_all(int fd, ssize_t *ret_end)
{
	static char buf[65536];
	size_t got = 0;
	ssize_t n;

	for (;;) {
		await(fd);
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			REQUIRE_INT(buf[i], ==, byte_at(got + (size_t)i));
		got += (size_t)n;
	}
	*ret_end = n < 0 ? -errno : n;
	return got;
}

static void gets_all(int fd)
{
	ssize_t last;

	CHECK_INT(read_all(fd, &last), ==, SIZE_MUCH);
	CHECK_INT(last, ==, 0);
	(void)close(fd);
}

static void gets_a_reset(int fd)
{
	ssize_t last;

	CHECK_INT(read_all(fd, &last), <, SIZE_MUCH);
	CHECK_INT(last, ==, -ECONNRESET);
	(void)close(fd);
}

static void all_of_it_and_then_the_end(void)
{
	int fd, memory = memory_of(SIZE_MUCH);

	begin();
	fd = leave_much(memory);
	fake_close(&sender); /* psid has it all the same */
	gets_all(fd);
	(void)close(memory);
	scene_end();
}

static void a_stream_is_shut_and_its_socket_stays(void)
{
	int fds[2], memory = memory_of(SIZE_MUCH);
	struct linger linger = { 0, 0 };
	ssize_t last;

	begin();
	tcp_connect_pair(fds, AF_INET6);
	CHECK(deliver(fds[0], memory, SIZE_MUCH, true));
	CHECK_INT(read_all(fds[1], &last), ==, SIZE_MUCH);
	CHECK_INT(last, ==, 0);
	CHECK_INT(send(fds[1], "x", 1, 0), ==, 1);
	CHECK_INT(recv(fds[0], &(char){ 0 }, 1, 0), ==, 1);
	for (int i = 0; i < MSEC_PATIENCE && linger.l_linger != 7; i++) {
		REQUIRE(getsockopt(fds[0], SOL_SOCKET, SO_LINGER, &linger,
				   &(socklen_t){ sizeof(linger) }) == 0);
		(void)poll(NULL, 0, 1);
	}
	CHECK_INT(linger.l_onoff, ==, 1);
	CHECK_INT(linger.l_linger, ==, 7);
	tcp_close_pair(fds);
	(void)close(memory);
	end();
}

/* Nobody gets an end of what is not all. */
static void a_psid_that_is_killed_resets(void)
{
	int fd, memory = memory_of(SIZE_MUCH);

	begin();
	fd = leave_much(memory);
	await(fd);
	fake_close(&sender);
	daemon_kill(&psid);
	gets_a_reset(fd);
	(void)close(memory);
	daemon_run(&psid, false, NULL);
	scene_end();
}

/* It sends them by itself then: psid sends nothing. */
static void a_sender_that_has_not_waited(void)
{
	int fds[2], memory = memory_of(4096);
	struct pollfd p = { .events = POLLIN };

	begin();
	tcp_connect_pair(fds, AF_INET);
	REQUIRE_INT(kill(psid.pid, SIGSTOP), ==, 0);
	ask(fds[0], memory, 4096, false);
	REQUIRE_INT(shutdown(sender.fd, SHUT_RDWR), ==, 0);
	REQUIRE_INT(kill(psid.pid, SIGCONT), ==, 0);
	fake_close(&sender);
	fake_wait_counts(&psid, 2, 0);
	p.fd = fds[1];
	CHECK_INT(poll(&p, 1, 100), ==, 0);
	tcp_close_pair(fds);
	(void)close(memory);
	scene_end();
}

static void no_more_than_some_of_a_user(void)
{
	int receivers[N_OF_A_USER], fds[2], memory = memory_of(SIZE_MUCH);

	begin();
	for (int i = 0; i < N_OF_A_USER; i++)
		receivers[i] = leave_much(memory);
	tcp_connect_pair(fds, AF_INET);
	CHECK(!deliver(fds[0], memory, SIZE_MUCH, false));
	for (int i = 0; i < N_OF_A_USER; i++)
		gets_all(receivers[i]);
	/* They are over, and there is a place. */
	for (int i = 0; !deliver(fds[0], memory, SIZE_MUCH, false); i++)
		REQUIRE(i < MSEC_PATIENCE && poll(NULL, 0, 1) == 0);
	(void)close(fds[0]);
	gets_all(fds[1]);
	(void)close(memory);
	end();
}

static void a_file_that_shrinks_resets(void)
{
	int fd, memory = memory_of(SIZE_MUCH);

	begin();
	fd = leave_much(memory);
	await(fd);
	CHECK_INT(ftruncate(memory, 1), ==, 0);
	gets_a_reset(fd);
	(void)close(memory);
	end();
}

/* ---- nonsense -------------------------------------------------------------------------------- */

static void refused(int socket, int memory, uint64_t size)
{
	begin();
	ask(socket, memory, size, false);
	fake_expect_end(&sender);
	end();
}

static void what_is_no_tcp_socket(void)
{
	int memory = memory_of(4096), pipes[2], file;

	REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
	refused(pipes[1], memory, 4096);
	refused(memory, memory, 4096);
	file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	refused(file, memory, 4096);
	(void)close(file);
	file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	refused(file, memory, 4096);
	(void)close(file);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	(void)close(memory);
}

static void what_is_no_memory_of_that_size(void)
{
	int memory = memory_of(4096), fds[2], pipes[2], file;

	tcp_connect_pair(fds, AF_INET);
	REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
	refused(fds[0], pipes[0], 4096);
	refused(fds[0], fds[1], 4096);
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	refused(fds[0], file, 4096);
	(void)close(file);
	refused(fds[0], memory, 4097);
	refused(fds[0], memory, 4095);
	refused(fds[0], memory, 0);
	refused(fds[0], memory, UINT64_MAX);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	(void)close(memory);
	tcp_close_pair(fds);
}

static void take_place(bool listens, int memory)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(fd >= 0 && (!listens || listen(fd, 1) == 0));
	(void)deliver(fd, memory, 4096, !listens);
	(void)close(fd);
}

/* What has no connection takes nothing, and is over at once; what listens holds a place of its
 * user's. */
static void sockets_that_take_nothing(void)
{
	int memory = memory_of(4096), fds[2];
	ssize_t last;

	begin();
	for (int i = 0; i < N_OF_A_USER / 2; i++)
		take_place(true, memory);
	for (int i = 0; i < 4 * N_OF_A_USER; i++)
		take_place(false, memory);
	tcp_connect_pair(fds, AF_INET);
	for (int i = 0; !deliver(fds[0], memory, 4096, false); i++)
		REQUIRE(i < MSEC_PATIENCE && poll(NULL, 0, 1) == 0);
	(void)close(fds[0]);
	CHECK_INT(read_all(fds[1], &last), ==, 4096);
	CHECK_INT(last, ==, 0);
	(void)close(fds[1]);
	(void)close(memory);
	end();
}

static const struct test tests[] = {
	TEST(all_of_it_and_then_the_end),   TEST(a_stream_is_shut_and_its_socket_stays),
	TEST(a_psid_that_is_killed_resets), TEST(a_sender_that_has_not_waited),
	TEST(no_more_than_some_of_a_user),  TEST(a_file_that_shrinks_resets),
	TEST(what_is_no_tcp_socket),	    TEST(what_is_no_memory_of_that_size),
	TEST(sockets_that_take_nothing),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
