/*
 * Messages in blocks that nobody copies (pulc/block.h): the bandwidth of building, giving, taking
 * and reading them, between two processes.
 *
 * The sender builds a message in each block: with ordinary stores, with stores that go past its
 * caches, or not at all, so that what is measured is the passing of blocks and the reading. The
 * receiver reads every byte, counts in a window of time after the warm-up, and leaves, which ends
 * the sender. So many blocks are under way as the sender's budget has room for (--depth). With
 * --rounds both measure the machine's floor together, before the first round and after each; the
 * block before it has half the size.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "rounds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include <pulc/block.h>

struct settings {
	unsigned size;
	unsigned msec;
	unsigned warmup_msec;
	unsigned n_depth;
	const char *build;
	struct bench_rounds rounds;
};

static const struct pulc_tag wanted = { 1, PULC_TAG_EXACT, PULC_ANY_PEER };
static volatile uint64_t seen;

/* As wide as any processor of this kind reads. */
typedef uint64_t words __attribute__((vector_size(16)));

static void read_all(const void *block, size_t size)
{
	const words *at = block;
	words a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };

	for (size_t i = 0; i + 4 <= size / sizeof(*at); i += 4) {
		a += at[i];
		b += at[i + 1];
		c += at[i + 2];
		d += at[i + 3];
	}
	a += b + c + d;
	seen += a[0] + a[1];
}

static void build(void *block, const struct settings *set, uint8_t byte)
{
	if (set->build[0] == 'o')
		memset(block, byte, set->size);
#ifdef __x86_64__
	if (set->build[0] == 'p') {
		__m128i *to = block;
		const __m128i value = _mm_set1_epi8((char)byte);

		for (size_t i = 0; i < set->size / sizeof(*to); i++)
			_mm_stream_si128(&to[i], value);
		_mm_sfence();
	}
#endif
}

/* Returns the bytes, or a negative errno. */
static ssize_t take(size_t size)
{
	const void *block;
	ssize_t n = pulc_tag_take(&wanted, size, &block, NULL);
	int r;

	if (n < 0)
		return n;
	read_all(block, (size_t)n);
	r = pulc_free(block);
	return r < 0 ? r : n;
}

/* Until the time is over. Returns the bytes, or a negative errno. */
static ssize_t take_for(size_t size, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;
	ssize_t done = 0, n;

	while (nsec_now() < end) {
		n = take(size);
		if (n < 0)
			return n;
		done += n;
	}
	return done;
}

static int measure_floor(struct settings *set)
{
	ssize_t n;

	if (!set->rounds.n)
		return 0;
	bench_rounds_ask(&set->rounds);
	do
		n = take(set->size);
	while (n == (ssize_t)set->size);
	return n < 0 ? (int)n : bench_rounds_floor(&set->rounds);
}

/* Returns the GB/s, or a negative errno. */
static double take_rounds(struct settings *set)
{
	unsigned n_rounds = bench_rounds_count(&set->rounds);
	double size = 0, nsec = 0;
	ssize_t n = measure_floor(set);

	for (unsigned i = 0; n >= 0 && i < n_rounds; i++) {
		uint64_t began = nsec_now(), took;

		n = take_for(set->size, set->msec * 1000000ull / n_rounds);
		took = nsec_now() - began;
		bench_rounds_add(&set->rounds, (double)n / (double)took);
		size += (double)n;
		nsec += (double)took;
		if (n >= 0)
			n = measure_floor(set);
	}
	return n < 0 ? (double)n : size / nsec;
}

static int serve(int listener, void *arg)
{
	struct settings *set = arg;
	struct pulc_address self;
	pulc_port *port;
	double rate;
	ssize_t n;
	int fd, r = pulc_port_open(PULC_D, 0, NULL, &port);

	if (r < 0)
		return r;
	self = pulc_port_address(port);
	r = bench_accept(listener, &fd);
	if (r == 0)
		r = bench_send_all(fd, &self, sizeof(self));
	if (r < 0)
		return r;
	n = take_for(set->size, set->warmup_msec * 1000000ull);
	rate = n < 0 ? (double)n : take_rounds(set);
	if (rate < 0)
		return (int)rate;
	printf("build=%s size=%u gbs=%.3f", set->build, set->size, rate);
	bench_rounds_print(&set->rounds);
	(void)putchar('\n');
	(void)fflush(stdout);
	return 0;
}

/* Until the receiver is gone. */
static int give_on(uint32_t peer, struct settings *set)
{
	void *block;
	ssize_t n = 0;

	for (uint8_t byte = 0; n >= 0; byte++) {
		bool asked = bench_rounds_asked(&set->rounds);

		n = pulc_alloc(set->size, 0, &block);
		if (n < 0)
			break;
		build(block, set, byte);
		n = pulc_tag_give(peer, 1, block, asked ? set->size / 2 : set->size);
		if (n >= 0 && asked)
			bench_rounds_floor_of_peer(&set->rounds);
	}
	return n == -ECONNRESET ? 0 : (int)n;
}

static int connect_and_give(const struct sockaddr_in *server, void *arg)
{
	struct settings *set = arg;
	struct pulc_address to;
	char budget[32];
	uint32_t peer = 0;
	int fd, r;

	(void)snprintf(budget, sizeof(budget), "%llu",
		       (set->size + 4095ull) / 4096 * 4096 * set->n_depth);
	(void)setenv("PULC_ALLOC_MAX", budget, 1);
	r = bench_connect(server, false, &fd);
	if (r == 0)
		r = bench_recv_all(fd, &to, sizeof(to)) == 0 ? 0 : -EPIPE;
	if (r == 0)
		r = pulc_peer_find(&to, &peer);
	return r < 0 ? r : give_on(peer, set);
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	if (set->size < 64 || set->n_depth == 0 || !strchr("nop", set->build[0]))
		return -EINVAL;
	set->rounds.size_copy = set->size;
	return bench_rounds_init(&set->rounds);
}

int main(int argc, char **argv)
{
	struct settings set = {
		.size = 1u << 20, .msec = 300, .warmup_msec = 300, .n_depth = 8, .build = "none"
	};
	const struct bench_option options[] = {
		{ "build", "the message: none, ordinary stores, or past the caches",
		  .text = &set.build },
		{ "size", "bytes of a message", .number = &set.size },
		{ "msec", "time to measure", .number = &set.msec },
		{ "warmup-msec", "time before that, not counted", .number = &set.warmup_msec },
		{ "rounds", "divide the time, with the machine's floor between",
		  .number = &set.rounds.n },
		{ "depth", "blocks under way", .number = &set.n_depth },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_and_give, .arg = &set };

	return bench_pair_main(argc, argv, "Bandwidth of messages that nobody copies.", &pair,
			       ready, options, sizeof(options) / sizeof(options[0]));
}
