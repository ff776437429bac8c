/* What the files of libpulc know of a stream and of each other, under the public types. */
#ifndef PULC_LIB_PRIVATE_H
#define PULC_LIB_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include <pulc/stream.h>

#include "client.h"
#include "signals.h"
#include "handler.h"
#include "slabs.h"
#include "tcp.h"
#include "turn.h"

/* Where a stream stands on its way off the kernel. Moves forward only, but for a lost psid: back to
 * FRESH. */
enum stream_state {
	STREAM_FRESH,	 /* counts data calls */
	STREAM_HINTED,	 /* psid knows it, or was told why not */
	STREAM_GIVEN,	 /* the socket is on its way to psid and back */
	STREAM_ATTACHED, /* both sides' memory is mapped; tcp decides byte by byte */
	STREAM_NEVER,	 /* stays on the kernel */
};

/* The two ends of a connection; addresses as IPv6, ports in host order. */
struct hint_ends {
	uint8_t local[16], remote[16];
	uint16_t local_port, remote_port;
};

/* Does psid know an attached stream, by its number? */
enum stream_known {
	STREAM_UNKNOWN,	 /* not this psid */
	STREAM_RETURNED, /* it was told, and has not answered */
	STREAM_KNOWN,	 /* s->conn is the number */
	STREAM_REFUSED,	 /* it does not take it */
};

struct pulc_stream {
	const struct handler *handler;
	struct tcp tcp;
	struct datagram *datagram; /* of a UDP socket; tcp and the like mean nothing then */
	_Atomic int state;
	_Atomic uint32_t n_refs;
	uint32_t n_calls;
	struct turn turn; /* hints */
	struct {
		_Atomic bool is_known, is_nonblocking, has_heard;
	} kernel_wait;	/* kernel_wait.c: hints; known: asked or told whether it blocks */
	_Atomic int fd; /* the descriptor that a call last used, of whatever thread */
	/* what calls under way go on with whose own descriptor is closed */
	const int *_Atomic home;
	int pid; /* the process that attached it */
	enum pulc_role role;
	uint64_t token;
	uint64_t conn; /* psid's number for this end, 0: none */
	uint8_t known; /* enum stream_known */
	uint32_t own_slot, peer_slot;
	struct hint_ends ends; /* of the socket, once hinted or inherited */
	uint64_t cookie;       /* the same */
	uint64_t nsec_look;    /* when the channel was last looked at on its behalf */
	uint64_t nsec_renew;   /* a hint is repeated not before */
	uint32_t nursery;      /* index of its entry there, 0: none */
	bool told;	       /* psid has an entry under this token */
	_Atomic bool far;      /* its other end is on another node */
	bool inherited;	       /* by exec or the like: upgraded before this process knew of it */
	int denied;	       /* why it was not given its memory yet: a Reason */
	bool left;	       /* no holder any more, though not closed (client lock) */
	bool ended;	       /* closed (client lock) */
	uint64_t stuck_at;     /* its receiver has taken nothing beyond that (client lock) */
	bool orphaned;	       /* psid was to send its last bytes, and is gone (client lock) */
	bool resets;	       /* exec will end it so; lingered before as `linger` says */
	struct linger linger;
	int going; /* the process that counts itself off, or has, unknown to psid */
	struct slab *own_slab, *peer_slab;
	struct pulc_stream *hash_next;
	struct pulc_stream *next, *prev; /* all streams of the process, for fork */
	struct pulc_stream *attached_next, *returning_next;
	void *user;
};

static inline void stream_set_fd(struct pulc_stream *s, int fd)
{
	atomic_store_explicit(&s->fd, fd, memory_order_relaxed);
}

struct pulc_waitset {
	struct shm_board *board;
	uint32_t client;
	uint32_t index;
	int bell;
	uint32_t generation; /* of the client, when it was announced */
	int pid;
	uint64_t nsec_patience;
	bool rung; /* the bell may be full: to be emptied before the next sleep */
	struct pulc_waitset *next;
};

/* ---- stream.c -------------------------------------------------------------------------------- */
/* A stream with one reference, in the list of all; NULL: no memory, or this thread holds the client
 * lock. */
struct pulc_stream *stream_alloc(int fd, const struct handler *handler);
void stream_list_each(void (*f)(struct pulc_stream *));
void stream_list_each_datagram(void (*f)(struct pulc_stream *));
/* Notes that s is attached (under the client lock); takes the list of those; tells the shim of each
 * (no lock). */
void stream_note_attached(struct pulc_stream *s);
struct pulc_stream *stream_take_attached(void);
void stream_say_attached(struct pulc_stream *list);

/* Is fd a descriptor of this stream's socket? The number may be another one's by now. */
bool stream_owns(const struct pulc_stream *s, int fd);

