/* Many bytes in all manners: chunk against chunk, both ways at once, blocking against polling. */
#include "case.h"

#include <fcntl.h>
#include <sys/epoll.h>

enum { LEN = 6 << 20 };

#define TRANSFER(name, chunk_out, chunk_in)                                                        \
	CASE(name, DUO)                                                                            \
	{                                                                                          \
		A                                                                                  \
			T(put_pattern(FD, LEN, chunk_out) == LEN);                                 \
		WITH_B                                                                             \
			T(take_pattern(FD, LEN, chunk_in) == LEN);                                 \
		B                                                                                  \
			T(put_pattern(FD, LEN, chunk_in) == LEN);                                  \
		WITH_A                                                                             \
			T(take_pattern(FD, LEN, chunk_out) == LEN);                                \
	}

TRANSFER(big_4k_to_4k, 4096, 4096)
TRANSFER(big_64k_to_64k, 65536, 65536)
TRANSFER(big_1m_to_4k, 1 << 20, 4096)
TRANSFER(big_4k_to_1m, 4096, 1 << 20)
TRANSFER(big_odd_sizes, 12347, 54321)
TRANSFER(big_all_at_once, LEN, LEN)
TRANSFER(big_small_pieces, 200, 300)

CASE(big_both_ways_at_once_polling, DUO)
{
	EACH {
		static __thread char out[65521], in[50000];
		size_t put = 0, taken = 0;
		bool good = true;

		fill_pattern(out, sizeof(out), 0);
		fcntl(FD, F_SETFL, O_NONBLOCK);
		while (good && (put < LEN || taken < LEN)) {
			struct pollfd pfd = { .fd = FD,
					      .events = (short)((put < LEN ? POLLOUT : 0) |
								(taken < LEN ? POLLIN : 0)) };
			size_t place = put % sizeof(out), n = sizeof(out) - place;
			ssize_t done;

			if (poll(&pfd, 1, 5000) != 1)
				break;
			if (pfd.revents & POLLIN) {
				done = recv(FD, in,
					    sizeof(in) < LEN - taken ? sizeof(in) : LEN - taken, 0);
				good = done > 0 && is_pattern(in, (size_t)done, taken);
				taken += done > 0 ? (size_t)done : 0;
			}
			if (pfd.revents & POLLOUT) {
				done = send(FD, out + place, n < LEN - put ? n : LEN - put, 0);
				good &= done > 0;
				put += done > 0 ? (size_t)done : 0;
			}
		}
		say(p, "put %zu taken %zu good %d", put, taken, good);
	}
}

CASE(big_waitall, DUO)
{
	A { T(put_pattern(FD, LEN, 77777) == LEN); }
	WITH_B {
		char *buf = malloc(1 << 20);
		size_t at = 0;

		while (at < LEN && recv(FD, buf, 1 << 20, MSG_WAITALL) == 1 << 20 &&
		       is_pattern(buf, 1 << 20, at))
			at += 1 << 20;
		say(p, "%zu", at);
		free(buf);
	}
}

CASE(big_peek_then_read, DUO)
{
	A { T(put_pattern(FD, 1 << 20, 10000) == 1 << 20); }
	WITH_B {
		char *one = malloc(20000), *two = malloc(20000);
		size_t at = 0;

		while (at < 1 << 20) {
			ssize_t peeked = recv(FD, one, 20000, MSG_PEEK);

			if (peeked <= 0 || recv(FD, two, (size_t)peeked, MSG_WAITALL) != peeked ||
			    memcmp(one, two, (size_t)peeked) != 0 ||
			    !is_pattern(two, (size_t)peeked, at))
				break;
			at += (size_t)peeked;
		}
		say(p, "%zu", at);
		free(one);
		free(two);
	}
}

CASE(big_many_round_trips_of_8k, DUO)
{
	EACH {
		char *buf = malloc(8192);
		int n_good = 0;

		for (int i = 0; i < 500; i++) {
			if (p->side == SIDE_A) {
				fill_pattern(buf, 8192, (unsigned)i);
				n_good += send(FD, buf, 8192, 0) == 8192 &&
					  recv(FD, buf, 8192, MSG_WAITALL) == 8192 &&
					  is_pattern(buf, 8192, (unsigned)i + 1);
			} else {
				n_good += recv(FD, buf, 8192, MSG_WAITALL) == 8192 &&
					  is_pattern(buf, 8192, (unsigned)i);
				fill_pattern(buf, 8192, (unsigned)i + 1);
				n_good += send(FD, buf, 8192, 0) == 8192;
			}
		}
		say(p, "%d", n_good);
		free(buf);
	}
}

CASE(big_epoll_level_reader, DUO)
{
	A { T(put_pattern(FD, LEN, 50000) == LEN); }
	WITH_B {
		int ep = epoll_create1(0);
		struct epoll_event event = { .events = EPOLLIN };
		char *buf = malloc(30000);
		size_t at = 0;

		epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event);
		while (at < LEN && epoll_wait(ep, &event, 1, 5000) == 1) {
			ssize_t got = recv(FD, buf, 30000 < LEN - at ? 30000 : LEN - at,
					   MSG_DONTWAIT);

			if (got <= 0 || !is_pattern(buf, (size_t)got, at))
				break;
			at += (size_t)got;
		}
		say(p, "%zu", at);
		free(buf);
	}
}
