/*
 * psid/meeting.c over the loopback: two that hold the key get a connection, whoever else knocks
 * meanwhile, and nobody else does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "macros.h"
#include "meeting.h"

#define NSEC_PATIENCE (60 * NSEC_PER_SEC)
#define N_STRANGERS 20u

static const uint8_t key[HANDSHAKE_KEY] = { 1, 2, 3 }, other_key[HANDSHAKE_KEY] = { 1, 2, 4 };

struct side {
	struct psid_meeting *meeting;
	int fd; /* or why there is none; 0: it is not over */
};

static uv_loop_t loop;
static struct psid_address here;
static struct side waits, goes;

static void ended(void *data, int fd)
{
	struct side *side = data;

	side->fd = fd;
	side->meeting = psid_meeting_free(side->meeting);
}

static void begin(void)
{
	uint16_t port = 0;

	waits = goes = (struct side){ 0 };
	REQUIRE_INT(uv_loop_init(&loop), ==, 0);
	REQUIRE_INT(psid_address_parse("127.0.0.1", 1, &here), ==, 0);
	REQUIRE_INT(psid_meeting_listen(&loop, &here, key, &waits.meeting, &port), ==, 0);
	psid_meeting_on_end(waits.meeting, ended, &waits);
	REQUIRE(port != 0);
	here.port = port;
}

static void go(const uint8_t with[HANDSHAKE_KEY])
{
	REQUIRE_INT(psid_meeting_connect(&loop, &here, with, &goes.meeting), ==, 0);
	psid_meeting_on_end(goes.meeting, ended, &goes);
}

static void end(void)
{
	waits.meeting = psid_meeting_free(waits.meeting);
	goes.meeting = psid_meeting_free(goes.meeting);
	if (waits.fd > 0)
		close(waits.fd);
	if (goes.fd > 0)
		close(goes.fd);
	CHECK_INT(uv_run(&loop, UV_RUN_DEFAULT), ==, 0);
	REQUIRE_INT(uv_loop_close(&loop), ==, 0);
}

static void wake(uv_timer_t *timer)
{
	(void)timer;
}

/* Runs the loop until it is over for this side. */
static void run_until(const int *over)
{
	uint64_t nsec_end = nsec_now() + NSEC_PATIENCE;
	uv_timer_t timer;

	REQUIRE_INT(uv_timer_init(&loop, &timer), ==, 0);
	REQUIRE_INT(uv_timer_start(&timer, wake, 10, 10), ==, 0);
	while (!*over && nsec_now() < nsec_end)
		(void)uv_run(&loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	REQUIRE(*over);
}

static int stranger(const char *says)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(here.port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
	if (says)
		REQUIRE_INT(write(fd, says, strlen(says)), ==, (ssize_t)strlen(says));
	return fd;
}

/* What is written at one end arrives at the other. */
static void check_connected(void)
{
	struct pollfd p = { .fd = goes.fd, .events = POLLIN };
	char byte = 0;

	REQUIRE(waits.fd > 0 && goes.fd > 0);
	REQUIRE_INT(write(waits.fd, "x", 1), ==, 1);
	REQUIRE_INT(poll(&p, 1, 60000), ==, 1);
	REQUIRE_INT(read(goes.fd, &byte, 1), ==, 1);
	CHECK_INT(byte, ==, 'x');
}

static void holders_of_the_key_meet(void)
{
	begin();
	go(key);
	run_until(&waits.fd);
	run_until(&goes.fd);
	check_connected();
	end();
}

static void strangers_do_not_hinder_them(void)
{
	int fds[N_STRANGERS];

	begin();
	/* Some garbage, some silence: more than are listened to at a time. */
	for (unsigned i = 0; i < N_STRANGERS; i++) {
		fds[i] = stranger(i % 2 ? "GET / HTTP/1.0\r\n\r\nxxxxxxxxxxxxxxxxxxxx" : NULL);
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	}
	go(key);
	run_until(&waits.fd);
	run_until(&goes.fd);
	check_connected();
	for (unsigned i = 0; i < N_STRANGERS; i++)
		close(fds[i]);
	end();
}

static void another_key_is_sent_away(void)
{
	begin();
	go(other_key);
	run_until(&goes.fd);
	CHECK_INT(goes.fd, <, 0);
	CHECK_INT(waits.fd, ==, 0);
	/* Whoever waits goes on waiting for the right one. */
	goes.fd = 0;
	go(key);
	run_until(&waits.fd);
	run_until(&goes.fd);
	check_connected();
	end();
}

static void nobody_is_there(void)
{
	begin();
	waits.meeting = psid_meeting_free(waits.meeting);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	go(key);
	run_until(&goes.fd);
	CHECK_INT(goes.fd, <, 0);
	end();
}

/* The loop would turn for nothing else. */
static void want_of_descriptors_ends_it(void)
{
	struct rlimit before, none;
	int fd;

	begin();
	fd = stranger(NULL);
	REQUIRE_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
	none = (struct rlimit){ (rlim_t)fd + 1, before.rlim_max };
	REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
	for (unsigned i = 0; i < 100 && !waits.fd; i++)
		(void)uv_run(&loop, UV_RUN_ONCE);
	REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
	CHECK_INT(waits.fd, ==, -EMFILE);
	end();
	close(fd);
}

static void it_is_given_up(void)
{
	int fd;

	begin();
	fd = stranger(NULL);
	go(key);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	end();
	CHECK_INT(waits.fd, ==, 0);
	close(fd);
}

static const struct test tests[] = {
	TEST(holders_of_the_key_meet),	TEST(strangers_do_not_hinder_them),
	TEST(another_key_is_sent_away), TEST(nobody_is_there),
	TEST(it_is_given_up),		TEST(want_of_descriptors_ends_it),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
