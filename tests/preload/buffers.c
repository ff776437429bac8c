/* Programs that live off the kernel's buffers: write much before anybody reads. */
#include "case.h"

#include <sys/ioctl.h>

static void write_then_read(struct play *p, size_t len, size_t chunk)
{
	A { T(put_pattern(FD, len, chunk) == len); }
	B { T(drain_exactly(FD, len)); }
}

CASE(buffers_100k_before_reading, ANY)
{
	write_then_read(p, 100000, 1000);
}
CASE(buffers_1m_before_reading, ANY)
{
	write_then_read(p, 1 << 20, 16384);
}
CASE(buffers_2m_before_reading, ANY)
{
	write_then_read(p, 2 << 20, 65536);
}
CASE(buffers_2m_in_one_call_before_reading, ANY)
{
	write_then_read(p, 2 << 20, 2 << 20);
}
CASE(buffers_small_chunks_before_reading, ANY)
{
	write_then_read(p, 50000, 50);
}

CASE(buffers_1m_both_ways_before_reading, ANY)
{
	EACH { T(put_pattern(FD, 1 << 20, 40000) == 1 << 20); }
	A { T(drain_exactly(FD, 1 << 20)); }
	B { T(drain_exactly(FD, 1 << 20)); }
}

CASE(buffers_again_and_again, ANY)
{
	for (int i = 0; i < 8; i++) write_then_read(p, 700000, 9000);
}

CASE(buffers_growing_waves, ANY)
{
	for (size_t len = 1000; len < 2000000; len = len * 5 / 2) write_then_read(p, len, 4096);
}

CASE(buffers_full_holds_at_least_2m, ANY)
{
	A {
		*stage_word(p, 1) = (long)stuff(FD);
		T(*stage_word(p, 1) >= 2 << 20);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
	A {
		settle_poll(p, FD, POLLOUT);
		T(stuff(FD) > 100000);
	}
}

CASE(buffers_full_is_bounded, ANY)
{
	A {
		*stage_word(p, 1) = (long)stuff(FD);
		T(*stage_word(p, 1) < 64 << 20);
	}
}

CASE(buffers_small_receiver_bounds, ANY)
{
	B { R(setsockopt(FD, SOL_SOCKET, SO_RCVBUF, &(int){ 8192 }, sizeof(int))); }
	A { R(setsockopt(FD, SOL_SOCKET, SO_SNDBUF, &(int){ 8192 }, sizeof(int))); }
	A {
		*stage_word(p, 1) = (long)stuff(FD);
		T(*stage_word(p, 1) > 0);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
}

CASE(buffers_full_both_ways, ANY)
{
	EACH { *stage_word(p, 1 + (unsigned)p->side) = (long)stuff(FD); }
	A { T(drain_exactly(FD, (size_t)*stage_word(p, 2))); }
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
}

CASE(buffers_read_a_little_write_a_little, ANY)
{
	size_t size = 0;

	A { *stage_word(p, 1) = (long)stuff(FD); }
	for (int i = 0; i < 20; i++) {
		B { T(recv(FD, NULL, 300000, MSG_TRUNC | MSG_WAITALL) == 300000); }
		A { *stage_word(p, 1) += (long)stuff(FD); }
	}
	A { shutdown(FD, SHUT_WR); }
	B {
		ssize_t got;

		for (size = 20 * 300000; (got = recv(FD, NULL, 1 << 20, MSG_TRUNC)) > 0;)
			size += (size_t)got;
		T((long)size == *stage_word(p, 1));
	}
}

CASE_TRAITS(buffers_of_many_connections, SELF, OWN_PAIR)
{
	enum { N = 10 };
	int fds[N][2];

	A {
		for (int i = 0; i < N; i++) {
			pair_local(fds[i]);
			warm(p, fds[i]);
			T(put_pattern(fds[i][0], 1 << 20, 10000) == 1 << 20);
		}
		for (int i = 0; i < N; i++) {
			T(drain_exactly(fds[i][1], 1 << 20));
			close(fds[i][0]);
			say_recv(p, fds[i][1], 1, 0);
		}
	}
}

CASE(buffers_blocked_writer_goes_on_when_read, DUO)
{
	enum { LEN = 10 << 20 };

	A { T(put_pattern(FD, LEN, 1 << 20) == LEN); }
	WITH_B {
		settle(p, FD, 1);
		until_other_sleeps(p);
		T(drain_exactly(FD, LEN));
	}
}

CASE(buffers_blocked_writer_and_slow_reader, DUO)
{
	enum { LEN = 8 << 20 };

	A { T(put_pattern(FD, LEN, 300000) == LEN); }
	WITH_B {
		size_t at = 0;
		char *buf = malloc(100000);

		while (at < LEN) {
			ssize_t got = recv(FD, buf, 100000, 0);

			if (got <= 0 || !is_pattern(buf, (size_t)got, at))
				break;
			at += (size_t)got;
			if (at % 7 == 0)
				usleep(1000);
		}
		say(p, "%zu", at);
		free(buf);
	}
}

static void give_buffers(int fd, int send, int receive)
{
	if (send)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof(send));
	if (receive)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive));
}

