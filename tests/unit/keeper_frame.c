/*
 * Frames over a socket pair: whole, split at every byte, many at once, larger than the buffers; and
 * what is no frame ends the pipe.
 */
#include "frame.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

struct ends {
	int fds[2];
	struct frame_pipe a, b;
};

static void open_ends(struct ends *ends)
{
	REQUIRE_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends->fds), ==, 0);
	frame_pipe_init(&ends->a, ends->fds[0]);
	frame_pipe_init(&ends->b, ends->fds[1]);
}

static void close_ends(struct ends *ends)
{
	frame_pipe_deinit(&ends->a);
	frame_pipe_deinit(&ends->b);
	(void)close(ends->fds[0]);
	(void)close(ends->fds[1]);
}

static void data_arrives_as_it_was_sent(void)
{
	const uint8_t text[] = "hello";
	struct frame frame = { FRAME_DATA, FRAME_STDERR, 7, text, sizeof(text) }, got;
	struct ends ends;

	open_ends(&ends);
	CHECK_INT(frame_put(&ends.a, &frame), ==, 0);
	CHECK_INT(frame_flush(&ends.a), ==, 0);
	CHECK_INT(frame_read(&ends.b), ==, 0);
	REQUIRE_INT(frame_next(&ends.b, &got), ==, 1);
	CHECK_INT(got.kind, ==, FRAME_DATA);
	CHECK_INT(got.stream, ==, FRAME_STDERR);
	CHECK_INT(got.rank, ==, 7);
	REQUIRE_INT(got.len, ==, sizeof(text));
	CHECK_MEM(got.data, text, sizeof(text));
	CHECK_INT(frame_next(&ends.b, &got), ==, 0);
	close_ends(&ends);
}

static void frames_come_byte_by_byte(void)
{
	uint8_t wire[64];
	struct ends ends;
	struct frame got;
	ssize_t len;
	int n = 0;

	open_ends(&ends);
	CHECK_INT(frame_put_credit(&ends.a, FRAME_STDOUT, 3, 12345), ==, 0);
	CHECK_INT(frame_put_credit(&ends.a, FRAME_STDIN, 4, 54321), ==, 0);
	CHECK_INT(frame_flush(&ends.a), ==, 0);
	len = read(ends.fds[1], wire, sizeof(wire));
	REQUIRE_INT(len, ==, 2 * (FRAME_SIZE_HEADER + 4));
	for (ssize_t i = 0; i < len; i++) {
		REQUIRE_INT(write(ends.fds[0], wire + i, 1), ==, 1);
		REQUIRE_INT(frame_read(&ends.b), ==, 0);
		while (frame_next(&ends.b, &got) == 1)
			CHECK_INT(frame_credit(&got), ==, n++ == 0 ? 12345 : 54321);
	}
	CHECK_INT(n, ==, 2);
	CHECK_INT(frame_read(&ends.b), ==, -EAGAIN);
	close_ends(&ends);
}

static void a_full_socket_keeps_the_rest(void)
{
	enum { N = 200, SIZE = 60000 };
	uint8_t *bytes = calloc(1, SIZE);
	struct ends ends;
	struct frame got;
	int n = 0, r;

	open_ends(&ends);
	for (int i = 0; i < N; i++) {
		bytes[0] = (uint8_t)i;
		REQUIRE_INT(frame_put(&ends.a, &(struct frame){ FRAME_DATA, 1, 0, bytes, SIZE }),
			    ==, 0);
	}
	CHECK_INT(frame_flush(&ends.a), ==, -EAGAIN);
	while (n < N) {
		r = frame_read(&ends.b);
		REQUIRE(r == 0 || r == -EAGAIN);
		while (frame_next(&ends.b, &got) == 1) {
			REQUIRE_INT(got.len, ==, SIZE);
			REQUIRE_INT(got.data[0], ==, n % 256);
			n++;
		}
		r = frame_flush(&ends.a);
		REQUIRE(r == 0 || r == -EAGAIN);
	}
	CHECK_INT(ends.a.size_out, ==, 0);
	free(bytes);
	close_ends(&ends);
}

static void a_message_may_be_large(void)
{
	enum { SIZE = 3 << 20 };
	Pulc__Job__Note note = PULC__JOB__NOTE__INIT;
	JOB_MESSAGE(msg, NOTE, note) = &note;
	Pulc__Job__Message *copy;
	struct ends ends;
	struct frame got;
	int r;

	note.text = calloc(1, SIZE + 1);
	memset(note.text, 'x', SIZE);
	open_ends(&ends);
	REQUIRE_INT(frame_put_message(&ends.a, &msg), ==, 0);
	while ((r = frame_next(&ends.b, &got)) == 0) {
		(void)frame_flush(&ends.a);
		r = frame_read(&ends.b);
		REQUIRE(r == 0 || r == -EAGAIN);
	}
	REQUIRE_INT(r, ==, 1);
	copy = frame_unpack(&got);
	REQUIRE(copy != NULL);
	CHECK_INT(strlen(copy->note->text), ==, SIZE);
	pulc__job__message__free_unpacked(copy, NULL);
	free(note.text);
	close_ends(&ends);
}

static void nonsense_ends_the_pipe(void)
{
	static const uint8_t bad[][FRAME_SIZE_HEADER] = {
		{ 0xff, 0xff, 0xff, 0xff, FRAME_MESSAGE }, /* too long */
		{ 0, 0, 0, 0, 9 },			   /* no such kind */
		{ 0, 0, 0, 0, 0 },
		{ 1, 0, 0, 0, FRAME_DATA, 3 }, /* no such stream */
		{ 1, 0, 1, 0, FRAME_DATA, 1 }, /* more than a data frame holds */
		{ 5, 0, 0, 0, FRAME_CREDIT, 1 },
	};
	struct ends ends;
	struct frame got;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		open_ends(&ends);
		REQUIRE_INT(write(ends.fds[0], bad[i], sizeof(bad[i])), ==, sizeof(bad[i]));
		CHECK_INT(frame_read(&ends.b), ==, 0);
		CHECK_INT(frame_next(&ends.b, &got), ==, -EBADMSG);
		close_ends(&ends);
	}
}

static void the_end_is_told(void)
{
	struct ends ends;

	open_ends(&ends);
	(void)close(ends.fds[0]);
	CHECK_INT(frame_read(&ends.b), ==, -EPIPE);
	ends.fds[0] = dup(ends.fds[1]);
	close_ends(&ends);
}

static const struct test tests[] = {
	TEST(data_arrives_as_it_was_sent),  TEST(frames_come_byte_by_byte),
	TEST(a_full_socket_keeps_the_rest), TEST(a_message_may_be_large),
	TEST(nonsense_ends_the_pipe),	    TEST(the_end_is_told),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
