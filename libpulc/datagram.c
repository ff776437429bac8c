/*
 * UDP sockets: their life, their options, and the handler.
 *
 * A UDP socket stays a kernel socket; flows are added to it where both ends prove to the kernel and
 * to psid that nothing would be different (datagram_flow.c). A sender's flow changes nothing but
 * the way of its datagrams, and who tells a connected socket that its peer is gone. The first such
 * flow, or the first that a socket receives from, makes it an attached stream: from then on what it
 * receives is merged by the udp protocol.
 *
 * Options decide what the kernel does with a datagram. Those that are known to make no difference
 * to one from this node are listed; after any other the socket stays with the kernel. The same goes
 * for what is not understood in a call.
 *
 * What a forked child shares with its parent is in the areas of the flows. What only the kernel
 * knows of a shared socket (O_NONBLOCK, time-outs, what is in its queue) is asked anew for each
 * call; new flows are not made until nobody else has the socket.
 */
#include "datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "macros.h"
#include "pool.h"
#include "rawsys.h"
#include "upgrade.h"

#define NSEC_SHARED (200 * 1000 * NSEC_PER_USEC)

static struct pool datagrams = POOL_INIT(sizeof(struct datagram));

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_odd4(const uint8_t a[4])
{
	return a[0] == 0 || a[0] >= 224 || (a[0] == 169 && a[1] == 254);
}

static bool is_odd6(const uint8_t a[16])
{
	static const uint8_t any[16];

	return a[0] == 0xff || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) ||
	       memcmp(a, any, sizeof(any)) == 0;
}

bool datagram_read_address(const struct sockaddr *addr, socklen_t len, struct datagram_address *ret)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	*ret = (struct datagram_address){ .port = 0 };
	if (len >= sizeof(*in4) && addr->sa_family == AF_INET) {
		memset(ret->bytes + 10, 0xff, 2);
		memcpy(ret->bytes + 12, &in4->sin_addr, 4);
		ret->port = ntohs(in4->sin_port);
	} else if (len >= sizeof(*in6) && addr->sa_family == AF_INET6) {
		memcpy(ret->bytes, &in6->sin6_addr, 16);
		ret->port = ntohs(in6->sin6_port);
	} else {
		return false;
	}
	if (ret->port == 0)
		return false;
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ret->bytes) ? !is_odd4(ret->bytes + 12)
									 : !is_odd6(ret->bytes);
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool take_credit(uint64_t size)
{
	return client_credit_take(size) == TCP_CREDIT_GRANTED;
}

PULC_EXPORT int pulc_stream_new_datagram(int fd, int family, pulc_stream **ret_stream)
{
	struct datagram *d = NULL;
	pulc_stream *s;

	udp_take_credit = take_credit;
	udp_settle_kernel = datagram_kernel_settle;
	s = stream_alloc(fd, &datagram_handler);
	if (!s || !client_lock())
		return -ENOMEM;
	datagram_kernel_prepare();
	d = pool_get(&datagrams);
	client_unlock();
	if (!d) {
		(void)pulc_stream_unref(s);
		return -ENOMEM;
	}
	memset(d, 0, sizeof(*d));
	d->family = family;
	s->datagram = d;
	datagram_forget_refusal(s);
	*ret_stream = s;
	return 0;
}

static void release(pulc_stream *s)
{
	if (!s->datagram)
		return;
	datagram_flows_release(s);
	pool_put(&datagrams, s->datagram);
	s->datagram = NULL;
}

static void closing(pulc_stream *s, int fd)
{
	(void)fd;
	datagram_flows_closing(s);
}

bool datagram_is_shared_still(pulc_stream *s)
{
	struct datagram *d = s->datagram;
	uint64_t now = nsec_now();
	_Atomic uint8_t *refused;

	if (now < d->nsec_shared)
		return true;
	d->nsec_shared = now + NSEC_SHARED;
	if (!nursery_alone(s->nursery))
		return true;
	atomic_store(&d->rx.shared, false);
	refused = nursery_refused(s->nursery);
	if (refused && atomic_load(refused))
		atomic_store(&d->loss, LOSS_REFUSED);
	return false;
}

