/*
 * Forms of sending and receiving, and options, that few programs use.
 */
#include "call.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static __thread char buffer[SIZE_CALL_MAX];

/* ---- sending --------------------------------------------------------------------------------- */

/* parts slot size: with empty ones before, between and behind */
static void call_parts(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[] = { { NULL, 0 },
				  { buffer, n / 2 },
				  { buffer, 0 },
				  { NULL, 0 },
				  { buffer + n / 2, n - n / 2 },
				  { NULL, 0 } };

	fill_step(call, buffer, n);
	RESULT(call, writev(call->fd, vector, sizeof(vector) / sizeof(vector[0])));
}

static long send_message(struct call *call, struct iovec *vector, size_t n, void *control,
			 size_t size)
{
	struct msghdr msg = {
		.msg_iov = vector, .msg_iovlen = n, .msg_control = control, .msg_controllen = size
	};

	return RESULT(call, sendmsg(call->fd, &msg, MSG_NOSIGNAL));
}

/* nothing slot: a message of no parts at all */
static void call_nothing(struct call *call)
{
	(void)send_message(call, NULL, 0, NULL, 0);
}

/* The header of a message with room for what may stand behind it. */
union room {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr header;
};

/* enclosed slot size N: with something besides that a socket of this kind knows, or not */
static void call_enclosed(struct call *call)
{
	static const struct {
		int level, type, value;
		size_t size;
	} known[] = { { SOL_SOCKET, SCM_RIGHTS, STDIN_FILENO, sizeof(int) },
		      { IPPROTO_IP, IP_TTL, 7, sizeof(int) },
		      { IPPROTO_IPV6, IPV6_HOPLIMIT, 7, sizeof(int) },
		      { SOL_SOCKET, 77, 1, sizeof(int) },
		      { IPPROTO_TCP, 77, 1, sizeof(int) },
		      { IPPROTO_UDP, UDP_SEGMENT, 100, sizeof(uint16_t) } };
	unsigned i = (unsigned)number_of(call->words[3]) % (sizeof(known) / sizeof(known[0]));
	size_t n = size_word(call, 2);
	struct iovec vector = { buffer, n };
	union room room = { 0 };

	fill_step(call, buffer, n);
	room.header = (struct cmsghdr){ CMSG_LEN(known[i].size), known[i].level, known[i].type };
	memcpy(CMSG_DATA(&room.header), &known[i].value, known[i].size);
	(void)send_message(call, &vector, 1, &room, CMSG_SPACE(known[i].size));
}

/* named slot size ADDRESS: of a stream the name is overlooked */
static void call_named(struct call *call)
{
	const struct address *to = address_of_word(call, call->words[3]);
	size_t n = size_word(call, 2);

	fill_step(call, buffer, n);
	RESULT(call, sendto(call->fd, buffer, n, MSG_NOSIGNAL,
			    (const struct sockaddr *)&to->storage, to->size));
}

