/* Children that were made and have not said that they run. */
#ifndef PULC_LIBPULC_FORKS_H
#define PULC_LIBPULC_FORKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* So many at a time; of more nothing is known. */
#define N_FORKS 31u

/* In the memory of a family. Each word: the number of a fork; below it whose process number is
 * known. */
struct forks {
	_Atomic uint64_t n; /* ever made */
	_Atomic uint64_t words[N_FORKS];
};

/* Who is known: nobody; the child, by its process number; the one who makes it and will tell that,
 * by his. */
#define FORKS_NOBODY 0u
#define FORKS_BY 0x40000000u

/* A fork begins, of which this is known. Under the lock that it holds. */
void forks_begin(struct forks *all, uint32_t who);
/* The same of this thread's last fork, now, if the child has not said that it runs. */
void forks_tell(uint32_t who);
/* In the child, or where there is none: the fork that began last is over. */
void forks_done(void);
/* Lives one that is known? Asks the kernel; forgets the others. */
bool forks_any_lives(struct forks *all);

#endif