void datagram_forking(pulc_stream *s)
{
	struct datagram *d = s->datagram;

	for (struct flow *f = d ? d->flows : NULL; f; f = f->next) {
		f->forked = atomic_load(&f->state) == FLOW_ATTACHED && !f->left;
		if (f->forked)
			shm_add_holder(&f->queue.ring);
	}
	if (!d)
		return;
	d->nsec_shared = nsec_now() + NSEC_SHARED;
	atomic_store(&d->rx.shared, true);
}

void datagram_fork_failed(pulc_stream *s)
{
	for (struct flow *f = s->datagram ? s->datagram->flows : NULL; f; f = f->next)
		if (f->forked && atomic_load(&f->state) == FLOW_ATTACHED && !f->left)
			(void)shm_drop_holder(&f->queue.ring);
}

static void forked(pulc_stream *s)
{
	struct datagram *d = s->datagram;

	/* Also of one that another thread of the parent was making. */
	s->nursery = nursery_inherit(s->nursery);
	if (!d)
		return;
	if (!s->nursery)
		datagram_forget_refusal(s);
	atomic_store(&d->n_inside, 0);
	atomic_store(&d->n_native_receives, 0);
	atomic_store(&d->meeting, false);
	for (unsigned i = 0; i < SHM_N_WATCHES; i++)
		atomic_store(&d->watches[i], 0);
	datagram_flows_begin_anew(s);
}

/* psid takes one who ends without a word for one that is still counted. False: nobody else has
 * it. */
static bool leave_flow(struct flow *f, bool for_good)
{
	if (for_good && datagram_is_only_holder(f))
		return false;
	upgrade_flow_leaving(f->own_slab, f->own_slot);
	f->left = for_good ? shm_drop_holder(&f->queue.ring)
			   : shm_drop_holder_for_now(&f->queue.ring, exec_guard(f->own_slab));
	if (f->left)
		upgrade_flow_left(f->own_slab, f->own_slot, f->conn);
	else
		upgrade_flow_stays(f->own_slab, f->own_slot);
	return f->left;
}

void datagram_leave_flows(pulc_stream *s, bool for_good)
{
	for (struct flow *f = s->datagram->flows; f; f = f->next) {
		if (atomic_load(&f->state) != FLOW_ATTACHED || f->left || leave_flow(f, for_good) ||
		    !for_good)
			continue;
		datagram_close_queue(f);
		f->left = true;
	}
}

void datagram_stay_flows(pulc_stream *s)
{
	bool any = false;

	for (struct flow *f = s->datagram->flows; f; f = f->next) {
		if (f->left)
			shm_add_holder(&f->queue.ring);
		any |= f->left;
		f->left = false;
	}
	if (any)
		upgrade_adopt();
}

static void psid_lost(pulc_stream *s)
{
	if (s->datagram)
		datagram_flows_begin_anew(s);
}

static void adopt(pulc_stream *s, void (*tell)(uint64_t conn))
{
	for (struct flow *f = s->datagram ? s->datagram->flows : NULL; f; f = f->next)
		if (atomic_load(&f->state) == FLOW_ATTACHED)
			tell(f->conn);
}

/* ---- on the kernel --------------------------------------------------------------------------- */

static void keep_on_kernel(pulc_stream *s, int fd, enum pulc_reason reason)
{
	int state = atomic_load(&s->state);

	(void)fd;
	if (s->datagram->over_for_good)
		return;
	s->datagram->reason = reason;
	s->datagram->over_for_good = true;
	while (state < STREAM_ATTACHED &&
	       !atomic_compare_exchange_weak(&s->state, &state, STREAM_NEVER))
		;
	/* Who else gets the socket shall find all that was sent to it. */
	datagram_stop_all(s, reason == PULC_REASON_SHARED || reason == PULC_REASON_STDIO);
}

