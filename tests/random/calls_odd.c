/*
 * Calls that programs make less often: the newest forms of read and write, what is put together
 * from pieces, libc's own streams, a program that writes into its output, and calls that make no
 * sense of a socket.
 */
#include "call.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread char buffer[SIZE_CALL_MAX];

/* pwritev2 slot size */
static void call_pwritev2(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[2] = { { buffer, n / 3 }, { buffer + n / 3, n - n / 3 } };

	fill_step(call, buffer, n);
	RESULT(call, pwritev2(call->fd, vector, 2, -1, 0));
}

/* preadv2 slot size: never waits */
static void call_preadv2(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[2] = { { buffer, n / 3 }, { buffer + n / 3, n - n / 3 } };
	long got = RESULT(call, preadv2(call->fd, vector, 2, -1, RWF_NOWAIT));

	if (got > 0)
		answer_bytes(call, buffer, (size_t)got);
}

/* more slot size: in two parts, the first with the word that more comes */
static void call_more(struct call *call)
{
	size_t n = size_word(call, 2);

	fill_step(call, buffer, n);
	RESULT(call, send(call->fd, buffer, n / 2, MSG_MORE | MSG_NOSIGNAL));
	RESULT(call, send(call->fd, buffer + n / 2, n - n / 2, MSG_NOSIGNAL));
}

/* corked slot size: the same between TCP_CORK and its end */
static void call_corked(struct call *call)
{
	size_t n = size_word(call, 2);

	fill_step(call, buffer, n);
	RESULT(call, setsockopt(call->fd, IPPROTO_TCP, TCP_CORK, &(int){ 1 }, sizeof(int)));
	RESULT(call, write(call->fd, buffer, n / 2));
	RESULT(call, write(call->fd, buffer + n / 2, n - n / 2));
	RESULT(call, setsockopt(call->fd, IPPROTO_TCP, TCP_CORK, &(int){ 0 }, sizeof(int)));
}

/* print slot size: by dprintf */
static void call_print(struct call *call)
{
	size_t n = size_word(call, 2);

	fill_step(call, buffer, n);
	RESULT(call, dprintf(call->fd, "%.*s", (int)n, buffer));
}

/* stream slot size: by a stream of libc's on a copy of the descriptor */
static void call_stream(struct call *call)
{
	size_t n = size_word(call, 2);
	int copy = dup(call->fd);
	FILE *stream = copy < 0 ? NULL : fdopen(copy, "r+");

	if (!stream) {
		answer(call, " -1");
		return;
	}
	fill_step(call, buffer, n);
	if (call->slot >= 0 && call->table->kinds[call->slot] == KIND_DATAGRAM)
		empty(call->fd);
	answer(call, " %zu", fwrite(buffer, 1, n, stream));
	RESULT(call, fclose(stream));
}

/* An error that a program outside PULC is told of the socket's, by the kernel, those under PULC may
 * be told as well. */
static void take_error(int fd)
{
	int error;
	socklen_t size = sizeof(error);

	(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
}

/* spawn slot 0 or 1: echo with that as its output, under the shim if this process is, or not */
static void call_spawn(struct call *call)
{
	char text[32], *argv[] = { "echo", "-n", text, NULL }, *none[] = { NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	if (call->fd < 0) {
		answer(call, " -1");
		return;
	}
	if (call->slot >= 0 && call->table->kinds[call->slot] == KIND_DATAGRAM)
		empty(call->fd);
	take_error(call->fd);
	(void)snprintf(text, sizeof(text), "%u spawned", call->player->step);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, call->fd, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	answer(call, " %d",
	       posix_spawn(&pid, "/bin/echo", &actions, NULL, argv,
			   number_of(call->words[2]) ? environ : none));
	posix_spawn_file_actions_destroy(&actions);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* borrow slot: a child in the same memory writes into it, and closes it */
static void call_borrow(struct call *call)
{
	volatile long sent = -1;
	pid_t pid;

	fill_step(call, buffer, 3);
	pid = vfork();
	if (pid == 0) {
		sent = send(call->fd, buffer, 3, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(call->fd);
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	answer(call, " %ld", sent);
}

/* lowest: the number that the next descriptor will have */
static void call_lowest(struct call *call)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	answer(call, " %d", fd);
	close(fd);
}

/* odd slot N */
static void call_odd(struct call *call)
{
	static const struct iovec parts[IOV_MAX + 1];
	struct stat status;
	int fd = call->fd;

	switch (number_of(call->words[2])) {
	case 0:
		RESULT(call, pread(fd, buffer, 3, 0));
		break;
	case 1:
		RESULT(call, pwrite(fd, "odd", 3, 0));
		break;
	case 2:
		RESULT(call, lseek(fd, 0, SEEK_CUR));
		break;
	case 3:
		RESULT(call, ftruncate(fd, 0));
		break;
	case 4:
		RESULT(call, fsync(fd));
		break;
	case 5:
		RESULT(call, sendfile(fd, fd, NULL, 3));
		break;
	case 6:
		RESULT(call, copy_file_range(fd, NULL, fd, NULL, 3, 0));
		break;
	case 7:
		RESULT(call, fstat(fd, &status) == 0 ? S_ISSOCK(status.st_mode) : -1);
		break;
	case 8:
		RESULT(call, readv(fd, NULL, 0));
		break;
	case 9:
		RESULT(call, writev(fd, parts, IOV_MAX + 1));
		break;
	case 10:
		RESULT(call, recv(fd, buffer, 3, MSG_ERRQUEUE | MSG_DONTWAIT));
		break;
	default:
		RESULT(call, listen(fd, 3));
		break;
	}
}

const struct verb verbs_odd[] = {
	{ "pwritev2", call_pwritev2 },
	{ "preadv2", call_preadv2 },
	{ "more", call_more },
	{ "corked", call_corked },
	{ "print", call_print },
	{ "stream", call_stream },
	{ "spawn", call_spawn },
	{ "borrow", call_borrow },
	{ "lowest", call_lowest },
	{ "odd", call_odd },
	{ NULL, NULL },
};
