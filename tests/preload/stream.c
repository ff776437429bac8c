/* The plain byte stream: what one end writes in whatever pieces, the other reads in whatever
 * pieces. */
#include "case.h"

#include <fcntl.h>

CASE(stream_one_byte_each_way, ANY)
{
	A { SEND("x"); }
	B { RECV(1); }
	B { SEND("y"); }
	A { RECV(1); }
}

CASE(stream_hello, ANY)
{
	A { SEND("hello"); }
	B {
		settle(p, FD, 5);
		RECV(100);
	}
	B { SEND("world!"); }
	A {
		settle(p, FD, 6);
		RECV(100);
	}
}

CASE(stream_empty_send, ANY)
{
	A {
		R(send(FD, "", 0, 0));
		R(write(FD, "", 0));
		SEND("end");
	}
	B {
		settle(p, FD, 3);
		RECV(100);
	}
}

CASE(stream_recv_of_no_bytes_with_data, ANY)
{
	A { SEND("data"); }
	B {
		settle(p, FD, 4);
		RECV(0);
		R(read(FD, NULL, 0));
		RECV(10);
	}
}

CASE(stream_recv_of_no_bytes_without_data, ANY)
{
	char c;

	A {
		R(read(FD, &c, 0));
		R(recv(FD, &c, 0, MSG_DONTWAIT));
	}
}

CASE(stream_recv_of_no_bytes_blocks, DUO)
{
	A { RECV(0); }
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
	A { RECV(1); }
}

CASE(stream_sends_join, ANY)
{
	A {
		SEND("ab");
		SEND("cde");
		SEND("f");
	}
	B {
		settle(p, FD, 6);
		RECV(100);
	}
}

CASE(stream_reads_split, ANY)
{
	A { SEND("abcdefghij"); }
	B {
		settle(p, FD, 10);
		RECV(1);
		RECV(2);
		RECV(3);
		RECV(100);
	}
}

CASE(stream_read_write, ANY)
{
	char buf[16];

	A { R(write(FD, "written", 7)); }
	B {
		settle(p, FD, 7);
		R(read(FD, buf, sizeof(buf)));
		say_bytes(p, "read", buf, 7);
	}
}

CASE(stream_sendto_without_address, ANY)
{
	char buf[16];

	A { R(sendto(FD, "hello", 5, 0, NULL, 0)); }
	B {
		settle(p, FD, 5);
		R(recvfrom(FD, buf, sizeof(buf), 0, NULL, NULL));
	}
}

CASE(stream_recvfrom_gives_no_address, ANY)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	char buf[16];

	A { SEND("hello"); }
	B {
		settle(p, FD, 5);
		R(recvfrom(FD, buf, sizeof(buf), 0, (struct sockaddr *)&from, &size));
		say(p, "size of address %u", size);
	}
}

CASE(stream_sendto_ignores_address, ANY)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = 1 };

	A { R(sendto(FD, "hello", 5, 0, (struct sockaddr *)&to, sizeof(to))); }
	B {
		settle(p, FD, 5);
		RECV(10);
	}
}

CASE(stream_many_small_one_way, ANY)
{
	A {
		int n = 0;

		for (int i = 0; i < 1000; i++) n += send(FD, "0123456789", 10, 0) == 10;
		say(p, "%d sends", n);
	}
	B {
		char buf[10001];

		say(p, "%zd", recv(FD, buf, 10000, MSG_WAITALL));
		say_bytes(p, "got", buf, 10000);
	}
}

CASE(stream_ping_pong, ANY)
{
	for (int i = 0; i < 100; i++) {
		char word[8] = { 'p', 'i', 'n', 'g', (char)('0' + i / 10), (char)('0' + i % 10) };

		A { T(send(FD, word, 6, 0) == 6); }
		B {
			char got[8] = "";

			say(p, "%zd %s", recv(FD, got, 6, MSG_WAITALL), got);
			T(send(FD, got, 6, 0) == 6);
		}
		A {
			char got[8] = "";

			say(p, "%zd %s", recv(FD, got, 6, MSG_WAITALL), got);
		}
	}
}

CASE_TRAITS(stream_ping_pong_with_nagle, ANY, DELAYED)
{
	for (int i = 0; i < 20; i++) {
		A { SEND("request"); }
		B {
			RECV_FLAGS(7, MSG_WAITALL);
			SEND("answer");
		}
		A { RECV_FLAGS(6, MSG_WAITALL); }
	}
}

