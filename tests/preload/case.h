/*
 * What a case of the catalogue is written with.
 *
 * A case is a dialogue of two actors, A and B, over one connected pair of TCP sockets, or of UDP
 * sockets (trait DATAGRAMS). Its text
 * is a sequence of blocks; each block belongs to one actor and starts after the block before it
 * has ended, except a WITH block, which runs beside the one before it:
 *
 * 	CASE(half_close, ANY)
 * 	{
 * 		A { R(send(FD, "hi", 2, 0)); R(shutdown(FD, SHUT_WR)); }
 * 		B { RECV(10); RECV(10); }
 * 	}
 *
 * The same text is played three ways: by one thread doing both ends (SELF: no WITH blocks), by two
 * threads (THREAD), by two processes (PROCESS). What the actors see is logged: values, errno
 * names, bytes, events; never times, ports or descriptor numbers. The log of a run on the kernel
 * and that of a run under the shim must be the same text.
 *
 * Blocks may not be left by break, goto or return.
 */
#ifndef PULC_TESTS_CASE_H
#define PULC_TESTS_CASE_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum play_mode { SELF = 1, THREAD = 2, PROCESS = 4, DUO = THREAD | PROCESS, ANY = SELF | DUO };

enum case_trait {
	NO_PAIR = 1,	  /* makes its own sockets, if any: nothing to warm up at the start */
	OWN_PAIR = 2,	  /* as NO_PAIR, but warms up what it made: must reach the rings */
	DELAYED = 4,	  /* TCP_NODELAY stays off */
	STAYS_KERNEL = 8, /* has no connection that PULC may or should upgrade */
	SETTLED = 16, /* a full connection that is upgraded then has room again: not in its midst */
	DATAGRAMS = 32, /* the pair are UDP sockets, connected to each other */
	SERVER = 64,	/* with DATAGRAMS: B is not connected */
};

enum { SIDE_A = 0, SIDE_B = 1 };

struct address {
	struct sockaddr_storage storage;
	socklen_t size;
};

struct play {
	enum play_mode mode;
	unsigned actor;		     /* which sides this thread plays: bit 0 A, bit 1 B */
	int side;		     /* of the running block */
	int fd;			     /* the running block's end of the pair */
	int fds[2];		     /* as far as this process has them */
	struct address addresses[2]; /* of a pair of UDP sockets */
	int listener;
	unsigned phase;
	struct stage *stage;
	const struct tcase *tcase;
};

struct tcase {
	const char *name;
	void (*run)(struct play *p);
	unsigned modes;
	unsigned traits;
};

#define CASE(name_, modes_) CASE_TRAITS(name_, modes_, 0)
#define CASE_TRAITS(name_, modes_, traits_)                                                        \
	static void name_(struct play *p);                                                         \
	static const struct tcase case_##name_ = { #name_, name_, modes_, traits_ };               \
	static const struct tcase *const entry_##name_                                             \
		__attribute__((used, section("cases"))) = &case_##name_;                           \
	static void name_(struct play *p __attribute__((unused)))

#define BLOCK_(side, fresh) for (bool go_ = play_enter(p, side, fresh); go_; go_ = false)
#define A BLOCK_(SIDE_A, true)
#define B BLOCK_(SIDE_B, true)
#define WITH_A BLOCK_(SIDE_A, false)
#define WITH_B BLOCK_(SIDE_B, false)
/* Both sides, each on its own, in the order A, B if one thread plays both. */
#define EACH                                                                                       \
	for (int each_ = SIDE_A; each_ <= SIDE_B; each_++) BLOCK_(each_, each_ == SIDE_A)

#define FD (p->fd)

bool play_enter(struct play *p, int side, bool fresh);
/* True once: a whole case for one mode only, say. */
bool play_is(const struct play *p, unsigned modes);

/* ---- the log --------------------------------------------------------------------------------- */

