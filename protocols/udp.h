/*
 * The udp protocol: the datagrams of one kernel UDP socket, partly in the kernel, partly in queues,
 * one for each flow from another socket. Non-blocking; whoever calls decides how to wait and whom
 * to wake. docs/udp.md is normative.
 */
#ifndef PULC_PROTOCOLS_UDP_H
#define PULC_PROTOCOLS_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "pulse.h"
#include "queue.h"

/* shm_record.flags: the sender's process has sent to this port through the kernel since the record
 * before. */
#define UDP_AFTER_KERNEL 1u
/* The record's stamp is when the one before it was sent. Its own time stands in the next record, if
 * that one has this flag too, or beside the queue (shm_queue_date). Otherwise the stamp is its own.
 */
#define UDP_DATED_BEHIND 2u

/* Rings up to this size are used, bytes: a kernel's socket buffer usually holds a fifth of it. */
#define UDP_RING_MAX (1u << 20)

/* Flows that one socket receives from; others stay on the kernel. */
#define UDP_N_FLOWS 64

/* Where a socket's datagrams enter the kernel. Each processor has a backlog of its own. */
struct udp_entry {
	_Atomic uint32_t cpu;	     /* the last one's processor plus 1; 0: there was none */
	_Atomic uint64_t nsec_moved; /* when one before may have entered on another processor */
};

/* A flow, as one of its ends sees it. */
struct udp_flow {
	struct shm_stream ring;
	/* The other end's address as the program writes it: where a datagram came from. */
	union {
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} name;
	socklen_t len_name;

	/* sender */
	uint16_t port;		       /* the receiver's */
	uint32_t size_max;	       /* bytes; the kernel has more to say about larger ones */
	const struct udp_entry *entry; /* of the sending socket; NULL: not known */
	uint64_t kernel_seen;	       /* udp_kernel_sends when the last record was put */
	struct pulse pulse;
	uint64_t nsec_settled; /* when the kernel was last waited for */
	uint64_t size_credit; /* spent on rings, returned at the end by the process that spent it */
	uint64_t stamp;	      /* when the last record was sent */
	/* What was sent when that was the last word on it: the next record may be dated behind. */
	uint64_t dated_at;
	bool no_growth;
	bool stalled;	       /* what was unread at the last look but one still is */
	uint64_t stamp_looked; /* at the receiver's progress */
	uint64_t head_looked;  /* what had been sent by then */

	/* receiver: a record here or further on was written after floor_stamp */
	uint64_t floor_stamp;
	uint64_t next_at, next_stamp; /* the same from next_at on, with next_stamp */
	_Atomic bool broken;	      /* what the peer wrote makes no sense */
};

/* A socket as receiver: its flows, and what is known of the kernel's queue. */
struct udp {
	struct udp_flow *_Atomic flows[UDP_N_FLOWS];
	_Atomic uint32_t n_flows; /* one more than the last place that is or was taken */
	uint16_t port;		  /* its own */
	_Atomic bool shared;	  /* with another process, which may empty the kernel's queue */
	_Atomic bool peeks_on;	  /* SO_PEEK_OFF was set */
	_Atomic bool connected;	  /* to a peer: the kernel takes nobody else's datagrams */
	/* arrival of the kernel's first datagram; UDP_NONE, UDP_UNKNOWN */
	_Atomic uint64_t first_in_kernel;
	_Atomic uint64_t looked;     /* when that was asked, by pulse_about_now */
	_Atomic uint32_t n_since;    /* datagrams taken from queues since */
	_Atomic uint64_t sends_seen; /* udp_kernel_sends then */
	/* Of each place that ever had a flow: what those that have ended had counted; UDP_COUNTS:
	 * and its present one counts on. Changed by one store, so that no look finds half of an
	 * end. */
	_Atomic uint64_t counted[UDP_N_FLOWS];
	_Atomic uint32_t n_counted;
};
#define UDP_COUNTS (1ull << 63)
#define UDP_NONE 0u
#define UDP_UNKNOWN UINT64_MAX

/* Grants bytes to grow a ring with. Waits until what this thread has sent through the kernel's
 * loopback device is where it goes to; false: cannot tell. Both set once by libpulc. */
extern bool (*udp_take_credit)(uint64_t size) __attribute__((visibility("hidden")));
extern bool (*udp_settle_kernel)(const struct udp_entry *entry)
	__attribute__((visibility("hidden")));

