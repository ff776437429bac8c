/* The flags of send and recv. */
#include "case.h"

#include <sys/ioctl.h>

CASE(flags_peek_leaves_bytes, ANY)
{
	A { SEND("peekaboo"); }
	B {
		settle(p, FD, 8);
		RECV_FLAGS(4, MSG_PEEK);
		RECV_FLAGS(100, MSG_PEEK);
		RECV(100);
	}
}

CASE(flags_peek_after_part, ANY)
{
	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		RECV(2);
		RECV_FLAGS(2, MSG_PEEK);
		RECV(1);
		RECV_FLAGS(9, MSG_PEEK);
		RECV(9);
	}
}

CASE(flags_peek_blocks, DUO)
{
	A { RECV_FLAGS(10, MSG_PEEK); }
	WITH_B {
		until_other_sleeps(p);
		SEND("late");
	}
	A { RECV(10); }
}

CASE(flags_peek_waitall, DUO)
{
	A { RECV_FLAGS(6, MSG_PEEK | MSG_WAITALL); }
	WITH_B {
		SEND("abc");
		until_other_sleeps(p);
		SEND("def");
	}
	A { RECV(10); }
}

/* It has seen what another process takes meanwhile. */
CASE(flags_peek_waitall_beside_one_who_takes, DUO)
{
	B { SEND("abc"); }
	A {
		pid_t pid;

		settle(p, FD, 3);
		pid = fork_logged(p);
		if (pid == 0) {
			until_thread_sleeps(actor_tid(p, SIDE_A));
			*stage_word(p, 1) = recv(FD, (char[3]){ 0 }, 3, MSG_DONTWAIT);
			_exit(0);
		}
		RECV_FLAGS(6, MSG_PEEK | MSG_WAITALL);
		reap(p, "child", pid);
		RECV(6);
	}
	WITH_B {
		while (!*stage_word(p, 1)) usleep(300);
		close(FD);
	}
}

CASE(flags_peek_sees_growth, ANY)
{
	A { SEND("one"); }
	B {
		settle(p, FD, 3);
		RECV_FLAGS(10, MSG_PEEK);
	}
	A { SEND("two"); }
	B {
		settle(p, FD, 6);
		RECV_FLAGS(10, MSG_PEEK);
		RECV(10);
	}
}

CASE(flags_peek_at_eof, ANY)
{
	A {
		SEND("x");
		shutdown(FD, SHUT_WR);
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		RECV_FLAGS(10, MSG_PEEK);
		RECV(10);
		RECV_FLAGS(10, MSG_PEEK);
	}
}

CASE(flags_peek_large, ANY)
{
	A { T(put_pattern(FD, 100000, 10000) == 100000); }
	B {
		char *buf = malloc(100000);

		settle(p, FD, 100000);
		R(recv(FD, buf, 100000, MSG_PEEK));
		T(is_pattern(buf, 100000, 0));
		T(take_pattern(FD, 100000, 3333) == 100000);
		free(buf);
	}
}

CASE(flags_dontwait_on_empty, ANY)
{
	A {
		RECV_FLAGS(1, MSG_DONTWAIT);
		RECV_FLAGS(1, MSG_DONTWAIT | MSG_PEEK);
	}
	B { RECV_FLAGS(1, MSG_DONTWAIT | MSG_WAITALL); }
}

CASE(flags_dontwait_with_data, ANY)
{
	A { SEND("data"); }
	B {
		settle(p, FD, 4);
		RECV_FLAGS(2, MSG_DONTWAIT);
		RECV_FLAGS(9, MSG_DONTWAIT);
		RECV_FLAGS(9, MSG_DONTWAIT);
	}
}

CASE(flags_dontwait_waitall_takes_what_is_there, ANY)
{
	A { SEND("data"); }
	B {
		settle(p, FD, 4);
		RECV_FLAGS(10, MSG_DONTWAIT | MSG_WAITALL);
	}
}

CASE(flags_waitall_over_sends, DUO)
{
	A { RECV_FLAGS(9, MSG_WAITALL); }
	WITH_B {
		SEND("abc");
		until_other_sleeps(p);
		SEND("def");
		until_other_sleeps(p);
		SEND("ghi");
	}
}

CASE(flags_waitall_ends_with_eof, DUO)
{
	A { RECV_FLAGS(100, MSG_WAITALL); }
	WITH_B {
		SEND("abc");
		until_other_sleeps(p);
		shutdown(FD, SHUT_WR);
	}
	A { RECV_FLAGS(100, MSG_WAITALL); }
}

CASE(flags_waitall_large, DUO)
{
	enum { LEN = 2500000 };

	A { T(put_pattern(FD, LEN, 70001) == LEN); }
	WITH_B {
		char *buf = malloc(LEN);

		R(recv(FD, buf, LEN, MSG_WAITALL));
		T(is_pattern(buf, LEN, 0));
		free(buf);
	}
}

CASE(flags_trunc_discards, ANY)
{
	A { SEND("abcdefgh"); }
	B {
		settle(p, FD, 8);
		R(recv(FD, NULL, 3, MSG_TRUNC));
		RECV(10);
	}
}

CASE(flags_trunc_more_than_there, ANY)
{
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		R(recv(FD, NULL, 100, MSG_TRUNC));
		RECV_FLAGS(1, MSG_DONTWAIT);
	}
}

