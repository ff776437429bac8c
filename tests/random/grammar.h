/* The grammar of sequences: the forms that a line can have. */
#ifndef PULC_TESTS_GRAMMAR_H
#define PULC_TESTS_GRAMMAR_H

#include "draw.h"

/* What has to be heeded when a row is drawn. */
enum trait {
	SLEEPS = 1 << 0, /* may wait for others */
	URGENT = 1 << 1,
	GIVES = 1 << 2,
	TAKES = 1 << 3,
	FORKS = 1 << 4, /* one more player */
	DIES = 1 << 5,
	PIECES = 1 << 6, /* a sleeper may see the first before the others */
	LOWAT = 1 << 7,
	STEPS = 1 << 8, /* sleeps in what the shim does step by step */
	CLOSES = 1 << 9,
	ALONE = 1 << 10, /* in a process of one thread */
	OPENS = 1 << 11, /* a connection that nobody has accepted yet */
	ACCEPTS = 1 << 12,
	JOINS = 1 << 13, /* several lines: a connection is made, accepted and warmed up */
	WAKES = 1 << 14, /* is about the one who sleeps */
	CANCELS = 1 << 15,
	LEAVES = 1 << 16, /* the kernel takes a socket back */
	JUMPS = 1 << 17,
	SPARES = 1 << 18,  /* from now on nobody dies */
	LISTENS = 1 << 19, /* where nobody listens */
	STOPS = 1 << 20,
	BEARS_STOP = 1 << 21 /* sleeps on, or ends, as on the kernel, when it is stopped */
};

/* A form has letters behind @ for what is drawn (draw.c). */
struct row {
	const char *form;
	unsigned char weights[N_DRAWS]; /* what is drawn from all adds its own to those of mixed */
	unsigned traits;		/* enum trait */
};
extern const struct row grammar[];
extern const unsigned n_grammar;

/* What a sequence begins with. */
struct prelude {
	const char *const *lines;
	unsigned n_lines;
};
extern const struct prelude preludes[N_DRAWS];

#endif
