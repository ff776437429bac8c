/*
 * What a process can tell psid of a connected TCP socket: its two addresses, its cookies, and why
 * it has to stay on the kernel, as far as this side knows. Four system calls, and one datagram
 * without a descriptor.
 *
 * Addresses go as IPv6, v4-mapped where need be: an end that connected by IPv4 to an IPv6 socket
 * has the same pair as its peer.
 */
#include "hint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "local_addresses.h"
#include "rawsys.h"
#include "slabs.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static bool normalise(const struct sockaddr_storage *ss, uint8_t addr[16], uint16_t *port)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;

	if (ss->ss_family == AF_INET) {
		memset(addr, 0, 10);
		memset(addr + 10, 0xff, 2);
		memcpy(addr + 12, &in4->sin_addr, 4);
		*port = ntohs(in4->sin_port);
		return true;
	}
	if (ss->ss_family == AF_INET6) {
		memcpy(addr, &in6->sin6_addr, 16);
		*port = ntohs(in6->sin6_port);
		return true;
	}
	return false;
}

bool hint_ends(int fd, struct hint_ends *ends)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (raw_syscall(SYS_getsockname, fd, &ss, &len, 0, 0, 0) < 0 ||
	    !normalise(&ss, ends->local, &ends->local_port))
		return false;
	len = sizeof(ss);
	return raw_syscall(SYS_getpeername, fd, &ss, &len, 0, 0, 0) >= 0 &&
	       normalise(&ss, ends->remote, &ends->remote_port);
}

Pulc__Wire__Reason hint_obstacle(struct pulc_stream *s, int fd, const struct hint_ends *ends)
{
	char ulp[16] = "";
	socklen_t len = sizeof(ulp);

	if (!is_local_address(ends->remote, ends->local))
		return PULC__WIRE__REASON__REASON_REMOTE;
	if (!nursery_alone(s->nursery))
		return PULC__WIRE__REASON__REASON_SHARED;
	if (raw_getsockopt(fd, IPPROTO_TCP, TCP_ULP, ulp, &len) == 0 && len > 0 && ulp[0])
		return PULC__WIRE__REASON__REASON_ULP;
	if (!slabs_have_room())
		return PULC__WIRE__REASON__REASON_NO_MEMORY;
	return PULC__WIRE__REASON__REASON_NONE;
}

void hint_tuple(const struct hint_ends *ends, Pulc__Wire__Tuple *ret_tuple)
{
	pulc__wire__tuple__init(ret_tuple);
	ret_tuple->local_addr = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)ends->local };
	ret_tuple->remote_addr = (ProtobufCBinaryData){ .len = 16,
							.data = (uint8_t *)ends->remote };
	ret_tuple->local_port = ends->local_port;
	ret_tuple->remote_port = ends->remote_port;
}

int hint_send(struct pulc_stream *s, int fd, const struct hint_ends *ends,
	      Pulc__Wire__Reason reason)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Hint hint = PULC__WIRE__HINT__INIT;
	Pulc__Wire__Tuple tuple;
	socklen_t len = sizeof(uint64_t);

	hint_tuple(ends, &tuple);
	(void)raw_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &hint.cookie, &len);
	(void)raw_getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &hint.netns_cookie, &len);
	s->cookie = hint.cookie;
	s->ends = *ends;
	hint.token = s->token;
	hint.tuple = &tuple;
	hint.connector = s->role == PULC_CONNECTED;
	hint.reason = reason;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HINT;
	msg.hint = &hint;
	return client_send(&msg, NULL, 0);
}