void say(struct play *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Logs "text = value", or the errno's name; also that a call touched errno without failing. */
long say_result(struct play *p, const char *text, long value);
void say_bytes(struct play *p, const char *text, const void *buf, size_t len);
void say_poll(struct play *p, const char *text, int events);
/* SO_ERROR, which asking takes away. */
void say_error(struct play *p, int fd);
const char *errno_name(int error);

#define ERRNO_UNTOUCHED 4242
/* Runs a call and logs its text, its value and its errno; is that value. */
#define R(call)                                                                                    \
	({                                                                                         \
		errno = ERRNO_UNTOUCHED;                                                           \
		say_result(p, #call, (long)(call));                                                \
	})
/* The same for a call whose exact value is not the point. */
#define R_SIGN(call)                                                                               \
	({                                                                                         \
		errno = ERRNO_UNTOUCHED;                                                           \
		long sign_ = (long)(call);                                                         \
		say_result(p, "sign of " #call, sign_ > 0 ? 1 : sign_);                            \
	})
#define T(condition) say(p, "%s: %s", #condition, (condition) ? "true" : "false")

/* recv() into a buffer of size n, what came is logged. */
ssize_t say_recv(struct play *p, int fd, size_t n, int flags);
ssize_t say_send(struct play *p, int fd, const char *text, int flags);
#define RECV(n) say_recv(p, FD, n, 0)
#define RECV_FLAGS(n, flags) say_recv(p, FD, n, flags)
#define SEND(text) say_send(p, FD, text, 0)
#define SEND_FLAGS(text, flags) say_send(p, FD, text, flags)
/* The usual end of a case: B receives 11 bytes, that A has sent, and answers; A closes. */
void answer_and_end(struct play *p);

/* ---- the pair -------------------------------------------------------------------------------- */

/* Waits until fd can give n bytes: TCP says nothing about when they come. */
void settle(struct play *p, int fd, int n);
/* Waits until fd reports one of these poll events. */
void settle_poll(struct play *p, int fd, short events);
/* Waits until the other actor sleeps in a call of its present block. */
void until_other_sleeps(struct play *p);
void until_thread_sleeps(pid_t tid);
void until_process_sleeps(pid_t pid);

/* For the cases that make their own: a listener on a free port, a socket connected to it, ... */
int listen_on(const char *host, struct address *ret_address);
int connect_to(const struct address *to, int flags);
/* Both ends in this process: fds[0] connected, fds[1] accepted. */
void pair_on(const char *host, int fds[2]);
void pair_local(int fds[2]);
/* Exchanges single bytes until the pair, both ends in this process, is on rings (or a few times,
 * where no rings are to be expected). Never logged. */
void warm(struct play *p, int fds[2]);
/* The same for what fds[0] sends; fds[1] has sent nothing. */
void warm_one_way(struct play *p, int fds[2]);
void nodelay(int fd);

/* The same for UDP: a socket bound to a free port of host, and both ends of a flow each way in this
 * process. */
int bound_on(const char *host, struct address *ret_address);
void pair_datagrams(const char *host, int fds[2], struct address addresses[2]);
void warm_datagrams(struct play *p, int fds[2], const struct address addresses[2]);
/* One datagram each way is not enough to know a flow: this one must be the receiver's by the
 * kernel. */
bool is_in_kernel(int fd);
#define PEER ((const struct sockaddr *)&p->addresses[!p->side].storage)
#define PEER_SIZE (p->addresses[!p->side].size)

/* Bytes whose value depends on their position, and the check of them. */
void fill_pattern(void *buf, size_t len, uint64_t at);
bool is_pattern(const void *buf, size_t len, uint64_t at);
/* Blocking transfer of `len` pattern bytes in calls of `chunk`. Returns the bytes moved in
 * order. */
size_t put_pattern(int fd, size_t len, size_t chunk);
size_t take_pattern(int fd, size_t len, size_t chunk);

/* Fills fd without blocking until it refuses, and would for ever; returns the bytes taken. */
size_t stuff(int fd);
/* Reads exactly len bytes (blocking), checks the pattern, false on a difference or early end. */
bool drain_exactly(int fd, size_t len);

/* ---- small helpers --------------------------------------------------------------------------- */

/* A file in memory that has these bytes, read from its beginning. */
int file_of(const char *text);
/* A descriptor by SCM_RIGHTS over a Unix socket; -1: none has come. */
void pass_fd(int via, int fd);
int take_fd(int via);
/* The message stays, and its descriptor may come once more. */
int peek_fd(int via);
/* Closes by an instruction of the program's own, as Go's runtime does it: nobody is told. */
void close_raw(int fd);
uint64_t usec_clock(void);
/* Runs the block in a forked child of this actor, logs how it ended. */
pid_t fork_logged(struct play *p);
/* A fork that fails, by a process of its own, be it fork() or another function: there are too many,
 * or no others are allowed. */
void fork_in_vain(struct play *p, pid_t (*by)(void));
void reap(struct play *p, const char *who, pid_t pid);
/* An address that no program has mapped, and of which the compiler knows nothing. */
extern char *volatile bad_address;
/* Signal handler that only counts, installed without SA_RESTART unless flags say so. */
extern volatile sig_atomic_t n_signals;
void count_signal(int signal, int flags);
/* Blocks it in this thread: of two that are one process the other one gets it. */
void leave_to_other(int signal);
/* Sends the signal to the other actor once it sleeps in its call. */
void interrupt_other(struct play *p, int signal);
pid_t actor_tid(const struct play *p, int side);
pid_t actor_pid(const struct play *p, int side);

/* The stage: memory that both actors share, with room for a case's own words. */
struct stage *stage_of(struct play *p);
_Atomic long *stage_word(struct play *p, unsigned i);

#endif