/* The descriptor for a call that was given fd, when it has waited: another thread may have closed
 * that meanwhile. */
static inline int stream_fd(const struct pulc_stream *s, int fd)
{
	const int *home = atomic_load_explicit(&s->home, memory_order_acquire);

	return __builtin_expect(home != NULL, 0) ? __atomic_load_n(home, __ATOMIC_RELAXED) : fd;
}

/* Counts the caller as inside the kernel. False: the stream is attached by now, go by tcp. */
bool stream_native_begin(struct pulc_stream *s, int fd, _Atomic uint32_t *count);
/* The same for a call that is the kernel's even on an attached stream; PULC_USE_KERNEL. */
ssize_t stream_on_kernel(_Atomic uint32_t *count);

/* As pulc_stream_attached, in line. */
static inline bool stream_is_attached(const struct pulc_stream *s)
{
	return atomic_load_explicit(&s->state, memory_order_acquire) == STREAM_ATTACHED;
}

/* ---- transfer.c, stream_short.c: data calls of the TCP handler ------------------------------- */
ssize_t stream_send(pulc_stream *s, int fd, const void *buf, size_t len, int flags);
ssize_t stream_recv(pulc_stream *s, int fd, void *buf, size_t len, int flags);
/* Of n pieces, `total` bytes. */
ssize_t stream_send_pieces(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n,
			   size_t total, int flags);
ssize_t stream_receive_pieces(struct pulc_stream *s, int fd, const struct iovec *iov, size_t n,
			      size_t total, int flags);
/* The usual case of one piece. False, 0: it is not, and nothing was done. */
bool stream_send_short(struct pulc_stream *s, int fd, const void *buf, size_t len, int flags);
size_t stream_receive_short(struct pulc_stream *s, void *buf, size_t len, int flags);
ssize_t stream_sendmsg(pulc_stream *s, int fd, const struct msghdr *msg, int flags);
ssize_t stream_recvmsg(pulc_stream *s, int fd, struct msghdr *msg, int flags);
unsigned stream_poll(pulc_stream *s, int fd, unsigned events);
/* ---- downgrade.c ----------------------------------------------------------------------------- */
/* An attached stream goes on with the kernel, whatever the program does next. May wait some ms for
 * the peer. for_good: what is in the ring is of no use as it is. Returns what tcp_leave did. */
int stream_downgrade(struct pulc_stream *s, int fd, bool for_good);
/* A pending error, or 0, was taken: if the stream has left the kernel alone serves what follows.
 * Returns it. */
int stream_told(struct pulc_stream *s, int fd, int error);
/* One that a call has taken and not told. */
void stream_keep_error(struct pulc_stream *s, int error);

/* ---- wait.c ---------------------------------------------------------------------------------- */
struct wait;
/* What differs between protocols. */
struct wait_way {
	/* Memory says that trying again is worth while. Asked in a tight loop. */
	bool (*memory)(struct pulc_stream *s, const struct wait *w);
	/* The kernel socket has something for this waiter; costs a system call. */
	bool (*kernel)(struct pulc_stream *s, int fd, const struct wait *w);
	/* poll events of the kernel socket that are worth waking up for */
	short (*kernel_events)(struct pulc_stream *s, const struct wait *w);
	/* A sleep ended with one of them. */
	void (*kernel_said)(struct pulc_stream *s, int fd, const struct wait *w);
};
/* What a blocking call waits for. */
struct wait {
	const struct wait_way *way;
	unsigned events;      /* POLLIN or POLLOUT */
	int fd;		      /* as the call was given it */
	uint64_t need;	      /* bytes in the ring that make POLLIN worth while */
	uint64_t total;	      /* the same while some of the kernel's are before them, with those */
	bool kernel_has_part; /* so that its POLLIN is no news */
	bool heeds_mark;      /* something was received already: urgent data ends the call */
	uint64_t ends_heard; /* stream_wait.c: what the peer has said of its end has ended a wait */
	uint64_t nsec_deadline;
	struct signal_counts signals; /* when the call began */
};
/* usec_timeout 0: none. */
struct wait wait_begin(const struct wait_way *way, unsigned events, uint64_t usec_timeout);
/* How long this thread may spin for s; to be given to wait_for. */
uint64_t wait_budget(struct pulc_stream *s);
/* The same for who knows whether the peer last ran here. */
uint64_t wait_budget_beside(bool peer_on_this_cpu);
/* What was waited for came before wait_for was called. */
void wait_paid(void);
/* Waits for a moment, if this is worth a spin: what is sent meanwhile comes with one look
 * (shm_rx_found). */
void wait_gather(uint64_t budget);
/* Waits until one of the events may have come true. Returns 0; -EAGAIN: the deadline has passed;
 * -EINTR; -ERESTART: interrupted by handlers that let a call without a time-out go on, unless it
 * has moved bytes already. */
