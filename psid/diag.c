/*
 * sock_diag looks a socket up by its tuple, compares its cookie, and tells its state, all without
 * the socket's lock: getsockname or TCP_INFO on the descriptor would take that lock, which the
 * process that has the socket can hold for as long as it likes. So no extension that needs it
 * (INET_DIAG_INFO) is asked for.
 *
 * That one answer proves the tuple (the lookup found it), the identity (the cookie fits) and the
 * life of the connection (the state). A socket bound to a device is found only by who asks for
 * that device; we ask for the loopback, to give the right reason in the likely case.
 *
 * The kernel tells the upper protocol (kTLS) only to CAP_NET_ADMIN, and only on recent kernels to
 * others; the library, which knows its own socket, doesn't ask us to upgrade such a one. Who lies
 * about it harms his own connection.
 *
 * UDP sockets have no tuple, but the kernel looks them up as it does for a datagram that arrives:
 * so the question is who would receive one, and the answer takes account of every socket that there
 * is.
 *
 * The request is answered within send(2), so the answer is there at once.
 */
#include "diag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"

#define INTERFACE_LOOPBACK 1u /* in every network namespace */

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

int psid_diag_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

	return fd < 0 ? -errno : fd;
}

static void set_addresses(struct inet_diag_sockid *id, const struct psid_tuple *tuple)
{
	bool ipv4 = psid_tuple_is_ipv4(tuple);

	memcpy(id->idiag_src, tuple->local + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
	memcpy(id->idiag_dst, tuple->remote + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
	id->idiag_sport = htons(tuple->local_port);
	id->idiag_dport = htons(tuple->remote_port);
}

static bool has_ulp(const struct nlmsghdr *header)
{
	const struct rtattr *a = (const void *)((const char *)NLMSG_DATA(header) +
						NLMSG_ALIGN(sizeof(struct inet_diag_msg)));
	int left = (int)(header->nlmsg_len - NLMSG_SPACE(sizeof(struct inet_diag_msg)));

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == INET_DIAG_ULP_INFO)
			return true;
	return false;
}

/* Returns 0; -ENOENT: there is no such socket; negative errno. */
static int read_answer(const struct nlmsghdr *header, struct psid_diag_socket *ret_socket)
{
	const struct inet_diag_msg *answer = NLMSG_DATA(header);

	if (header->nlmsg_type == NLMSG_ERROR) {
		int e = ((const struct nlmsgerr *)NLMSG_DATA(header))->error;

		return e == -ESTALE ? -ENOENT : e;
	}
	if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    header->nlmsg_len < NLMSG_LENGTH(sizeof(*answer)))
		return -EPROTO;
	*ret_socket = (struct psid_diag_socket){
		.state = answer->idiag_state,
		.uid = answer->idiag_uid,
		.inode = answer->idiag_inode,
		.interface = answer->id.idiag_if,
		.has_ulp = has_ulp(header),
	};
	return 0;
}

/* interface: that the socket is bound to, or a datagram comes by; 0: none. */
static int ask(int diag, uint8_t protocol, uint32_t interface, const struct psid_tuple *tuple,
	       uint64_t cookie, struct psid_diag_socket *ret_socket)
{
	static uint32_t sequence;
	struct request request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST,
			    .nlmsg_seq = ++sequence },
		.body = { .sdiag_family = psid_tuple_is_ipv4(tuple) ? AF_INET : AF_INET6,
			  .sdiag_protocol = protocol,
			  .idiag_states = ~0u,
			  .id.idiag_if = interface,
			  .id.idiag_cookie = { (uint32_t)cookie, (uint32_t)(cookie >> 32) } },
	};
	union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	ssize_t n;

	set_addresses(&request.body.id, tuple);
	if (send(diag, &request, sizeof(request), MSG_DONTWAIT) < 0)
		return -errno;
	do {
		n = recv(diag, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n < 0)
			return -errno;
	} while (!NLMSG_OK(&answer.header, (size_t)n) ||
		 answer.header.nlmsg_seq != request.header.nlmsg_seq);
	return read_answer(&answer.header, ret_socket);
}

int psid_diag_find(int diag, const struct psid_tuple *tuple, uint64_t cookie,
		   struct psid_diag_socket *ret_socket)
{
	int r = ask(diag, IPPROTO_TCP, 0, tuple, cookie, ret_socket);

	if (r == -ENOENT)
		r = ask(diag, IPPROTO_TCP, INTERFACE_LOOPBACK, tuple, cookie, ret_socket);
	return r;
}

int psid_diag_check(int diag, const struct psid_tuple *tuple, uint64_t cookie)
{
	struct psid_diag_socket s;
	int r = psid_diag_find(diag, tuple, cookie, &s);

	if (r < 0)
		return r == -ENOENT ? PULC__WIRE__REASON__REASON_STALE : r;
	if (s.state != TCP_ESTABLISHED && s.state != TCP_CLOSE_WAIT)
		return PULC__WIRE__REASON__REASON_STALE;
	if (s.interface != 0)
		return PULC__WIRE__REASON__REASON_DEVICE;
	return s.has_ulp ? PULC__WIRE__REASON__REASON_ULP : 0;
}

int psid_diag_find_receiver(int diag, const struct psid_tuple *tuple, uint64_t cookie,
			    struct psid_diag_socket *ret_socket)
{
	return ask(diag, IPPROTO_UDP, INTERFACE_LOOPBACK, tuple, cookie, ret_socket);
}

int psid_diag_receiver(int diag, const struct psid_tuple *tuple, uint64_t cookie)
{
	struct psid_diag_socket s;
	int r = psid_diag_find_receiver(diag, tuple, cookie, &s);

	if (r < 0)
		return r == -ENOENT ? PULC__WIRE__REASON__REASON_STALE : r;
	return s.interface != 0 ? PULC__WIRE__REASON__REASON_DEVICE : 0;
}
