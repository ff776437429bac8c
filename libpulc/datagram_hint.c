/*
 * What a process can tell psid of a flow of datagrams, and how it proves that a socket is its own:
 * by sending from it, a number that only psid knows, to a port that only psid listens on. Tokens
 * are the names under which this process's flows are known to psid; connections have others.
 */
#include "datagram_hint.h"

#include <netinet/in.h>

#include "local_addresses.h"
#include "macros.h"
#include "rawsys.h"
#include "slabs.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define N_BUCKETS 1024u
static LARGE struct flow *by_token[N_BUCKETS];

/* ---- tokens ---------------------------------------------------------------------------------- */

static struct flow **bucket_of(uint64_t token)
{
	return &by_token[token % N_BUCKETS];
}

struct flow *flow_find(uint64_t token)
{
	struct flow *f = *bucket_of(token);

	while (f && f->token != token)
		f = f->hash_next;
	return f;
}

void flow_register(struct flow *f)
{
	static uint64_t last;

	f->token = TOKEN_FLOW | ++last;
	f->hash_next = *bucket_of(f->token);
	*bucket_of(f->token) = f;
}

void flow_unregister(struct flow *f)
{
	struct flow **p = bucket_of(f->token);

	while (f->token && *p && *p != f)
		p = &(*p)->hash_next;
	if (f->token && *p)
		*p = f->hash_next;
	f->token = 0;
}

/* ---- hints ----------------------------------------------------------------------------------- */

static int option(int fd, int name)
{
	socklen_t len = sizeof(int);
	int value = 0;

	return raw_getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? 0 : value;
}

uint64_t flow_cookie(int fd, int name)
{
	socklen_t len = sizeof(uint64_t);
	uint64_t value = 0;

	(void)raw_getsockopt(fd, SOL_SOCKET, name, &value, &len);
	return value;
}

/* The socket's own address as the kernel knows it; wildcards as 16 zeroes. */
static bool own_address(int fd, struct datagram_address *ret)
{
	static const uint8_t any4[16] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (raw_syscall(SYS_getsockname, fd, &ss, &len, 0, 0, 0) < 0)
		return false;
	(void)datagram_read_address((struct sockaddr *)&ss, len, ret);
	if (memcmp(ret->bytes, any4, sizeof(any4)) == 0)
		memset(ret->bytes, 0, sizeof(ret->bytes));
	return ret->port != 0;
}

static bool is_any(const struct datagram_address *a)
{
	static const uint8_t any[16];

	return memcmp(a->bytes, any, sizeof(any)) == 0;
}

bool flow_local(const struct flow *f, int fd, struct datagram_address *ret)
{
	if (!own_address(fd, ret))
		return false;
	return !f->sends || !is_any(ret) || datagram_kernel_source(&f->peer, ret->bytes) == 0;
}

Pulc__Wire__Reason flow_obstacle(const struct flow *f, int fd, const struct datagram_address *local)
{
	const struct datagram *d = f->stream->datagram;

	if (d->over_for_good)
		return (Pulc__Wire__Reason)d->reason;
	if (!is_local_address(f->peer.bytes, local->bytes))
		return PULC__WIRE__REASON__REASON_REMOTE;
	if (!nursery_alone(f->stream->nursery))
		return PULC__WIRE__REASON__REASON_SHARED;
	if (!f->sends && (option(fd, SO_REUSEPORT) || (option(fd, SO_REUSEADDR) && !d->connected)))
		return PULC__WIRE__REASON__REASON_REUSE;
	if (!slabs_have_room())
		return PULC__WIRE__REASON__REASON_NO_MEMORY;
	return PULC__WIRE__REASON__REASON_NONE;
}

int flow_hint(struct flow *f, int fd, const struct datagram_address *local,
	      Pulc__Wire__Reason reason)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Hint hint = PULC__WIRE__HINT__INIT;
	Pulc__Wire__Tuple tuple = PULC__WIRE__TUPLE__INIT;

	tuple.local_addr = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)local->bytes };
	tuple.remote_addr = (ProtobufCBinaryData){ .len = 16, .data = f->peer.bytes };
	tuple.local_port = local->port;
	tuple.remote_port = f->peer.port;
	hint.cookie = flow_cookie(fd, SO_COOKIE);
	hint.netns_cookie = flow_cookie(fd, SO_NETNS_COOKIE);
	hint.token = f->token;
	hint.tuple = &tuple;
	hint.transport = f->sends ? PULC__WIRE__TRANSPORT__TRANSPORT_UDP_SENDER
				  : PULC__WIRE__TRANSPORT__TRANSPORT_UDP_RECEIVER;
	hint.reason = reason;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HINT;
	msg.hint = &hint;
	return client_send(&msg, NULL, 0);
}

/* ---- proof ----------------------------------------------------------------------------------- */

/* Then a send of ours would be told it instead of the program. */
static bool has_error(int fd)
{
	struct pollfd p = { .fd = fd };
	struct timespec now = { 0, 0 };

	return raw_ppoll(&p, 1, &now) != 0;
}

void flow_prove(struct flow *f, const Pulc__Wire__Prove *m)
{
	union {
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} to = { .in4 = { .sin_family = AF_INET } };
	bool ipv4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)f->peer.bytes);
	socklen_t len = sizeof(to.in4);
	int fd = f->stream->fd;

	if (atomic_load(&f->state) != FLOW_HINTED || f->stream->datagram->over_for_good ||
	    !nursery_alone(f->stream->nursery) || flow_cookie(fd, SO_COOKIE) != f->stream->cookie ||
	    has_error(fd))
		return;
	if (f->stream->datagram->family == AF_INET) {
		to.in4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	} else {
		len = sizeof(to.in6);
		to.in6.sin6_family = AF_INET6;
		to.in6.sin6_addr = in6addr_loopback;
		if (ipv4)
			to.in6.sin6_addr.s6_addr32[0] = to.in6.sin6_addr.s6_addr32[1] = 0,
			to.in6.sin6_addr.s6_addr32[2] = htonl(0xffff),
			to.in6.sin6_addr.s6_addr32[3] = htonl(INADDR_LOOPBACK);
	}
	to.in4.sin_port = htons((uint16_t)m->port);
	(void)raw_syscall(SYS_sendto, fd, m->nonce.data, m->nonce.len, MSG_DONTWAIT | MSG_NOSIGNAL,
			  &to, len);
}
