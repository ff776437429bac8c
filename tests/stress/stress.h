/*
 * What the stress programs share: random numbers, position-dependent bytes, random calls, and the
 * memory in which the processes of a run tell each other what they did.
 */
#ifndef PULC_TESTS_STRESS_H
#define PULC_TESTS_STRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rng {
	uint64_t state;
};
uint64_t rng_next(struct rng *rng);
/* In [0, n). */
uint64_t rng_below(struct rng *rng, uint64_t n);
/* In [1, max], every order of magnitude as likely as the others. */
uint64_t rng_size(struct rng *rng, uint64_t max);
bool rng_one_in(struct rng *rng, unsigned n);

/* The largest piece of a stream that bytes_at gives in one block. */
#define SIZE_PIECE_MAX ((size_t)256 << 10)
void bytes_init(uint64_t seed);
/* SIZE_PIECE_MAX bytes of stream `key` from `offset` on. */
const unsigned char *bytes_at(uint64_t key, uint64_t offset);

uint64_t nsec_clock(void);
void pause_randomly(struct rng *rng);

/* Ends the process and with it the run: prints the line first. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Whether errno tells that the peer is gone, which some runs provoke. */
bool is_gone(int error);

/* One end of a connection as one thread uses it in one direction. */
struct end {
	int fd;
	int epoll;			  /* an edge-triggered set of this thread's own, or -1 */
	const _Atomic uint64_t *progress; /* as long as this changes nobody is stuck; may be NULL */
	struct rng rng;
};
void end_init(struct end *end, int fd, uint64_t seed, bool for_output);
void end_deinit(struct end *end);
/* Sends some of len bytes by a call chosen at random. Returns the count, or a negative errno. */
ssize_t end_put(struct end *end, const void *buf, size_t len);
/* Receives at most len <= SIZE_PIECE_MAX bytes likewise; 0 at the end of the stream. */
ssize_t end_take(struct end *end, void *buf, size_t len);
/* Waits until an output (input) call is worth another try. */
void end_wait(struct end *end, short events);

int listen_somewhere(uint16_t *ret_port, bool v6);
int connect_somewhere(uint16_t port, bool v6);
void *shared_memory(size_t size);

/* The programs: each returns an exit status. */
struct options {
	unsigned seconds;
	unsigned n_lanes;
	uint64_t seed;
	/* the user that the accepting process becomes; 0: it stays what it is */
	unsigned acceptor_uid;
	uint64_t size_round; /* largest number of bytes of one direction of one connection */
};
int run_traffic(const struct options *options);
int run_turns(const struct options *options);
int run_melee(const struct options *options);
int run_crowd(const struct options *options);
int run_killed(const struct options *options);
int run_stopped(const struct options *options);
int run_datagrams(const struct options *options);

#endif
