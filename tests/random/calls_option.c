/*
 * The calls that set something of a socket, or ask for it.
 *
 * SIOCOUTQ counts what is not acknowledged, and acknowledgements come when they like: it is asked
 * until it says 0, or for so long that it never will. Of a connection that is no more it counts
 * what had not been acknowledged by its end, which is chance: then only its result is told.
 */
#include "call.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>

#define N_LOOKS 1000 /* each of a millisecond: acknowledgements are put off for 40 */

/* nonblock slot 0 or 1 */
static void call_nonblock(struct call *call)
{
	int flags = fcntl(call->fd, F_GETFL);

	flags = number_of(call->words[2]) ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	RESULT(call, fcntl(call->fd, F_SETFL, flags));
}

/* flags slot */
static void call_flags(struct call *call)
{
	RESULT(call, fcntl(call->fd, F_GETFL));
}

/* reset slot: its close sends a reset */
static void call_reset(struct call *call)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };

	RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
}

/* patience slot msec: SO_RCVTIMEO, 0 for none */
static void call_patience(struct call *call)
{
	struct timeval limit = { .tv_usec = number_of(call->words[2]) * 1000 };

	RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
}

/* lowat slot size */
static void call_lowat(struct call *call)
{
	int size = (int)number_of(call->words[2]);

	RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_RCVLOWAT, &size, sizeof(size)));
}

/* error slot */
static void call_error(struct call *call)
{
	int error = 0;
	socklen_t size = sizeof(error);

	RESULT(call, getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &error, &size));
	errno = error;
	if (error)
		answer_result(call, -1);
}

static void call_unread(struct call *call)
{
	int n = -1;

	RESULT(call, ioctl(call->fd, FIONREAD, &n));
	answer(call, ", %d", n);
}

static bool is_closed(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	       info.tcpi_state == TCP_CLOSE;
}

static void call_unsent(struct call *call)
{
	long result = 0;
	int n = 0;

	for (unsigned i = 0; i < N_LOOKS; i++) {
		errno = ERRNO_UNTOUCHED;
		result = ioctl(call->fd, SIOCOUTQ, &n);
		if (result < 0 || n == 0 || is_closed(call->fd))
			break;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	answer_result(call, result);
	answer(call, is_closed(call->fd) ? ", closed" : ", %d", n);
}

static void call_peer(struct call *call)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);

	if (RESULT(call, getpeername(call->fd, (struct sockaddr *)&address, &size)) == 0)
		answer_address(call, &address, size);
}

static void call_mark(struct call *call)
{
	RESULT(call, sockatmark(call->fd));
}

/* state slot: of TCP, as its TCP_INFO says. Whether the peer has acknowledged an end already is
 * chance. */
static void call_state(struct call *call)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	if (RESULT(call, getsockopt(call->fd, IPPROTO_TCP, TCP_INFO, &info, &size)) == 0)
		answer(call, ", %u",
		       info.tcpi_state == TCP_FIN_WAIT2 ? TCP_FIN_WAIT1 : info.tcpi_state);
}

/* in_line slot 0 or 1: SO_OOBINLINE */
static void call_in_line(struct call *call)
{
	int on = (int)number_of(call->words[2]);

	RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
}

/* peek_at slot N: SO_PEEK_OFF */
static void call_peek_at(struct call *call)
{
	int at = (int)number_of(call->words[2]);

	if (call->slot >= 0 && call->table->kinds[call->slot] == KIND_DATAGRAM)
		empty(call->fd);
	RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_PEEK_OFF, &at, sizeof(at)));
}

/* told slot WHAT 0 or 1: that is to come with each recvmsg */
static void call_told(struct call *call)
{
	static const struct what {
		const char *name;
		int level, option, option6;
	} known[] = { { "stamp", SOL_SOCKET, SO_TIMESTAMP, SO_TIMESTAMP },
		      { "inq", IPPROTO_TCP, TCP_INQ, TCP_INQ },
		      { "address", IPPROTO_IP, IP_PKTINFO, IPV6_RECVPKTINFO },
		      { "hops", IPPROTO_IP, IP_RECVTTL, IPV6_RECVHOPLIMIT } };
	int on = (int)number_of(call->words[3]), domain = AF_INET;
	socklen_t size = sizeof(domain);

	getsockopt(call->fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
	if (call->slot >= 0 && call->table->kinds[call->slot] == KIND_DATAGRAM)
		empty(call->fd);
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct what *w = &known[i];
		bool is_six = domain == AF_INET6 && w->level == IPPROTO_IP;

		if (strcmp(w->name, call->words[2]) == 0)
			RESULT(call, setsockopt(call->fd, is_six ? IPPROTO_IPV6 : w->level,
						is_six ? w->option6 : w->option, &on, sizeof(on)));
	}
}

/* cloexec slot 0 or 1 */
static void call_cloexec(struct call *call)
{
	RESULT(call, fcntl(call->fd, F_SETFD, number_of(call->words[2]) ? FD_CLOEXEC : 0));
}

/* options slot: some that stand in one word */
static void call_options(struct call *call)
{
	static const struct {
		int level, option;
	} asked[] = { { SOL_SOCKET, SO_TYPE },	     { SOL_SOCKET, SO_DOMAIN },
		      { SOL_SOCKET, SO_ACCEPTCONN }, { SOL_SOCKET, SO_RCVLOWAT },
		      { SOL_SOCKET, SO_OOBINLINE },  { SOL_SOCKET, SO_PEEK_OFF },
		      { SOL_SOCKET, SO_TIMESTAMP },  { IPPROTO_TCP, TCP_NODELAY },
		      { IPPROTO_TCP, TCP_CORK },     { IPPROTO_TCP, TCP_INQ } };

	for (unsigned i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		int value = 0;
		socklen_t size = sizeof(value);

		if (RESULT(call, getsockopt(call->fd, asked[i].level, asked[i].option, &value,
					    &size)) == 0)
			answer(call, " %d", value);
	}
}

const struct verb verbs_option[] = {
	{ "nonblock", call_nonblock },
	{ "flags", call_flags },
	{ "reset", call_reset },
	{ "patience", call_patience },
	{ "lowat", call_lowat },
	{ "error", call_error },
	{ "unread", call_unread },
	{ "unsent", call_unsent },
	{ "peer", call_peer },
	{ "mark", call_mark },
	{ "state", call_state },
	{ "in_line", call_in_line },
	{ "peek_at", call_peek_at },
	{ "told", call_told },
	{ "cloexec", call_cloexec },
	{ "options", call_options },
	{ NULL, NULL },
};