CASE(flags_trunc_with_peek, ANY)
{
	char buf[10] = "";

	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		R(recv(FD, buf, 2, MSG_TRUNC | MSG_PEEK));
		say_bytes(p, "copied", buf, 2);
		R(recv(FD, NULL, 100, MSG_TRUNC | MSG_PEEK));
		R(recv(FD, bad_address, 3, MSG_TRUNC | MSG_PEEK));
		RECV(10);
	}
}

CASE(flags_trunc_waitall, DUO)
{
	A { R(recv(FD, NULL, 6, MSG_TRUNC | MSG_WAITALL)); }
	WITH_B {
		SEND("abc");
		until_other_sleeps(p);
		SEND("defg");
	}
	A { RECV(10); }
}

CASE(flags_nosignal, ANY)
{
	A {
		count_signal(SIGPIPE, 0);
		shutdown(FD, SHUT_WR);
	}
	A {
		SEND_FLAGS("x", MSG_NOSIGNAL);
		say(p, "%d signals", n_signals);
	}
	A {
		SEND_FLAGS("x", 0);
		say(p, "%d signals", n_signals);
	}
}

CASE_TRAITS(flags_more_is_flushed_by_next_send, ANY, DELAYED)
{
	A {
		SEND_FLAGS("head ", MSG_MORE);
		SEND_FLAGS("body", 0);
	}
	B {
		settle(p, FD, 9);
		RECV(100);
	}
}

CASE(flags_more_alone_arrives_at_last, ANY)
{
	A { SEND_FLAGS("corked", MSG_MORE); }
	B { RECV_FLAGS(6, MSG_WAITALL); }
}

CASE(flags_more_then_shutdown, ANY)
{
	A {
		SEND_FLAGS("corked", MSG_MORE);
		R(shutdown(FD, SHUT_WR));
	}
	B {
		RECV_FLAGS(100, MSG_WAITALL);
		RECV(1);
	}
}

CASE(flags_errqueue_is_empty, ANY)
{
	A {
		SEND("x");
		RECV_FLAGS(10, MSG_ERRQUEUE);
	}
	B {
		settle(p, FD, 1);
		RECV_FLAGS(10, MSG_ERRQUEUE);
		RECV(10);
	}
}

CASE(flags_without_meaning_are_ignored, ANY)
{
	A {
		SEND_FLAGS("a", MSG_EOR);
		SEND_FLAGS("b", MSG_CONFIRM);
		SEND_FLAGS("c", MSG_DONTROUTE);
	}
	B {
		settle(p, FD, 3);
		RECV_FLAGS(10, MSG_CMSG_CLOEXEC | MSG_NOSIGNAL);
	}
}

CASE(flags_unknown_bits, ANY)
{
	A { SEND_FLAGS("abc", 0x1000000); }
	B {
		settle(p, FD, 3);
		RECV_FLAGS(10, 0x1000000);
	}
}

CASE(flags_zerocopy_without_option, ANY)
{
	A { SEND_FLAGS("abc", MSG_ZEROCOPY); }
	B {
		settle(p, FD, 3);
		RECV(10);
	}
	A { RECV_FLAGS(10, MSG_ERRQUEUE); }
}

CASE(flags_fastopen_on_connected, ANY)
{
	A { SEND_FLAGS("abc", MSG_FASTOPEN); }
}

CASE_TRAITS(flags_send_dontwait_until_full, ANY, SETTLED)
{
	size_t size = 0;

	A {
		size = stuff(FD);
		T(size > 100000);
		SEND_FLAGS("x", MSG_DONTWAIT);
		*stage_word(p, 1) = (long)size;
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
	A {
		settle_poll(p, FD, POLLOUT);
		SEND_FLAGS("more", MSG_DONTWAIT);
	}
	B { RECV_FLAGS(4, MSG_WAITALL); }
}

CASE(flags_oob_byte, ANY)
{
	A {
		SEND("ab");
		SEND_FLAGS("c", MSG_OOB);
	}
	B {
		settle_poll(p, FD, POLLPRI);
		RECV_FLAGS(1, MSG_OOB);
		RECV_FLAGS(1, MSG_OOB);
	}
	B { RECV(10); }
	A { SEND("de"); }
	B { RECV_FLAGS(2, MSG_WAITALL); }
}

CASE(flags_oob_inline, ANY)
{
	B { R(setsockopt(FD, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 }, sizeof(int))); }
	A {
		SEND("ab");
		SEND_FLAGS("c", MSG_OOB);
		SEND("de");
	}
	B {
		settle(p, FD, 5);
		RECV(10);
		RECV_FLAGS(10, MSG_DONTWAIT);
		RECV_FLAGS(10, MSG_DONTWAIT);
	}
}

CASE(flags_oob_mark, ANY)
{
	int mark = -1;

	A {
		SEND("ab");
		SEND_FLAGS("c", MSG_OOB);
		SEND("de");
	}
	B {
		settle_poll(p, FD, POLLPRI);
		settle(p, FD, 2);
		R(ioctl(FD, SIOCATMARK, &mark));
		say(p, "at mark %d", mark);
		RECV(10);
		R(ioctl(FD, SIOCATMARK, &mark));
		say(p, "at mark %d", mark);
		RECV(10);
	}
}

CASE(flags_oob_without_any, ANY)
{
	A {
		RECV_FLAGS(1, MSG_OOB);
		SEND("x");
	}
	B {
		settle(p, FD, 1);
		RECV_FLAGS(1, MSG_OOB);
		RECV(1);
	}
}
