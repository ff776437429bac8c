/*
 * The kernel's routing table says of every address whether a datagram to it would be delivered on
 * this node, to one socket. No list of interfaces is kept, so none is ever out of date.
 *
 * As with sock_diag the answer is there when send(2) has returned.
 */
#include "route.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

struct request {
	struct nlmsghdr header;
	struct rtmsg body;
	struct rtattr attribute;
	uint8_t address[16];
};

int psid_route_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

static int judge(const struct nlmsghdr *header)
{
	if (header->nlmsg_type == NLMSG_ERROR) {
		int e = ((const struct nlmsgerr *)NLMSG_DATA(header))->error;

		/* No route leads there, or it is one that refuses. */
		return e == -ENETUNREACH || e == -EHOSTUNREACH || e == -EACCES || e == -EINVAL ? 0
											       : e;
	}
	if (header->nlmsg_type != RTM_NEWROUTE ||
	    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
		return -EPROTO;
	return ((const struct rtmsg *)NLMSG_DATA(header))->rtm_type == RTN_LOCAL;
}

int psid_route_is_local(int route, const uint8_t address[16])
{
	static uint32_t sequence;
	bool ipv4 = memcmp(address, mapped_prefix, sizeof(mapped_prefix)) == 0;
	uint8_t length = ipv4 ? 4 : 16;
	struct request request = {
		.header = { .nlmsg_len = (uint32_t)(offsetof(struct request, address) + length),
			    .nlmsg_type = RTM_GETROUTE,
			    .nlmsg_flags = NLM_F_REQUEST,
			    .nlmsg_seq = ++sequence },
		.body = { .rtm_family = ipv4 ? AF_INET : AF_INET6,
			  .rtm_dst_len = (uint8_t)(length * 8) },
		.attribute = { .rta_len = (uint16_t)RTA_LENGTH(length), .rta_type = RTA_DST },
	};
	union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	ssize_t n;

	memcpy(request.address, address + (ipv4 ? 12 : 0), length);
	if (send(route, &request, request.header.nlmsg_len, MSG_DONTWAIT) < 0)
		return -errno;
	do {
		n = recv(route, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n < 0)
			return -errno;
	} while (!NLMSG_OK(&answer.header, (size_t)n) ||
		 answer.header.nlmsg_seq != request.header.nlmsg_seq);
	return judge(&answer.header);
}