CASE(stream_both_ways_at_once, DUO)
{
	EACH {
		say(p, "put %zu", put_pattern(FD, 3000, 100));
		say(p, "taken %zu", take_pattern(FD, 3000, 77));
	}
}

CASE(stream_eof_stays, ANY)
{
	A {
		SEND("last words");
		close(FD);
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		RECV(100);
		RECV(100);
		RECV(100);
		RECV_FLAGS(100, MSG_DONTWAIT);
		RECV_FLAGS(100, MSG_PEEK);
	}
}

CASE(stream_eof_without_bytes, ANY)
{
	A { close(FD); }
	B {
		RECV(1);
		RECV(1);
	}
}

CASE(stream_large_send_in_one_call, DUO)
{
	enum { LEN = 3 << 20 };

	A {
		char *buf = malloc(LEN);

		fill_pattern(buf, LEN, 0);
		R(send(FD, buf, LEN, 0));
		free(buf);
	}
	WITH_B { say(p, "taken %zu", take_pattern(FD, LEN, 50000)); }
}

CASE(stream_large_read_returns_what_is_there, ANY)
{
	A { T(put_pattern(FD, 20000, 20000) == 20000); }
	B {
		char *buf = malloc(1 << 20);

		settle(p, FD, 20000);
		R(recv(FD, buf, 1 << 20, 0));
		T(is_pattern(buf, 20000, 0));
		free(buf);
	}
}

CASE(stream_descriptor_is_bad, ANY)
{
	char c;

	A {
		close(FD);
		R(send(FD, "x", 1, 0));
		R(recv(FD, &c, 1, 0));
		R(read(FD, &c, 1));
		R(write(FD, "x", 1));
		R(close(FD));
		R(send(-1, "x", 1, 0));
		R(recv(1 << 20, &c, 1, 0));
	}
}

CASE_TRAITS(stream_not_a_socket, SELF, NO_PAIR)
{
	int pipes[2];
	char c;

	A {
		T(pipe(pipes) == 0);
		R(send(pipes[1], "x", 1, 0));
		R(recv(pipes[0], &c, 1, 0));
		R(shutdown(pipes[0], SHUT_RD));
		R(write(pipes[1], "x", 1));
		R(read(pipes[0], &c, 1));
	}
}

CASE_TRAITS(stream_not_connected, SELF, NO_PAIR)
{
	char c;

	A {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		R(recv(fd, &c, 1, 0));
		R(read(fd, &c, 1));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
		R(shutdown(fd, SHUT_WR));
		R(close(fd));
	}
}

CASE(stream_seek_and_position, ANY)
{
	char c;

	A {
		R(lseek(FD, 0, SEEK_CUR));
		R(pread(FD, &c, 1, 0));
		R(pwrite(FD, &c, 1, 0));
		R(ftruncate(FD, 10));
		R(fsync(FD));
	}
}

CASE(stream_bytes_of_every_value, ANY)
{
	unsigned char bytes[256];

	for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
	A { R(send(FD, bytes, sizeof(bytes), 0)); }
	B { RECV_FLAGS(256, MSG_WAITALL); }
}

CASE(stream_bad_buffer, ANY)
{
	A {
		R(send(FD, bad_address, 10, 0));
		R(write(FD, bad_address, 10));
		SEND("after");
	}
	B {
		settle(p, FD, 5);
		R(recv(FD, bad_address, 10, 0));
		R(read(FD, bad_address, 10));
		RECV(10);
	}
}

CASE(stream_unaligned_buffers, ANY)
{
	enum { LEN = 10000 };
	char *out = malloc(LEN + 8), *in = malloc(LEN + 8);

	for (int shift = 0; shift < 8; shift++) {
		A {
			fill_pattern(out + shift, LEN, (unsigned)shift);
			T(send(FD, out + shift, LEN, 0) == LEN);
		}
		B {
			T(recv(FD, in + 7 - shift, LEN, MSG_WAITALL) == LEN);
			T(is_pattern(in + 7 - shift, LEN, (unsigned)shift));
		}
	}
	free(out);
	free(in);
}

CASE(stream_alternating_sizes, ANY)
{
	static const int sizes[] = { 1, 4095, 2, 4096, 3, 4097, 5, 8191, 1, 16384, 7, 65, 64, 63 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		A { T(put_pattern(FD, (size_t)sizes[i], 100000) == (size_t)sizes[i]); }
		B { T(take_pattern(FD, (size_t)sizes[i], 100000) == (size_t)sizes[i]); }
	}
}