static void send_end(pulc_stream *s, int fd, ssize_t n)
{
	struct datagram *d = s->datagram;

	if (n < 0)
		return;
	datagram_kernel_entered(&d->entry);
	atomic_store_explicit(&d->writable, false, memory_order_relaxed);
	if (!d->connected)
		return;
	udp_note_kernel_send(d->peer.port);
	/* Its error, if it is refused, comes before what waits in queues. */
	atomic_store(&d->rx.first_in_kernel, UDP_UNKNOWN);
	datagram_met(s, fd, true, &d->peer);
}

/* Its order with what waits in queues is settled at its end, as a datagram's that was sent there at
 * once. */
static int send_begin(pulc_stream *s, int fd)
{
	(void)s;
	(void)fd;
	return 0;
}

static void count_down(_Atomic uint32_t *count)
{
	uint32_t n = atomic_load_explicit(count, memory_order_relaxed);

	while (n && !atomic_compare_exchange_weak(count, &n, n - 1))
		;
}

static void recv_end(pulc_stream *s, int fd, ssize_t n)
{
	struct datagram *d = s->datagram;

	count_down(&d->n_native_receives);
	if (n >= 0 && d->connected)
		datagram_met(s, fd, false, &d->peer);
	else
		datagram_step(s, fd);
}

static int kernel_enter(pulc_stream *s, unsigned events)
{
	struct datagram *d = s->datagram;

	if (!(events & POLLIN))
		return 0;
	(void)atomic_fetch_add(&d->n_native_receives, 1);
	if (atomic_load(&s->state) != STREAM_ATTACHED)
		return 0;
	count_down(&d->n_native_receives);
	return -EALREADY;
}

static void kernel_leave(pulc_stream *s, unsigned events)
{
	if (events & POLLIN)
		count_down(&s->datagram->n_native_receives);
}

static void met(pulc_stream *s, int fd, unsigned event, const struct sockaddr *addr, socklen_t len)
{
	struct datagram_address peer;
	bool sends = event == POLLOUT, single = datagram_read_address(addr, len, &peer);

	/* A group's port may be a flow's as well. */
	if (sends && peer.port)
		udp_note_kernel_send(peer.port);
	if (!single)
		return;
	/* A connected socket's own peer was counted by the end of the call. */
	if (!s->datagram->connected || !datagram_same(&peer, &s->datagram->peer))
		datagram_met(s, fd, sends, &peer);
}

