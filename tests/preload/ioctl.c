/* ioctl on connected sockets. */
#include "case.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <termios.h>

static void say_ioctl(struct play *p, int fd, unsigned long request, const char *name)
{
	int value = -1, result = ioctl(fd, request, &value);

	say(p, "%s: %d %s, value %d", name, result, result < 0 ? errno_name(errno) : "", value);
}
#define ASK(request) say_ioctl(p, FD, request, #request)

CASE(ioctl_fionread, ANY)
{
	B { ASK(FIONREAD); }
	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		ASK(FIONREAD);
		RECV(2);
		ASK(FIONREAD);
		ASK(SIOCINQ);
		RECV(9);
		ASK(FIONREAD);
	}
}

CASE(ioctl_fionread_is_not_changed_by_peek, ANY)
{
	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		RECV_FLAGS(3, MSG_PEEK);
		ASK(FIONREAD);
	}
}

CASE(ioctl_fionread_at_eof, ANY)
{
	A {
		SEND("ab");
		shutdown(FD, SHUT_WR);
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		ASK(FIONREAD);
		RECV(10);
		ASK(FIONREAD);
		RECV(10);
		ASK(FIONREAD);
	}
}

CASE(ioctl_fionread_large, ANY)
{
	A { T(put_pattern(FD, 60000, 6000) == 60000); }
	B {
		settle(p, FD, 60000);
		ASK(FIONREAD);
		T(take_pattern(FD, 59999, 59999) == 59999);
		ASK(FIONREAD);
	}
}

/* Until everything is acknowledged, which may be some 40 ms late. */
static void await_acknowledgement(int fd)
{
	int value = 1;

	for (int i = 0; i < 3000 && value; i++) {
		ioctl(fd, SIOCOUTQ, &value);
		if (value)
			usleep(500);
	}
}

CASE(ioctl_outq_empty, ANY)
{
	A {
		await_acknowledgement(FD);
		ASK(SIOCOUTQ);
		ASK(TIOCOUTQ);
		ASK(SIOCOUTQNSD);
	}
}

CASE(ioctl_outq_after_all_was_read, ANY)
{
	A { SEND("abc"); }
	B { RECV_FLAGS(3, MSG_WAITALL); }
	A {
		await_acknowledgement(FD);
		ASK(SIOCOUTQ);
	}
}

CASE(ioctl_outq_when_full, ANY)
{
	A {
		int value = 0;

		await_acknowledgement(FD);
		*stage_word(p, 1) = (long)stuff(FD);
		R(ioctl(FD, SIOCOUTQ, &value));
		T(value > 0);
		T(value <= *stage_word(p, 1));
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
}

CASE(ioctl_is_no_terminal, ANY)
{
	struct termios t;

	A {
		R(tcgetattr(FD, &t));
		R(isatty(FD));
		R(ioctl(FD, TIOCGWINSZ, &t));
	}
}

CASE(ioctl_unknown, ANY)
{
	int value = 0;

	A {
		R(ioctl(FD, 0xdeadbeefUL, &value));
		R(ioctl(-1, FIONREAD, &value));
		SEND("x");
	}
	B { RECV(1); }
}

CASE(ioctl_close_on_exec, ANY)
{
	A {
		R(ioctl(FD, FIOCLEX));
		R(ioctl(FD, FIONCLEX));
		SEND("x");
	}
	B { RECV(1); }
}

CASE(ioctl_atmark_without_urgent, ANY)
{
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		ASK(SIOCATMARK);
	}
}

CASE(ioctl_bad_address, ANY)
{
	A {
		R(ioctl(FD, FIONREAD, bad_address));
		R(ioctl(FD, FIONBIO, bad_address));
	}
}