/* misnamed slot size N: a name that is too short, of no family, or too long */
static void call_misnamed(struct call *call)
{
	struct sockaddr_storage name = { .ss_family = AF_INET };
	size_t n = size_word(call, 2);
	long kind = number_of(call->words[3]);

	if (kind == 1)
		name.ss_family = 77;
	fill_step(call, buffer, n);
	RESULT(call, sendto(call->fd, buffer, n, MSG_NOSIGNAL, (struct sockaddr *)&name,
			    kind == 0	? 3
			    : kind == 1 ? sizeof(struct sockaddr_in)
					: 1000));
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void show(struct call *call, long got, size_t n)
{
	if (got > 0)
		answer_bytes(call, buffer, (size_t)got < n ? (size_t)got : n);
}

/* clipped slot size: with room for a part of the sender's name only */
static void call_clipped(struct call *call)
{
	struct sockaddr_storage from = { 0 };
	socklen_t size = sizeof(from.ss_family);
	size_t n = size_word(call, 2);
	long got = RESULT(
		call, recvfrom(call->fd, buffer, n, MSG_DONTWAIT, (struct sockaddr *)&from, &size));

	show(call, got, n);
	if (got >= 0)
		answer(call, ", %u of %u bytes", from.ss_family, size);
}

/* timed slot size N: recvmmsg with a limit that is over at once, or is none */
static void call_timed(struct call *call)
{
	struct timespec limits[] = { { 0 }, { .tv_nsec = -1 }, { .tv_sec = -1 }, { .tv_sec = 1 } };
	struct timespec *limit = &limits[number_of(call->words[3]) % 4];
	size_t n = size_word(call, 2) / 4;
	struct iovec vector[4];
	struct mmsghdr msgs[4] = { 0 };
	long got;

	for (unsigned i = 0; i < 4; i++) {
		vector[i] = (struct iovec){ buffer + i * n, n };
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &vector[i], .msg_iovlen = 1 };
	}
	got = RESULT(call, recvmmsg(call->fd, msgs, 4, MSG_DONTWAIT, limit));
	for (long i = 0; i < got; i++) {
		answer(call, ", %u", msgs[i].msg_len);
		answer_bytes(call, vector[i].iov_base, msgs[i].msg_len < n ? msgs[i].msg_len : n);
	}
}

/* into slot size N: parts of which some are empty; or none */
static void call_into(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[] = {
		{ NULL, 0 }, { buffer, n / 2 }, { NULL, 0 }, { buffer + n / 2, n - n / 2 }
	};
	struct msghdr msg = { .msg_iov = vector, .msg_iovlen = number_of(call->words[3]) ? 4 : 0 };

	show(call, RESULT(call, recvmsg(call->fd, &msg, MSG_DONTWAIT)), n);
	answer_bits(call, WORDS_MSG, (unsigned)msg.msg_flags);
}

/* relay slot size SLOT: by splice, out of the one and into the other */
static void call_relay(struct call *call)
{
	size_t n = size_word(call, 2);
	int ends[2];
	long got;

	if (pipe(ends) < 0)
		return;
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	got = recv(call->fd, buffer, 1, MSG_PEEK | MSG_DONTWAIT);
	answer_result(call, got);
	if (got > 0 && n > 0 && RESULT(call, splice(call->fd, NULL, ends[1], NULL, n, 0)) > 0)
		RESULT(call, splice(ends[0], NULL, fd_of(call, call->words[3]), NULL, n, 0));
	close(ends[0]);
	close(ends[1]);
}

/* ---- options --------------------------------------------------------------------------------- */

/* own slot: getsockname */
static void call_own(struct call *call)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);

	if (RESULT(call, getsockname(call->fd, (struct sockaddr *)&address, &size)) == 0)
		answer_address(call, &address, size);
}

/* same slot slot: whether both are one socket */
static void call_same(struct call *call)
{
	uint64_t cookies[2] = { 1, 2 };

	for (unsigned i = 0; i < 2; i++) {
		socklen_t size = sizeof(cookies[i]);

		RESULT(call, getsockopt(fd_of(call, call->words[1 + i]), SOL_SOCKET, SO_COOKIE,
					&cookies[i], &size));
	}
	answer(call, cookies[0] == cookies[1] ? ", same" : ", two");
}

/* linger slot seconds */
static void call_linger(struct call *call)
{
	struct linger linger = { .l_onoff = 1, .l_linger = (int)number_of(call->words[2]) };

	RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
}

