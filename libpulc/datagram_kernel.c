/*
 * A UDP socket of the library's own, on the loopback address, to ask the kernel with:
 *
 *  - Has what this thread has sent arrived? Datagrams of the loopback device wait, if at all, in
 *    the backlog of the processor that sent them, and are worked off in order. So one of ours that
 *    has come back says that all before it have.
 *  - Does the kernel note arrivals yet? It begins to somewhat after the first socket asks for it.
 *  - Which source address would a datagram have? connect(2) of a UDP socket decides that and sends
 *    nothing. It also refuses broadcast addresses.
 *  - Is there still a socket at the other end? (By sock_diag, and a netlink socket.)
 *
 * Made when a process makes its first UDP socket; a forked child makes its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/in.h>

#include <pulc/fds.h>

#include "clock.h"
#include "datagram.h"
#include "macros.h"
#include "rawsys.h"

/* The largest datagram of IPv4, and what IPv6 takes of each packet. */
#define SIZE_MAX_IPV4 (65535u - 28u)
#define SIZE_HEADERS6 48u

/* Longer than the kernel leaves anything lying in a backlog unless the machine is overloaded. */
#define NSEC_SETTLE_MAX (2 * 1000 * NSEC_PER_USEC)
/* And a backlog is not older than this. */
#define NSEC_BACKLOG (5 * 1000 * NSEC_PER_USEC)

static OFTEN struct {
	int fd;
	int ask; /* for connect() */
	int ask6;
	int diag;
	bool wanted, noted;
	uint64_t n_sent;
} self = { .fd = -1, .ask = -1, .ask6 = -1, .diag = -1 };

static int make(int *home, int family)
{
	*home = (int)raw_syscall(SYS_socket, family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
				 0, 0, 0);
	return *home < 0 ? *home : pulc_fd_adopt(home);
}

/* Bound and connected to itself: nobody else can send to it. */
static int make_echo(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int e = make(&self.fd, AF_INET);

	if (e < 0)
		return e;
	e = (int)raw_syscall(SYS_bind, self.fd, &in, len, 0, 0, 0);
	if (e == 0)
		e = (int)raw_syscall(SYS_getsockname, self.fd, &in, &len, 0, 0, 0);
	if (e == 0)
		e = (int)raw_syscall(SYS_connect, self.fd, &in, len, 0, 0, 0);
	if (e < 0)
		pulc_fd_release(&self.fd);
	return e;
}

void datagram_kernel_prepare(void)
{
	self.wanted = true;
	if (self.fd < 0)
		(void)make_echo();
	if (self.ask < 0)
		(void)make(&self.ask, AF_INET);
	if (self.ask6 < 0)
		(void)make(&self.ask6, AF_INET6);
}

USUAL void datagram_kernel_forked(void)
{
	pulc_fd_release(&self.fd);
	pulc_fd_release(&self.ask);
	pulc_fd_release(&self.ask6);
	pulc_fd_release(&self.diag);
	self.noted = false;
	if (self.wanted)
		datagram_kernel_prepare();
}

/* ---- what has arrived ------------------------------------------------------------------------ */

/* Sends one and waits until it has come back, which it usually has at once. */
static bool echo(bool take)
{
	struct pollfd p = { .fd = self.fd, .events = POLLIN };
	uint64_t number, sent = ++self.n_sent, end = nsec_now() + NSEC_SETTLE_MAX;
	struct timespec left;
	ssize_t n;

	if (self.fd < 0 || raw_send(self.fd, &sent, sizeof(sent), MSG_DONTWAIT) < 0)
		return false;
	for (;;) {
		n = raw_recv(self.fd, &number, sizeof(number),
			     MSG_DONTWAIT | (take ? 0 : MSG_PEEK));
		if (n == sizeof(number) && number == sent)
			return true;
		if (n >= 0 && !take)
			(void)raw_recv(self.fd, &number, sizeof(number), MSG_DONTWAIT);
		if (n >= 0)
			continue;
		if (n != -EAGAIN || nsec_now() >= end)
			return false;
		left = timespec_from_nsec(NSEC_SETTLE_MAX);
		(void)raw_ppoll(&p, 1, &left);
	}
}

/* This thread's processor before the call, plus 1. */
static __thread uint32_t entering __attribute__((tls_model("initial-exec")));

void datagram_kernel_enters(void)
{
	entering = this_cpu() + 1;
}

void datagram_kernel_entered(struct udp_entry *entry)
{
	uint32_t cpu = this_cpu() + 1, last = atomic_exchange(&entry->cpu, cpu);

	if (UNLIKELY(cpu != entering) || UNLIKELY(last && last != cpu))
		atomic_store(&entry->nsec_moved, nsec_now());
}

/* Is what the socket has sent in this processor's backlog, or in none any more? */
static bool has_entered_here(const struct udp_entry *entry)
{
	uint32_t cpu = entry ? atomic_load(&entry->cpu) : 0;

	return cpu == 0 || (cpu == this_cpu() + 1 &&
			    nsec_now() - atomic_load(&entry->nsec_moved) >= NSEC_BACKLOG);
}

bool datagram_kernel_settle(const struct udp_entry *entry)
{
	bool settled;

	if (!client_lock())
		return false;
	settled = has_entered_here(entry) && echo(true) && has_entered_here(entry);
	client_unlock();
	return settled;
}

