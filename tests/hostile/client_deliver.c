/*
 * Deliver: the last bytes of a sender that has gone, and what a client can make of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
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
static void deliver(int socket, int memory, uint64_t size, bool shut)
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

static void all_of_it_and_then_the_end(void)
{
	int fds[2], memory = memory_of(SIZE_MUCH);
	ssize_t last;

	begin();
	tcp_connect_pair(fds, AF_INET);
	deliver(fds[0], memory, SIZE_MUCH, false);
	(void)close(fds[0]);
	fake_close(&sender); /* psid has it all the same */
	CHECK_INT(read_all(fds[1], &last), ==, SIZE_MUCH);
	CHECK_INT(last, ==, 0);
	(void)close(fds[1]);
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
	deliver(fds[0], memory, SIZE_MUCH, true);
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
	int fds[2], memory = memory_of(SIZE_MUCH);
	ssize_t last;

	begin();
	tcp_connect_pair(fds, AF_INET);
	deliver(fds[0], memory, SIZE_MUCH, false);
	(void)close(fds[0]);
	await(fds[1]);
	fake_close(&sender);
	daemon_kill(&psid);
	CHECK_INT(read_all(fds[1], &last), <, SIZE_MUCH);
	CHECK_INT(last, ==, -ECONNRESET);
	(void)close(fds[1]);
	(void)close(memory);
	daemon_run(&psid, false, NULL);
	scene_end();
}

static void no_more_than_some_of_a_user(void)
{
	int fds[N_OF_A_USER + 1][2], memory = memory_of(SIZE_MUCH);
	ssize_t last;

	begin();
	for (int i = 0; i <= N_OF_A_USER; i++) {
		tcp_connect_pair(fds[i], AF_INET);
		deliver(fds[i][0], memory, SIZE_MUCH, false);
		(void)close(fds[i][0]);
	}
	CHECK_INT(read_all(fds[N_OF_A_USER][1], &last), ==, 0);
	CHECK_INT(last, ==, -ECONNRESET);
	for (int i = 0; i < N_OF_A_USER; i++) {
		CHECK_INT(read_all(fds[i][1], &last), ==, SIZE_MUCH);
		CHECK_INT(last, ==, 0);
		(void)close(fds[i][1]);
	}
	/* They are over, and another one has a place. */
	tcp_connect_pair(fds[0], AF_INET);
	deliver(fds[0][0], memory, SIZE_MUCH, false);
	(void)close(fds[0][0]);
	CHECK_INT(read_all(fds[0][1], &last), ==, SIZE_MUCH);
	(void)close(fds[0][1]);
	(void)close(memory);
	end();
}

static void a_file_that_shrinks_resets(void)
{
	int fds[2], memory = memory_of(SIZE_MUCH);
	ssize_t last;

	begin();
	tcp_connect_pair(fds, AF_INET);
	deliver(fds[0], memory, SIZE_MUCH, false);
	(void)close(fds[0]);
	await(fds[1]);
	CHECK_INT(ftruncate(memory, 1), ==, 0);
	CHECK_INT(read_all(fds[1], &last), <, SIZE_MUCH);
	CHECK_INT(last, ==, -ECONNRESET);
	(void)close(fds[1]);
	(void)close(memory);
	end();
}

/* ---- nonsense -------------------------------------------------------------------------------- */

static void refused(int socket, int memory, uint64_t size)
{
	begin();
	deliver(socket, memory, size, false);
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
	deliver(fd, memory, 4096, !listens);
	(void)close(fd);
}

/* What has no connection takes nothing, and is over at once; what listens holds a place of its
 * user's. */
static void sockets_that_take_nothing(void)
{
	int memory = memory_of(4096), fds[2];
	ssize_t last = -1;

	begin();
	for (int i = 0; i < N_OF_A_USER / 2; i++)
		take_place(true, memory);
	for (int i = 0; i < 4 * N_OF_A_USER; i++)
		take_place(false, memory);
	for (int i = 0; i < MSEC_PATIENCE && last != 0; i++) {
		tcp_connect_pair(fds, AF_INET);
		deliver(fds[0], memory, 4096, false);
		(void)close(fds[0]);
		CHECK_INT(read_all(fds[1], &last), ==, last == 0 ? 4096 : 0);
		(void)close(fds[1]);
	}
	CHECK_INT(last, ==, 0);
	(void)close(memory);
	end();
}

static const struct test tests[] = {
	TEST(all_of_it_and_then_the_end),     TEST(a_stream_is_shut_and_its_socket_stays),
	TEST(a_psid_that_is_killed_resets),   TEST(no_more_than_some_of_a_user),
	TEST(a_file_that_shrinks_resets),     TEST(what_is_no_tcp_socket),
	TEST(what_is_no_memory_of_that_size), TEST(sockets_that_take_nothing),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
