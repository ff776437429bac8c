/*
 * This process as a client of its psid: the channel, its number, its boards, its byte credit, and
 * what psid's messages set off. One lock guards it all; it is never held while sleeping.
 */
#ifndef PULC_LIB_CLIENT_H
#define PULC_LIB_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "channel.h"
#include "layout.h"
#include "tcp.h"

/* Takes the lock of libpulc's process-wide state. False: this thread holds it (we are in a signal
 * handler). */
bool client_lock(void);
void client_unlock(void);

/* Under the lock, all of these. */

/*
 * Makes sure that we are attached or on the way; 0, or why not (-ENOENT: no psid; -EPERM: refused;
 * -EAGAIN: psid does not accept now; -EMFILE and the like). What has just failed is not tried again
 * at once: then the answer is the one that the last attempt had.
 */
int client_attach(void);
/* Why there is no channel, or it ended before psid had said Welcome; as client_attach. */
int client_why(void);
/* Reads whatever psid has sent and acts on it. */
void client_look(void);
/* Goes to another psid if this one has ended. */
void client_glance(void);
/* Sends; -ENOTCONN when there is no psid. A psid that does not read makes this -EAGAIN. */
int client_send(const Pulc__Wire__FromClient *msg, const int *fds, size_t n_fds);
/* psid reads, but the channel was full: client_look is to be called again before long. No lock. */
bool client_owes(void);
/* Forgets the channel: psid is gone, or we are a forked child. */
void client_detach(void);

/* When psid may be looked for again (nsec_now); UINT64_MAX: never, we were refused. */
uint64_t client_next_attempt(void);
/* The channel's descriptor, -1: none. */
int client_channel(void);
/* Is the process's user still the one that psid knows? */
bool client_is_itself(void);
/* The process whose memory this is: another one than the caller's in a child that borrows it
 * (vfork). */
int client_pid(void);
/* The caller is such a child, with descriptors of its own: what it receives or makes would be
 * nothing to this process. A system call. */
bool client_is_borrowed(void);
/* This process makes no system call for our sake any more. */
bool client_is_confined(void);

/* Our number, 0 before Welcome; the mapped boards. */
uint32_t client_id(void);
/* This node's number in its cluster, as the last psid said; 0: it is in none. */
uint32_t client_node(void);
struct shm_boards *client_boards(void);
/* The number that this process had before it was forked off, 0: none. */
uint32_t client_parent(void);
/* Data calls before a hint. */
uint32_t client_hint_after(void);

/* Takes `size` bytes of credit to grow a ring with. Never asks, never blocks. */
enum tcp_credit client_credit_take(uint64_t size);
/* Asks psid for more if somebody found it short, or will soon (true); takes up what psid has given.
 * Not to be called with a lock held. */
bool client_credit_ask(void);
/* Waits (milliseconds) until psid has answered, and takes up what it gave, or until it is as good
 * as none: from then on credit is granted or denied. */
void client_credit_await(void);
void client_credit_return(uint64_t size);

/* At start, and in a forked child that is about to have threads: makes what is better made while
 * there is one. */
void client_prepare(void);
/* For a forked child, whose lock and channel are its parent's. */
void client_forked(int pid);
/* Every client_attach after a lost psid makes a new generation: what was told to the old one must
 * be told again. */
uint32_t client_generation(void);
/* How many psids this process, and those it was forked from, have been attached to. */
uint32_t client_n_psids(void);

#endif
