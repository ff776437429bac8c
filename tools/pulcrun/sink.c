/*
 * A place that output goes to, without ever waiting for it.
 *
 * Bytes are gathered and written at the end of a turn of the loop, or when there are many. Pipes
 * and terminals are opened once more, so that writing to them does not block and does not change
 * how those who share them with us write; sockets are sent to without waiting. What does not go
 * stays in the buffer until there is room. Files are simply written; a FIFO named as one is opened
 * when it has a reader, and until then it has no room.
 *
 * A place that takes nothing any more (a full disk) is written off: what it should have got is
 * dropped and counted as failure of pulcrun. All other places get theirs. When the reader of our
 * own output or errors has left pulcrun ends as by SIGPIPE, and with it the job.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "macros.h"
#include "run.h"

#define SIZE_GATHER 65536u
#define SIZE_FULL (1u << 20)

static void on_room(uv_poll_t *poll, int status, int events)
{
	struct sink *sink = CONTAINER_OF(poll, struct sink, poll);

	(void)status;
	(void)events;
	sink_flush(sink);
}

/* Opens our own pipe or terminal again, to write without waiting. Returns a descriptor, or the old
 * one. */
static int open_again(int fd)
{
	char path[32];
	int again;

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return fd; /* writing to it fails, and is to fail */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return again < 0 ? fd : again;
}

/* What kind of place it is says how it can be waited for. */
static void take_fd(struct sink *sink, int fd)
{
	struct stat st;

	sink->fd = fd;
	if (fstat(fd, &st) < 0) {
		sink->failed = true;
		return;
	}
	if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
		sink->fd = sink->is_own ? open_again(fd) : fd;
		sink->can_wait = !sink->is_own || sink->fd != fd;
	}
	sink->is_socket = S_ISSOCK(st.st_mode);
	if (sink->can_wait || sink->is_socket)
		sink->can_wait = run_poll_init(sink->run, &sink->poll, sink->fd) == 0;
}

int sink_open(struct sink *sink, struct run *run, int fd)
{
	*sink = (struct sink){ .run = run, .is_own = fd == STDOUT_FILENO || fd == STDERR_FILENO };
	take_fd(sink, fd);
	return 0;
}

void sink_await_reader(struct sink *sink, struct run *run)
{
	*sink = (struct sink){ .run = run, .fd = -EBADF, .awaits_reader = true, .waiting = true };
}

void sink_has_reader(struct sink *sink, int fd)
{
	sink->awaits_reader = sink->waiting = false;
	take_fd(sink, fd);
	if (sink->failed)
		sink->n_buf = sink->start = 0;
	sink_flush(sink);
}

bool sink_is_full(const struct sink *sink)
{
	return sink->waiting && sink->n_buf - sink->start > SIZE_FULL / 2;
}

static void give_up(struct sink *sink, int error)
{
	bool left = error == EPIPE || error == ECONNRESET;
	struct run *run = sink->run;

	sink->failed = true;
	sink->n_buf = sink->start = 0;
	if (run_file_failed(sink, error))
		return;
	if (left)
		run_reader_left(run);
	else if (!run->output_failed)
		run_note(run, "cannot write output: %s", strerror(error));
	run->output_failed = true;
}

static ssize_t write_some(const struct sink *sink, const char *bytes, size_t len)
{
	if (sink->is_socket) /* which may be blocking: others share it */
		return send(sink->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return write(sink->fd, bytes, len);
}

/* Writes what it can. Returns how much. */
static size_t push(struct sink *sink, const char *bytes, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len && !sink->failed) {
		n = write_some(sink, bytes + done, len - done);
		if (n >= 0) {
			done += (size_t)n;
		} else if (errno == EAGAIN) {
			return done;
		} else if (errno != EINTR) {
			give_up(sink, errno);
		}
	}
	return len;
}

static void set_waiting(struct sink *sink, bool waiting)
{
	if (waiting == sink->waiting)
		return;
	sink->waiting = waiting;
	if (waiting && sink->can_wait)
		(void)uv_poll_start(&sink->poll, UV_WRITABLE, on_room);
	else if (sink->can_wait)
		(void)uv_poll_stop(&sink->poll);
}

/* Not our own streams: they are open for longer than we have something to say. */
static void close_file(struct sink *sink)
{
	int fd = sink->fd;

	if (sink->can_wait)
		uv_close((uv_handle_t *)&sink->poll, NULL);
	sink->can_wait = false;
	sink->fd = -EBADF;
	if (close(fd) < 0 && !sink->failed)
		give_up(sink, errno);
	sink->failed = true;
}

void sink_flush(struct sink *sink)
{
	if (sink->awaits_reader)
		return;
	sink->start += push(sink, sink->buf + sink->start, sink->n_buf - sink->start);
	if (sink->start >= sink->n_buf)
		sink->start = sink->n_buf = 0;
	set_waiting(sink, sink->n_buf > 0);
	if (sink->closing && sink->n_buf == 0 && sink->fd >= 0)
		close_file(sink);
	run_output_pay(sink->run, sink);
}

/* Keeps bytes for later. */
static void keep(struct sink *sink, const char *bytes, size_t len)
{
	if (sink->start > 0 && sink->n_buf + len > sink->size_buf) {
		memmove(sink->buf, sink->buf + sink->start, sink->n_buf - sink->start);
		sink->n_buf -= sink->start;
		sink->start = 0;
	}
	if (sink->n_buf + len > sink->size_buf) {
		size_t size = 2 * (sink->n_buf + len) + SIZE_GATHER;
		char *buf = realloc(sink->buf, size);

		if (!buf) {
			give_up(sink, ENOMEM);
			return;
		}
		sink->buf = buf;
		sink->size_buf = size;
	}
	memcpy(sink->buf + sink->n_buf, bytes, len);
	sink->n_buf += len;
}

void sink_write(struct sink *sink, const char *bytes, size_t len)
{
	if (sink->failed)
		return;
	if (len >= SIZE_GATHER / 4 && sink->n_buf == 0 && !sink->waiting) { /* past the buffer */
		size_t n = push(sink, bytes, len);

		bytes += n;
		len -= n;
	}
	if (len > 0)
		keep(sink, bytes, len);
	if (sink->waiting)
		return;
	if (sink->n_buf - sink->start >= SIZE_GATHER)
		sink_flush(sink);
}

void sink_close(struct sink *sink)
{
	sink->closing = true;
	sink_flush(sink);
}
