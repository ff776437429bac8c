/*
 * Children that were made and have not said that they run.
 *
 * From a fork until the child has entered itself (nursery.c) somebody holds the parent's sockets
 * whom no entry names. A child may get no processor for long, and one that is killed before says
 * nothing; what time has passed tells the two from each other as little as anywhere else. So each
 * fork has a word in the memory of the family, which the child takes back. Whoever makes the child
 * says there that it is he, then who the child is, and who has waited for long asks the kernel
 * whether that process lives.
 *
 * A word carries its fork's number: what its parent or its child says late is not taken for another
 * fork's. A fork of which nobody will tell (libc's, called past the shim) has none.
 */
#include "forks.h"

#include <errno.h>

#include "macros.h"
#include "rawsys.h"

#define WHO 0xffffffffu

struct fork {
	_Atomic uint64_t *word; /* NULL: there was none left */
	uint32_t number;
};

/* The last one that has begun, or that this process comes from; and this thread's. */
static OFTEN struct fork latest;
static __thread struct fork mine __attribute__((tls_model("initial-exec")));

static uint64_t value(const struct fork *fork, uint32_t who)
{
	return (uint64_t)fork->number << 32 | who;
}

static bool is_of(const struct fork *fork, uint64_t now)
{
	return now >> 32 == fork->number;
}

static bool has_ended(uint32_t pid)
{
	return raw_syscall(SYS_kill, pid, 0, 0, 0, 0, 0) == -ESRCH;
}

USUAL void forks_begin(struct forks *all, uint32_t who)
{
	uint64_t free;

	latest = (struct fork){ .number = (uint32_t)atomic_fetch_add(&all->n, 1) + 1 };
	for (unsigned i = 0; who != FORKS_NOBODY && i < N_FORKS && !latest.word; i++) {
		free = atomic_load(&all->words[i]);
		if ((free & WHO) == FORKS_NOBODY &&
		    atomic_compare_exchange_strong(&all->words[i], &free, value(&latest, who)))
			latest.word = &all->words[i];
	}
	mine = latest;
}

/* As long as it is of this fork, and somebody is known. */
USUAL static void write_who(const struct fork *fork, uint32_t who)
{
	uint64_t now = fork->word ? atomic_load(fork->word) : 0;

	while (fork->word && is_of(fork, now) && (now & WHO) != FORKS_NOBODY &&
	       !atomic_compare_exchange_weak(fork->word, &now, value(fork, who)))
		;
}

USUAL void forks_tell(uint32_t who)
{
	write_who(&mine, who);
}

USUAL void forks_done(void)
{
	write_who(&latest, FORKS_NOBODY);
}

bool forks_any_lives(struct forks *all)
{
	uint64_t now;
	uint32_t who;

	for (unsigned i = 0; i < N_FORKS; i++) {
		now = atomic_load(&all->words[i]);
		who = now & WHO;
		if (who == FORKS_NOBODY)
			continue;
		if (!has_ended(who & ~FORKS_BY))
			return true;
		(void)atomic_compare_exchange_strong(&all->words[i], &now, now & ~(uint64_t)WHO);
	}
	return false;
}