/* What a program has given both ends is what a sender may have unread, about: some more, and not
 * the megabytes that there are. */
static void say_bounded(struct play *p, long least, long most)
{
	A {
		long n = (long)stuff(FD);
		struct pollfd pfd = { .fd = FD, .events = POLLOUT };

		*stage_word(p, 1) = n;
		T(n >= least);
		T(n < most);
		R(poll(&pfd, 1, 0));
	}
	B { T(recv(FD, NULL, (size_t)*stage_word(p, 1) * 3 / 4, MSG_TRUNC | MSG_WAITALL) > 0); }
	A {
		settle_poll(p, FD, POLLOUT);
		T(stuff(FD) > 0);
	}
}

CASE_TRAITS(buffers_small_on_both_ends, ANY, SETTLED)
{
	A { give_buffers(FD, 32768, 0); }
	B { give_buffers(FD, 0, 32768); }
	say_bounded(p, 100000, 400000);
}

CASE(buffers_small_on_the_sender_alone, ANY)
{
	A { give_buffers(FD, 32768, 0); }
	write_then_read(p, 60000, 1000);
}

/* More than was given at first. */
CASE_TRAITS(buffers_given_once_more, ANY, SETTLED)
{
	A { give_buffers(FD, 32768, 0); }
	B { give_buffers(FD, 0, 32768); }
	A {
		T(stuff(FD) > 0);
		give_buffers(FD, 1 << 20, 0);
		settle_poll(p, FD, POLLOUT);
		T(stuff(FD) > 200000);
	}
}

/* By the receiver, while the sender waits for room. */
CASE_TRAITS(buffers_given_by_the_receiver, DUO, SETTLED)
{
	A { give_buffers(FD, 32768, 0); }
	B { give_buffers(FD, 0, 32768); }
	A { T(stuff(FD) > 0); }
	A {
		settle_poll(p, FD, POLLOUT);
		T(stuff(FD) > 50000);
	}
	WITH_B {
		until_other_sleeps(p);
		give_buffers(FD, 0, 1 << 20);
	}
}

/* A receiver that wants more at once than its buffer is given afterwards. */
CASE_TRAITS(buffers_smaller_than_the_low_water_mark, ANY, SETTLED)
{
	int low = 1 << 20;

	A { give_buffers(FD, 32768, 0); }
	B {
		setsockopt(FD, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
		give_buffers(FD, 0, 32768);
	}
	A { T(stuff(FD) > 0); }
	B {
		settle_poll(p, FD, POLLIN);
		T(recv(FD, NULL, 50000, MSG_TRUNC | MSG_WAITALL) == 50000);
	}
}

/* They come from the listener. */
CASE_TRAITS(buffers_of_a_listener, SELF, OWN_PAIR | SETTLED)
{
	struct address address;
	int listener, fds[2];

	A {
		listener = listen_on("127.0.0.1", &address);
		give_buffers(listener, 32768, 32768);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		give_buffers(fds[0], 32768, 32768);
		warm(p, fds);
		for (int i = 0; i < 2; i++) {
			size_t n = stuff(fds[i]);

			T(n > 100000);
			T(n < 400000);
			T(drain_exactly(fds[!i], n));
		}
	}
}

CASE(buffers_small_and_a_blocked_writer, DUO)
{
	enum { LEN = 3 << 20 };

	A {
		give_buffers(FD, 32768, 0);
		T(put_pattern(FD, LEN, 100000) == LEN);
	}
	WITH_B {
		give_buffers(FD, 0, 32768);
		settle(p, FD, 1);
		T(drain_exactly(FD, LEN));
	}
}
