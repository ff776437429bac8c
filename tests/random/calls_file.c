/*
 * The calls that move bytes between a socket and something else: sendfile and splice.
 *
 * The file and the pipe are made for the call and closed behind it. What splice has moved out of a
 * socket is read from the pipe and shown.
 */
#include "call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

static __thread char buffer[SIZE_CALL_MAX];

/* sendfile slot size */
static void call_sendfile(struct call *call)
{
	size_t n = size_word(call, 2);
	int file = memfd_create("of a random sequence", MFD_CLOEXEC);
	off_t at = 0;

	fill_step(call, buffer, n);
	if (write(file, buffer, n) != (ssize_t)n)
		answer(call, " no file");
	RESULT(call, sendfile(call->fd, file, &at, n));
	answer(call, ", at %ld", (long)at);
	close(file);
}

/* splice_in slot size: from a pipe */
static void call_splice_in(struct call *call)
{
	size_t n = size_word(call, 2);
	int ends[2];

	if (pipe(ends) < 0)
		return;
	fill_step(call, buffer, n);
	if (write(ends[1], buffer, n) != (ssize_t)n)
		answer(call, " the pipe is full");
	RESULT(call, splice(ends[0], NULL, call->fd, NULL, n, 0));
	close(ends[0]);
	close(ends[1]);
}

/* splice_out slot size: into a pipe. Whether it waits the socket says. */
static void call_splice_out(struct call *call)
{
	size_t n = size_word(call, 2);
	int ends[2];
	long got;

	if (pipe(ends) < 0)
		return;
	note_patience(call, call->fd);
	got = RESULT(call, splice(call->fd, NULL, ends[1], NULL, n, SPLICE_F_NONBLOCK));
	if (got > 0 && read(ends[0], buffer, sizeof(buffer)) == got)
		answer_bytes(call, buffer, (size_t)got);
	close(ends[0]);
	close(ends[1]);
}

const struct verb verbs_file[] = {
	{ "sendfile", call_sendfile },
	{ "splice_in", call_splice_in },
	{ "splice_out", call_splice_out },
	{ NULL, NULL },
};
