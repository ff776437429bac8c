/* A call as the families of calls (calls_*.c) see it, and what they answer it with. */
#ifndef PULC_TESTS_CALL_H
#define PULC_TESTS_CALL_H

#include "world.h"

#include <errno.h>
#include <stddef.h>

#define N_WORDS 8
#define SIZE_CALL_MAX 16384 /* bytes of one call */
#define ERRNO_UNTOUCHED 4242

struct call {
	struct world *world;
	struct player *player;
	struct table *table;
	char *words[N_WORDS]; /* of the line, the verb first; "-" behind the last */
	int slot;	      /* of the second word, if that is a letter; else -1 */
	int fd;		      /* behind that slot, -1: none */
};

struct verb {
	const char *name;
	void (*make)(struct call *call);
};

/* One table for each family, ended by a verb without a name. */
extern const struct verb verbs_data[], verbs_file[], verbs_wait[], verbs_life[], verbs_option[],
	verbs_odd[], verbs_thread[], verbs_warm[], verbs_hat[], verbs_beside[], verbs_rare[];

int slot_of(const char *word);
int fd_of(const struct call *call, const char *word);
/* A word as a number. */
long number_of(const char *word);
/* The i-th word as a number of bytes, SIZE_CALL_MAX at most. */
size_t size_word(const struct call *call, unsigned i);
/* Puts a new descriptor into a slot; what was there is closed first. */
void slot_put(struct call *call, int slot, int fd, enum kind kind);
/* Before the descriptor is closed. */
void leave_sets(const struct call *call, int fd);
/* NULL: no address has that letter. */
struct address *address_of_word(struct call *call, const char *word);

/* ---- answers --------------------------------------------------------------------------------- */

void answer(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The value of a call, or the name of its errno; also that it touched errno and did not fail. */
void answer_result(struct call *call, long value);
void answer_bytes(struct call *call, const char *bytes, size_t n);
void answer_address(struct call *call, const void *address, socklen_t size);
/* Makes the call and answers with its value. */
#define RESULT(call_, text)                                                                        \
	({                                                                                         \
		errno = ERRNO_UNTOUCHED;                                                           \
		long value_ = (long)(text);                                                        \
		answer_result(call_, value_);                                                      \
		value_;                                                                            \
	})

/* What lies in a queue when its socket goes to another program comes with its sender's next
 * datagram (docs/udp.md). */
void empty(int fd);
/* n bytes that show of which step they are. */
void fill_step(const struct call *call, char *bytes, size_t n);
/* To be said before a call that may wait for fd: whether others must end it, or the socket's own
 * time limit does. */
void note_patience(struct call *call, int fd);

/* ---- words for bits -------------------------------------------------------------------------- */

enum vocabulary { WORDS_MSG, WORDS_POLL, WORDS_EPOLL };
/* "IN|OUT" */
unsigned bits_of(enum vocabulary vocabulary, const char *words);
void answer_bits(struct call *call, enum vocabulary vocabulary, unsigned bits);

#endif
