/* A program that was executed with a connection on rings, and can not have what is in them. */
#include "stream_exec.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SEC_PATIENCE 20
/* For all but slabs. */
#define SIZE_ROOM (64ull << 20)

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

static int inherit_in_vain(int fd)
{
	pulc_stream *inherited;
	char byte;

	if (pulc_stream_inherit(fd, &inherited) != -ESTALE)
		return 3;
	if (pulc_socket_is_upgraded(fd))
		return 4;
	return recv(fd, &byte, 1, 0) == -1 && errno == ECONNRESET ? 0 : 5;
}

/* The same of one that has no number for what psid sends, nor may start a child to map it. */
static int inherit_without_numbers(int fd)
{
	struct rlimit limit = { 256, 256 };

	(void)alarm(SEC_PATIENCE);
	client_prepare();
	if (!client_lock() || client_attach() < 0 || setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1;
	client_unlock();
	while (dup(fd) >= 0)
		;
	return filter_call(SYS_clone, SECCOMP_RET_ERRNO | EAGAIN) ? inherit_in_vain(fd) : 2;
}

/* The same of one that may have no more memory than it has, which does not do for the rings. */
static int inherit_without_room(int fd)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned long n_pages;
	FILE *statm = fopen("/proc/self/statm", "r");

	(void)alarm(SEC_PATIENCE);
	client_prepare();
	if (!statm || fscanf(statm, "%lu", &n_pages) != 1 || fclose(statm) != 0)
		return 1;
	limit.rlim_cur = n_pages * SHM_PAGE + SIZE_ROOM;
	if (setrlimit(RLIMIT_AS, &limit) < 0)
		return 2;
	return inherit_in_vain(fd);
}

static void become_another_program(const char *what)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", fds[0]);
	(void)close(fds[1]);
	(void)fcntl(fds[0], F_SETFD, 0);
	say(to_parent);
	await(to_child);
	(void)execl("/proc/self/exe", "stream_inherit", what, number, NULL);
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
	fake_closed(&peer, stream->conn ^ 1);
	close_ours();
	fake_wait_counts(&psid, 2, 0);
	say(to_child);
	reap(pid);
	end();
}

/* What is in the rings it can't have: it is told so, and its peer is. */
static void check_that_it_resets(const char *what)
{
	int error = 0;
	socklen_t len = sizeof(error);
	pid_t pid;

	begin();
	upgrade();
	pid = fork_here();
	if (pid == 0)
		become_another_program(what);
	await(to_parent);
	close_ours();
	fake_wait_counts(&psid, 2, 1);
	say(to_child);
	reap(pid);
	REQUIRE_INT(getsockopt(fds[1], SOL_SOCKET, SO_ERROR, &error, &len), ==, 0);
	CHECK_INT(error, ==, ECONNRESET);
	end();
}

static void whoever_can_not_map_the_memory_resets(void)
{
	check_that_it_resets("narrow");
}

static void whoever_has_no_number_for_the_memory_resets(void)
{
	check_that_it_resets("full");
}

static void psid_was_well(void)
{
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

static const struct test tests[] = {
	TEST(what_was_read_out_and_reset_is_the_kernels),
	TEST(whoever_can_not_map_the_memory_resets),
	TEST(whoever_has_no_number_for_the_memory_resets),
	TEST(psid_was_well),
};

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "inherit") == 0)
		return inherit(atoi(argv[2]));
	if (argc == 3 && strcmp(argv[1], "narrow") == 0)
		return inherit_without_room(atoi(argv[2]));
	if (argc == 3 && strcmp(argv[1], "full") == 0)
		_exit(inherit_without_numbers(atoi(argv[2]))); /* a sanitizer's end takes a child */
	return TESTS_RUN(tests, argc, argv);
}
