/* Epoll sets: which files are members, and the waits. */
#ifndef PULC_PRELOAD_EPOLL_H
#define PULC_PRELOAD_EPOLL_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pre_file;
struct pre_set;

/* f's last descriptor is about to be closed: its memberships and, of a set, its members end; f is
 * retired. */
void pre_epoll_closed(struct pre_file *f);
/* One of f's descriptors, fd, is about to be closed; others remain. */
void pre_members_moved(struct pre_file *f, int fd, int other);
/* A send on f was cut short: room on it is news from now on. */
void pre_members_full(struct pre_file *f);
/* Sets that are waited for themselves, perhaps as members of others. */
extern _Atomic uint32_t pre_n_exposed;
/* Makes the kernel's view of a set's readiness true from now on, for somebody who waits for the set
 * itself. False: it is all there is to it, as long as no other thread changes that. */
bool pre_set_expose(struct pre_set *set);
/* Sets without a bell that could be heard (mute). */
extern _Atomic uint32_t pre_n_mute;
/* To be called before a sleep that may last for nsec, on a set that may have others in it, or,
 * NULL, on others: how long it may while there are mute ones, which are refreshed then. */
uint64_t pre_sets_patience(const struct pre_set *outer, uint64_t nsec);
/* f is a set that has just been added to another one, changed or deleted there: it is exposed as
 * long as one of these wants to know of it. Many are members that nobody asks anything of, for a
 * time or for ever. No lock is held. */
void pre_set_expose_member(struct pre_file *f);
/*
 * *said is what the kernel has answered of a set that is exposed. It may have said ready for what
 * is no event of the program's: its own word on a member that sends through its ring, say, that
 * came after the set was made truthful. So the set is made truthful again and asked again: what it
 * says then is in said->revents. Of a forked child's members the kernel knows nothing: what they
 * have is added.
 */
void pre_set_believe(struct pre_set *set, struct pollfd *said);
/* NULL: nothing happens. This thread holds no lock. */
void pre_set_free(struct pre_set *set);

void pre_epoll_start(void);
/* Around a fork: nobody changes the records meanwhile. */
void pre_epoll_fork_begin(void);
void pre_epoll_fork_done(void);
void pre_epoll_forked(void);

#endif