static const struct option {
	int level, name, value;
} options[] = {
	{ SOL_SOCKET, SO_KEEPALIVE, 1 },      { SOL_SOCKET, SO_REUSEADDR, 1 },
	{ SOL_SOCKET, SO_PRIORITY, 3 },	      { SOL_SOCKET, SO_PROTOCOL, 1 },
	{ SOL_SOCKET, SO_DONTROUTE, 0 },      { SOL_SOCKET, SO_BROADCAST, 1 },
	{ SOL_SOCKET, SO_TIMESTAMPNS, 0 },    { SOL_SOCKET, SO_BUSY_POLL, 0 },
	{ IPPROTO_IP, IP_TOS, 16 },	      { IPPROTO_IP, IP_TTL, 64 },
	{ IPPROTO_IP, IP_RECVTOS, 0 },	      { IPPROTO_IP, IP_RECVORIGDSTADDR, 0 },
	{ IPPROTO_IPV6, IPV6_V6ONLY, 1 },     { IPPROTO_TCP, TCP_USER_TIMEOUT, 100000 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 100 },   { IPPROTO_TCP, TCP_KEEPINTVL, 100 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 5 },      { IPPROTO_TCP, TCP_SYNCNT, 5 },
	{ IPPROTO_TCP, TCP_LINGER2, 5 },      { IPPROTO_TCP, TCP_NOTSENT_LOWAT, 10000000 },
	{ IPPROTO_TCP, TCP_DEFER_ACCEPT, 0 }, { IPPROTO_UDP, UDP_CORK, 0 },
	{ IPPROTO_UDP, UDP_GRO, 0 },	      { IPPROTO_UDP, UDP_SEGMENT, 0 },
};

static const struct option *option_word(const struct call *call)
{
	return &options[(unsigned long)number_of(call->words[2]) %
			(sizeof(options) / sizeof(options[0]))];
}

/* option slot N: into more room than it takes, and into less */
static void call_option(struct call *call)
{
	const struct option *o = option_word(call);

	for (socklen_t room = sizeof(int); room <= 2 * sizeof(int); room += sizeof(int)) {
		int value[2] = { 0 };
		socklen_t size = room == sizeof(int) ? sizeof(int) : 1;

		if (RESULT(call, getsockopt(call->fd, o->level, o->name, value, &size)) == 0)
			answer(call, " %d of %u", value[0], size);
	}
}

/* choose slot N 0 or 1: the value that the table has, or one that is too short */
static void call_choose(struct call *call)
{
	const struct option *o = option_word(call);
	socklen_t size = number_of(call->words[3]) ? sizeof(o->value) : 2;

	RESULT(call, setsockopt(call->fd, o->level, o->name, &o->value, size));
}

/* misuse slot N: what is refused, and leaves no trace */
static void call_misuse(struct call *call)
{
	struct timeval none = { .tv_usec = 2000000 };
	char small[1] = "";
	socklen_t size = 0;

	switch (number_of(call->words[2])) {
	case 0:
		RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)));
		break;
	case 1:
		RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_LINGER, small, sizeof(small)));
		break;
	case 2:
		RESULT(call, getsockopt(call->fd, SOL_SOCKET, SO_ERROR, small, &size));
		break;
	case 3:
		RESULT(call, shutdown(call->fd, 77));
		break;
	case 4:
		RESULT(call, accept4(call->fd, NULL, NULL, 1));
		break;
	case 5:
		RESULT(call, bind(call->fd, (struct sockaddr *)small, 1));
		break;
	case 6:
		RESULT(call, connect(call->fd, (struct sockaddr *)small, 1));
		break;
	case 7:
		RESULT(call, setsockopt(call->fd, IPPROTO_TCP, TCP_CONGESTION, "none", 4));
		break;
	case 8:
		RESULT(call, getsockopt(call->fd, SOL_SOCKET, 77777, small, &size));
		break;
	default:
		RESULT(call, setsockopt(call->fd, SOL_SOCKET, SO_RCVLOWAT, small, sizeof(small)));
		break;
	}
}

const struct verb verbs_rare[] = {
	{ "parts", call_parts },       { "nothing", call_nothing },
	{ "enclosed", call_enclosed }, { "named", call_named },
	{ "misnamed", call_misnamed }, { "clipped", call_clipped },
	{ "timed", call_timed },       { "into", call_into },
	{ "relay", call_relay },       { "own", call_own },
	{ "same", call_same },	       { "linger", call_linger },
	{ "option", call_option },     { "choose", call_choose },
	{ "misuse", call_misuse },     { NULL, NULL },
};