/* A datagram was sent to this port of some address through the kernel. After the call. */
void udp_note_kernel_send(uint16_t port);
/* A counter that changes with each of those, perhaps more often. */
#define UDP_N_PORTS 256u
extern _Atomic uint64_t udp_n_kernel_sends[UDP_N_PORTS] __attribute__((visibility("hidden")));
static inline uint64_t udp_kernel_sends(uint16_t port)
{
	return atomic_load_explicit(&udp_n_kernel_sends[port % UDP_N_PORTS], memory_order_acquire);
}

/*
 * Sends one datagram of len bytes. Returns len; -EAGAIN: this one through the kernel; -ESHUTDOWN:
 * the flow is over, through the kernel for good. When it was sent: udp_is_awaited.
 */
ssize_t udp_push(struct udp_flow *f, const struct iovec *iov, size_t n, size_t len);
/* Somebody waits for what was sent, or what was sent before is to be sent again: serve shm_due_rx,
 * and udp_is_left. */
static inline bool udp_is_awaited(const struct udp_flow *f)
{
	uint64_t notice = shm_peer_notice(&f->ring);

	return shm_due_rx(&f->ring, notice) || (notice & SHM_LEFT);
}

/* How a receive is to be made, and what it has found out besides. */
struct udp_got {
	uint64_t nsec_trust; /* that the kernel was empty is believed for so long */
	bool by_kernel;
	struct sockaddr_in6 from; /* then: its source, if len_from > 0 */
	socklen_t len_from;
};
/*
 * Receives the next datagram, the oldest of all queues and the kernel's. Returns as recvmsg(2):
 * -EAGAIN: there is none; -EDEADLK: called from a signal handler that interrupted this very call.
 * flags: MSG_PEEK, MSG_TRUNC.
 */
ssize_t udp_pull(struct udp *u, int fd, struct msghdr *msg, int flags, struct udp_got *got);
/* The same at less cost, without flags, where one queue is all that has to be looked at. now: by
 * pulse_about_now, when the call began or later. -EAGAIN: nothing was done, it is for udp_pull. */
ssize_t udp_pull_plain(struct udp *u, struct msghdr *msg, uint64_t now);
/* The only queue is one whose datagrams come better several at a time (shm_rx_gathers), and is
 * empty as far as is known. */
bool udp_gathers(struct udp *u);
/* Something is sent, perhaps to who has sent it. */
void udp_answered(struct udp *u);
/* Size of the next datagram, 0: none. Returns 0, or a negative errno; the error that the socket had
 * pending if it could not be left there. */
int udp_inq(struct udp *u, int fd, uint32_t *ret_size);

/* Memory says that there is a datagram. No system call. */
bool udp_has_datagram(struct udp *u);
/*
 * Before a wait: what comes next comes by a queue, for all that is known. Asks the kernel if the
 * next datagram would have to wait for that. now: by pulse_about_now. Returns 0; -EAGAIN: it is not
 * so; the error that the socket had pending.
 */
int udp_quiet(struct udp *u, int fd, uint64_t now);
/* Exact readiness, queues and kernel together. */
unsigned udp_poll(struct udp *u, int fd, unsigned events);
/* A counter that changes whenever a queue has got something, and not when a flow ends. */
uint64_t udp_mark(struct udp *u);

/* Takes a flow that is bound to its memory in. False: there are too many. Asks the kernel to note
 * arrivals from now on. */
bool udp_add(struct udp *u, int fd, struct udp_flow *f);
void udp_remove(struct udp *u, struct udp_flow *f);

/* No datagram will come any more on this flow: its sender is gone or the receiver has asked it to
 * stop, and nothing is left. */
bool udp_is_drained(struct udp_flow *f);
/* Asks the sender of a flow that is received from to use the kernel. What is in the queue
 * remains. */
void udp_stop(struct udp_flow *f);
/* Also gives back what is in its queue: it is the sender's to send through the kernel, and nobody's
 * to take. */
void udp_leave(struct udp_flow *f);
/* Has the receiver done so? */
static inline bool udp_is_left(const struct udp_flow *f)
{
	return shm_peer_notice(&f->ring) & SHM_LEFT;
}
/* Then, by the socket fd. Returns 0; -ECONNREFUSED: the socket had this error pending, which nobody
 * has been told. */
int udp_send_again(struct udp_flow *f, int fd);
/* Of the loss of what was sent by this flow: is it told already, by any process that has the
 * socket? */
bool udp_loss_is_told(const struct udp_flow *f);
/* It is about to be. True: by this call first. */
bool udp_tell_loss(struct udp_flow *f);
/* Before the last descriptor of this process is closed. is_only_one: no other process has the
 * socket, whatever is counted. */
void udp_close(struct udp_flow *f, bool is_only_one);

#endif