int wait_for(struct pulc_stream *s, int fd, struct wait *w, uint64_t budget);
/* The same of e, what signals.h says of the handlers that have run: a call with a time-out is not
 * begun again (signal(7)). */
static inline int wait_verdict(const struct wait *w, int e)
{
	return e == -ERESTART && w->nsec_deadline != UINT64_MAX ? -EINTR : e;
}
/* Tells watches of a peer's. */
void wait_tell(struct shm_stream *ring, size_t (*collect)(struct shm_stream *, uint64_t *));
uint32_t this_cpu(void);
/* What sleeping and being woken costs on another, idle core: no spin is worth more. */
#define NSEC_SPIN_MAX (40 * NSEC_PER_USEC)
/* The longest spin, ns; reads the environment the first time. */
uint64_t spin_limit(void);

/* ---- stream_wait.c: the same for a TCP stream ------------------------------------------------ */
bool stream_peer_here(pulc_stream *s);
struct wait stream_wait_begin(unsigned events, uint64_t usec_timeout);
int stream_wait(struct pulc_stream *s, int fd, struct wait *w);
/* It is the peer's turn: waits until he may have answered, unless there is something else to look
 * at. True: the next look is the first one. */
bool stream_wait_turn(struct pulc_stream *s);
/* Nothing short was there. Looks at the ring for a moment, unless there is something else to look
 * at. True: bytes have come. has_looked: behind stream_wait_turn. */
bool stream_wait_briefly(struct pulc_stream *s, bool has_looked);
void stream_tell(struct pulc_stream *s, unsigned did);
/* Tells everybody who waits, whether or not they were told before. */
void stream_tell_all(struct pulc_stream *s);
/* Has all that sleep on this very side look again, threads of this process and other processes.
 * _locked: under the client lock. */
void stream_tell_own(struct pulc_stream *s);
void stream_tell_own_locked(struct pulc_stream *s);

/* ---- waitset.c ------------------------------------------------------------------------------- */
int stream_watch(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events);
void stream_unwatch(pulc_stream *s, pulc_waitset *set, unsigned bit);
uint64_t stream_patience(pulc_stream *s, pulc_waitset *set);
void waitset_forked(void);
/* Makes the first wait set's bell. */
void waitset_prepare(void);
void waitsets_announce(void);
/* The channel had no room for some of it: waitsets_repeat, under the client lock, says the rest. No
 * lock. */
bool waitsets_are_due(void);
void waitsets_repeat(void);
/* Has all that sleep on any of them look again. Under the client lock. */
void waitsets_rouse(void);
/* Wakes a waiter of this process, or of its family, as its peer would. Under the client lock. */
void waitset_tell(uint64_t watch);

/* ---- leave.c --------------------------------------------------------------------------------- */
/* In a forked child: who has forked it. */
void leave_forked(int parent);
/* This process is about to let go of s, which is attached: those that it has forked rely on it no
 * longer. */
void leave_warn(const struct pulc_stream *s);
/* Sends on what it owes, and what others do meanwhile, as they are taken. False: its receiver has
 * taken nothing for seconds. */
bool leave_pay(struct pulc_stream *s);

/* ---- nursery.c: which processes hold a socket that is not upgraded yet ----------------------- */
uint32_t nursery_enter(void);
void nursery_leave(uint32_t entry);
/* In a forked child, first. */
void nursery_forked(void);
/* In it: it holds the socket of this entry as well. Returned: the entry by which it knows its own
 * holding, 0: it has none. */
uint32_t nursery_inherit(uint32_t entry);
/* In it, last: the family of one in another pid namespace begins with itself. */
void nursery_settle(void);
void nursery_share(uint32_t entry, int child);
/* This process is about to execute a program; it is in the entry again if that fails. Under the
 * client lock. */
void nursery_leave_for_now(uint32_t entry);
void nursery_return(uint32_t entry);
/* Right before exec, and when it has failed and all have returned. No lock is held. */
void nursery_executes(void);
void nursery_exec_failed(void);
bool nursery_alone(uint32_t entry);
/* A UDP socket's refusal (datagram_loss.c), which all who hold it share; NULL: it has no entry.
 * Whoever enters a socket finds there what the one before has left. */
_Atomic uint8_t *nursery_refused(uint32_t entry);
/* Around a fork: begins in the parent, is done when the child has entered itself. is_told: this
 * thread says afterwards who the child is, or that there is none (0). A child of which nobody tells
 * is not waited for if it does not say anything for long. */
void nursery_fork_begins(bool is_told);
void nursery_fork_told(int pid);
void nursery_fork_done(void);
/* Around the start of a program by this process: nothing is known to be alone. */
void nursery_spawn_begins(void);
void nursery_spawn_done(void);

#endif