static uint64_t arrival(void)
{
	struct timespec ts;

	if (raw_ioctl(self.fd, SIOCGSTAMPNS, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

bool datagram_kernel_notes(void)
{
	uint64_t number, first;

	if (self.noted)
		return true;
	(void)arrival(); /* asks for it, the first time */
	if (!echo(false))
		return false;
	/* A datagram that has no time makes the kernel answer with the present one. */
	first = arrival();
	(void)raw_recv(self.fd, &number, sizeof(number), MSG_DONTWAIT | MSG_PEEK);
	self.noted = first != 0 && first == arrival();
	(void)raw_recv(self.fd, &number, sizeof(number), MSG_DONTWAIT);
	return self.noted;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_mapped(const uint8_t a[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a, prefix, sizeof(prefix)) == 0;
}

/* Connects the asking socket of this family; it keeps the route until it is asked again. Returns
 * it, or a negative errno. */
static int turn_to(const struct datagram_address *to)
{
	union {
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} addr = { .in4 = { .sin_family = AF_INET, .sin_port = htons(to->port) } };
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	bool ipv4 = is_mapped(to->bytes);
	int fd = ipv4 ? self.ask : self.ask6, e;

	if (fd < 0)
		return -EBADF;
	memcpy(&addr.in4.sin_addr, to->bytes + 12, 4);
	if (!ipv4) {
		addr.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						  .sin6_port = htons(to->port) };
		memcpy(&addr.in6.sin6_addr, to->bytes, 16);
	}
	/* Or else it would keep the address that it had. */
	(void)raw_syscall(SYS_connect, fd, &none, sizeof(none), 0, 0, 0);
	e = (int)raw_syscall(SYS_connect, fd, &addr, ipv4 ? sizeof(addr.in4) : sizeof(addr.in6), 0,
			     0, 0);
	return e < 0 ? e : fd;
}

int datagram_kernel_source(const struct datagram_address *to, uint8_t source[16])
{
	struct datagram_address own;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int fd = turn_to(to);

	if (fd < 0)
		return fd;
	if (raw_syscall(SYS_getsockname, fd, &ss, &len, 0, 0, 0) < 0 ||
	    !datagram_read_address((struct sockaddr *)&ss, len, &own))
		return -EADDRNOTAVAIL;
	memcpy(source, own.bytes, sizeof(own.bytes));
	return 0;
}

uint32_t datagram_kernel_mtu(const struct datagram_address *to)
{
	bool ipv4 = is_mapped(to->bytes);
	int fd = turn_to(to), mtu = 0;
	socklen_t len = sizeof(mtu);

	if (fd < 0 || raw_getsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU,
				     &mtu, &len) < 0)
		return 0;
	return mtu > 0 ? (uint32_t)mtu : 0;
}

/* ---- who is there ---------------------------------------------------------------------------- */

struct question {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

static void put_address(const struct datagram_address *from, bool ipv4, __be32 to[4], __be16 *port)
{
	memcpy(to, from->bytes + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
	*port = htons(from->port);
}

static int open_diag(void)
{
	if (self.diag >= 0)
		return 0;
	self.diag = (int)raw_syscall(SYS_socket, AF_NETLINK,
				     SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG,
				     0, 0, 0);
	return self.diag < 0 ? self.diag : pulc_fd_adopt(&self.diag);
}

static bool has_receiver(const struct datagram_address *from, const struct datagram_address *to)
{
	bool ipv4 = is_mapped(to->bytes);
	struct question q = {
		.header = { .nlmsg_len = sizeof(q),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST,
			    .nlmsg_seq = (uint32_t)++self.n_sent },
		.body = { .sdiag_family = ipv4 ? AF_INET : AF_INET6,
			  .sdiag_protocol = IPPROTO_UDP,
			  .idiag_states = ~0u,
			  .id.idiag_if = 1, /* the loopback's */
			  .id.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
	};
	union {
		struct nlmsghdr header;
		char bytes[1024];
	} answer;
	ssize_t n;

	if (open_diag() < 0)
		return true;
	put_address(from, ipv4, q.body.id.idiag_src, &q.body.id.idiag_sport);
	put_address(to, ipv4, q.body.id.idiag_dst, &q.body.id.idiag_dport);
	if (raw_send(self.diag, &q, sizeof(q), MSG_DONTWAIT) < 0)
		return true;
	/* The answer is there when the question has been asked. */
	while ((n = raw_recv(self.diag, &answer, sizeof(answer), MSG_DONTWAIT)) > 0)
		if (NLMSG_OK(&answer.header, (size_t)n) &&
		    answer.header.nlmsg_seq == q.header.nlmsg_seq)
			return answer.header.nlmsg_type != NLMSG_ERROR ||
			       ((struct nlmsgerr *)NLMSG_DATA(&answer.header))->error != -ENOENT;
	return true;
}

bool datagram_kernel_has_receiver(const struct datagram_address *from,
				  const struct datagram_address *to)
{
	bool has = true;

	if (client_lock()) {
		has = has_receiver(from, to);
		client_unlock();
	}
	return has;
}

uint32_t datagram_kernel_size_max(const struct flow *f)
{
	uint32_t mtu = datagram_kernel_mtu(&f->peer);

	return mtu > SIZE_HEADERS6 ? MIN(mtu - SIZE_HEADERS6, (uint32_t)SIZE_MAX_IPV4) : 0;
}