static bool connected(pulc_stream *s, int fd)
{
	struct datagram *d = s->datagram;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	datagram_stop_all(s, false);
	d->connected = raw_syscall(SYS_getpeername, fd, &ss, &len, 0, 0, 0) >= 0;
	atomic_store(&d->rx.connected, d->connected);
	if (d->connected && !datagram_read_address((struct sockaddr *)&ss, len, &d->peer))
		keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
	return false;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Options that make no difference to a datagram of this node, or none that a receiver could see. */
static const struct {
	int level, option;
} harmless[] = {
	{ SOL_SOCKET, SO_REUSEADDR }, /* asked when a flow is hinted */
	{ SOL_SOCKET, SO_REUSEPORT },
	{ SOL_SOCKET, SO_SNDBUF },
	{ SOL_SOCKET, SO_RCVBUF },
	{ SOL_SOCKET, SO_SNDBUFFORCE },
	{ SOL_SOCKET, SO_RCVBUFFORCE },
	{ SOL_SOCKET, SO_RCVTIMEO_OLD },
	{ SOL_SOCKET, SO_RCVTIMEO_NEW },
	{ SOL_SOCKET, SO_SNDTIMEO_OLD },
	{ SOL_SOCKET, SO_SNDTIMEO_NEW },
	{ SOL_SOCKET, SO_BROADCAST },
	{ SOL_SOCKET, SO_PRIORITY },
	{ SOL_SOCKET, SO_LINGER },
	{ SOL_SOCKET, SO_KEEPALIVE },
	{ SOL_SOCKET, SO_RCVLOWAT },
	{ SOL_SOCKET, SO_BUSY_POLL },
	{ IPPROTO_IP, IP_TOS },
	{ IPPROTO_IP, IP_TTL },
	{ IPPROTO_IP, IP_MTU_DISCOVER },
	{ IPPROTO_IP, IP_MULTICAST_TTL },
	{ IPPROTO_IP, IP_MULTICAST_LOOP },
	{ IPPROTO_IP, IP_MULTICAST_IF },
	{ IPPROTO_IP, IP_MULTICAST_ALL },
	{ IPPROTO_IP, IP_ADD_MEMBERSHIP },
	{ IPPROTO_IP, IP_DROP_MEMBERSHIP },
	{ IPPROTO_IPV6, IPV6_V6ONLY },
	{ IPPROTO_IPV6, IPV6_TCLASS },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS },
	{ IPPROTO_IPV6, IPV6_MTU_DISCOVER },
	{ IPPROTO_IPV6, IPV6_MULTICAST_HOPS },
	{ IPPROTO_IPV6, IPV6_MULTICAST_LOOP },
	{ IPPROTO_IPV6, IPV6_MULTICAST_IF },
	{ IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP },
	{ IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP },
};

static bool is_harmless(int level, int option)
{
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (harmless[i].level == level && harmless[i].option == option)
			return true;
	return false;
}

static void read_timeout(struct datagram *d, int fd)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	if (raw_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len) == 0)
		atomic_store(&d->usec_rcvtimeo,
			     (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec);
}

static void option_changed(pulc_stream *s, int fd, int level, int option)
{
	if (level == SOL_SOCKET && option == SO_PEEK_OFF)
		atomic_store(&s->datagram->rx.peeks_on, true);
	if (!is_harmless(level, option))
		keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
	else if (level == SOL_SOCKET && (option == SO_RCVTIMEO_OLD || option == SO_RCVTIMEO_NEW))
		read_timeout(s->datagram, fd);
	else if (level == SOL_SOCKET && (option == SO_REUSEADDR || option == SO_REUSEPORT))
		datagram_stop_all(s, false);
}

static void nonblock_changed(pulc_stream *s, bool nonblock)
{
	atomic_store(&s->datagram->nonblock, nonblock);
}

/* ---- readiness and the rest ------------------------------------------------------------------ */

static unsigned poll_socket(pulc_stream *s, int fd, unsigned events)
{
	struct datagram *d = s->datagram;
	unsigned answer;

	datagram_enter(d);
	answer = udp_poll(&d->rx, fd, events | POLLOUT);
	(void)datagram_check_peer(s);
	datagram_leave(d);
	if (datagram_has_loss(s))
		answer |= POLLERR;
	/* An error stays, and is told each time, until somebody takes it. */
	if ((answer & (POLLOUT | POLLERR)) == POLLOUT && !datagram_is_shared(s))
		atomic_store_explicit(&d->writable, true, memory_order_relaxed);
	return answer & (events | POLLERR | POLLHUP | POLLNVAL);
}

/* The socket has sent through the kernel since that was last looked at, which may have an answer: a
 * refusal stands beside what waits in queues. Only a connected one hears of it. */
static inline bool may_be_refused(const struct datagram *d)
{
	return UNLIKELY(!atomic_load_explicit(&d->writable, memory_order_relaxed)) && d->connected;
}

