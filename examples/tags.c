/*
 * Messages with tags: some processes look for primes, each in its own piece of the numbers, and
 * send what they have found to a collector, with the number of their piece as the tag. The
 * collector wants the pieces in order, in whatever order they come.
 *
 * 	cc tags.c $(pkg-config --cflags --libs pulc) -o tags
 * 	./tags find 2 & ./tags find 0 & ./tags find 1 &
 * 	./tags collect 3
 */
#define _POSIX_C_SOURCE 200809L /* clocks and naps, for compilers that are told -std=c11 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pulc/tag.h>

#define N_NUMBERS 100000u /* of a piece */

static int fail(const char *what, ssize_t error)
{
	fprintf(stderr, "tags: %s: %s\n", what, strerror((int)-error));
	return 1;
}

/* ---- the collector --------------------------------------------------------------------------- */

/* One piece, however long it is: a look tells, and the next receive that wants the same gets it. */
static ssize_t receive(uint64_t piece, uint32_t **ret_primes)
{
	struct pulc_tag want = { .tag = piece, .mask = PULC_TAG_EXACT, .peer = PULC_ANY_PEER };
	struct pulc_tagged message;
	ssize_t n = pulc_tag_probe(&want, -1, &message);

	if (n < 0)
		return n;
	*ret_primes = malloc(message.size + 1);
	if (!*ret_primes)
		return -ENOMEM;
	want.peer = message.peer;
	return pulc_tag_receive(&want, *ret_primes, message.size, NULL);
}

static int collect(uint64_t n_pieces)
{
	uint32_t *primes = NULL;
	pulc_port *port;
	size_t n_primes;
	ssize_t n;

	/* Only to be found by: messages with tags go from process to process. */
	n = pulc_port_open(PULC_D, 0, "tags", &port);
	if (n < 0)
		return fail("cannot open a port (does a psid run?)", n);
	for (uint64_t piece = 0; piece < n_pieces; piece++) {
		n = receive(piece, &primes);
		if (n < 0)
			return fail("cannot receive", n);
		n_primes = (size_t)n / sizeof(*primes);
		printf("%zu primes, the last is %u\n", n_primes,
		       n_primes ? primes[n_primes - 1] : 0);
		free(primes);
	}
	return (int)pulc_port_close(port);
}

/* ---- who looks for primes -------------------------------------------------------------------- */

static int is_prime(uint32_t number)
{
	if (number < 2)
		return 0;
	for (uint32_t i = 2; (uint64_t)i * i <= number; i++)
		if (number % i == 0)
			return 0;
	return 1;
}

/* The process that collects, waited for. */
static int find_collector(uint32_t *ret_peer)
{
	const struct timespec a_moment = { .tv_nsec = 20000000 };
	struct pulc_address collector;
	int e = -ENOENT;

	for (int i = 0; e == -ENOENT && i < 1500; i++) {
		e = pulc_find("tags", &collector);
		if (e == -ENOENT)
			(void)nanosleep(&a_moment, NULL);
	}
	return e < 0 ? e : pulc_peer_find(&collector, ret_peer);
}

static int find(uint32_t piece)
{
	static uint32_t primes[N_NUMBERS];
	size_t n_primes = 0;
	uint32_t peer;
	ssize_t n;

	for (uint32_t i = 0; i < N_NUMBERS; i++)
		if (is_prime(piece * N_NUMBERS + i))
			primes[n_primes++] = piece * N_NUMBERS + i;
	n = find_collector(&peer);
	if (n < 0)
		return fail("no collector", n);
	/* A long message: this returns when it was received. */
	n = pulc_tag_send(peer, piece, primes, n_primes * sizeof(primes[0]));
	return n < 0 ? fail("cannot send", n) : 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "collect") == 0)
		return collect(strtoull(argv[2], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "find") == 0)
		return find((uint32_t)strtoul(argv[2], NULL, 10));
	fputs("usage: tags collect PIECES | tags find PIECE\n", stderr);
	return 2;
}