static unsigned ready(pulc_stream *s, int fd, unsigned events)
{
	struct datagram *d = s->datagram;
	unsigned answer = 0;

	/* Then the kernel has more to say than memory knows. */
	if (UNLIKELY(atomic_load_explicit(&d->shut, memory_order_relaxed)) || datagram_has_loss(s))
		return poll_socket(s, fd, events);
	datagram_enter(d);
	if ((events & (POLLIN | POLLRDNORM)) && udp_has_datagram(&d->rx))
		answer |= events & (POLLIN | POLLRDNORM);
	datagram_leave(d);
	if (answer && may_be_refused(d))
		return poll_socket(s, fd, events);
	if (atomic_load_explicit(&d->writable, memory_order_relaxed))
		answer |= events & (POLLOUT | POLLWRNORM);
	return answer;
}

static uint64_t mark(pulc_stream *s)
{
	uint64_t answer;

	datagram_enter(s->datagram);
	answer = udp_mark(&s->datagram->rx);
	datagram_leave(s->datagram);
	return answer;
}

/* Each datagram bears a time of its own, by another clock. */
static uint32_t when(pulc_stream *s)
{
	(void)s;
	return 0;
}

static int inq(pulc_stream *s, int fd, int *ret_size)
{
	uint32_t size;
	int e;

	if (!pulc_stream_attached(s))
		return raw_ioctl(fd, FIONREAD, ret_size);
	datagram_enter(s->datagram);
	while (UNLIKELY((e = udp_inq(&s->datagram->rx, fd, &size)) == -ECONNREFUSED))
		datagram_keep_refusal(s);
	datagram_leave(s->datagram);
	if (e == 0)
		*ret_size = (int)size;
	return e;
}

/* What is in queues has been received, to the kernel. */
static int outq(pulc_stream *s, int fd, int *ret_size)
{
	(void)s;
	return raw_ioctl(fd, SIOCOUTQ, ret_size);
}

static int shutdown_socket(pulc_stream *s, int fd, int how)
{
	keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
	if (how == SHUT_RD || how == SHUT_RDWR)
		atomic_store(&s->datagram->shut_rd, true);
	atomic_store(&s->datagram->shut, true);
	return raw_shutdown(fd, how);
}

/* Datagrams know no urgent data, and TCP_INFO is not theirs. */
static bool at_mark(pulc_stream *s, int fd)
{
	(void)s;
	(void)fd;
	return false;
}

static void add_info(pulc_stream *s, void *info, size_t len)
{
	(void)s;
	(void)info;
	(void)len;
}

static int take_error(pulc_stream *s)
{
	return -datagram_take_loss(s);
}

static void keep_error(pulc_stream *s, int error)
{
	if (error == ECONNREFUSED)
		datagram_keep_refusal(s);
}

static bool is_reset(pulc_stream *s)
{
	(void)s;
	return false;
}

const struct handler datagram_handler = {
	.name = "udp",
	.is_datagram = true,
	.send = datagram_send,
	.recv = datagram_recv,
	.sendmsg = datagram_sendmsg,
	.recvmsg = datagram_recvmsg,
	.send_end = send_end,
	.recv_end = recv_end,
	.send_begin = send_begin,
	.kernel_enter = kernel_enter,
	.kernel_leave = kernel_leave,
	.met = met,
	.connected = connected,
	.ready = ready,
	.poll = poll_socket,
	.mark = mark,
	.when = when,
	.watch = datagram_watch,
	.unwatch = datagram_unwatch,
	.patience = datagram_patience,
	.peer_here = datagram_peer_here,
	.shutdown = shutdown_socket,
	.inq = inq,
	.outq = outq,
	.at_mark = at_mark,
	.add_info = add_info,
	.take_error = take_error,
	.keep_error = keep_error,
	.is_reset = is_reset,
	.nonblock_changed = nonblock_changed,
	.option_changed = option_changed,
	.keep_on_kernel = keep_on_kernel,
	.closing = closing,
	.release = release,
	.psid_lost = psid_lost,
	.forked = forked,
	.adopt = adopt,
};
