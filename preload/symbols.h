/* How symbols.def is read: its macros for parameter lists, libc's own functions, and the shim's
 * handlers. */
#ifndef PULC_PRELOAD_SYMBOLS_H
#define PULC_PRELOAD_SYMBOLS_H

#include <aio.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

/* No system call has the same parameters. Old calls that newer architectures lack count as such. */
#define NONE (-1)
#ifndef SYS_poll
#define SYS_poll NONE
#define SYS_select NONE
#define SYS_epoll_create NONE
#define SYS_epoll_wait NONE
#define SYS_dup2 NONE
#endif

struct io_uring;
struct io_uring_params;
struct termios;
struct winsize;
typedef void *pre_thread_main(void *);
typedef int pre_clone_main(void *);

/* (type, name) pairs as declarations, as names, as casts of the words of an array a[]. */
#define PRE_DECL_(type, name) type name
#define PRE_NAME_(type, name) name
#define PRE_WORD_(type, name) (long)name
#define PRE_TYPE_(type, name) (type)
#define PRE_PARAMS_0() void
#define PRE_PARAMS_1(p) PRE_DECL_ p
#define PRE_PARAMS_2(p, ...) PRE_DECL_ p, PRE_PARAMS_1(__VA_ARGS__)
#define PRE_PARAMS_3(p, ...) PRE_DECL_ p, PRE_PARAMS_2(__VA_ARGS__)
#define PRE_PARAMS_4(p, ...) PRE_DECL_ p, PRE_PARAMS_3(__VA_ARGS__)
#define PRE_PARAMS_5(p, ...) PRE_DECL_ p, PRE_PARAMS_4(__VA_ARGS__)
#define PRE_PARAMS_6(p, ...) PRE_DECL_ p, PRE_PARAMS_5(__VA_ARGS__)
#define PRE_PARAMS_7(p, ...) PRE_DECL_ p, PRE_PARAMS_6(__VA_ARGS__)
#define PRE_ARGS_0()
#define PRE_ARGS_1(p) PRE_NAME_ p
#define PRE_ARGS_2(p, ...) PRE_NAME_ p, PRE_ARGS_1(__VA_ARGS__)
#define PRE_ARGS_3(p, ...) PRE_NAME_ p, PRE_ARGS_2(__VA_ARGS__)
#define PRE_ARGS_4(p, ...) PRE_NAME_ p, PRE_ARGS_3(__VA_ARGS__)
#define PRE_ARGS_5(p, ...) PRE_NAME_ p, PRE_ARGS_4(__VA_ARGS__)
#define PRE_ARGS_6(p, ...) PRE_NAME_ p, PRE_ARGS_5(__VA_ARGS__)
#define PRE_ARGS_7(p, ...) PRE_NAME_ p, PRE_ARGS_6(__VA_ARGS__)
#define PRE_WORDS_0() 0, 0, 0, 0, 0, 0
#define PRE_WORDS_1(p) PRE_WORD_ p, 0, 0, 0, 0, 0
#define PRE_WORDS_2(p, q) PRE_WORD_ p, PRE_WORD_ q, 0, 0, 0, 0
#define PRE_WORDS_3(p, q, r) PRE_WORD_ p, PRE_WORD_ q, PRE_WORD_ r, 0, 0, 0
#define PRE_WORDS_4(p, q, r, s) PRE_WORD_ p, PRE_WORD_ q, PRE_WORD_ r, PRE_WORD_ s, 0, 0
#define PRE_WORDS_5(p, q, r, s, t)                                                                 \
	PRE_WORD_ p, PRE_WORD_ q, PRE_WORD_ r, PRE_WORD_ s, PRE_WORD_ t, 0
#define PRE_WORDS_6(p, q, r, s, t, u)                                                              \
	PRE_WORD_ p, PRE_WORD_ q, PRE_WORD_ r, PRE_WORD_ s, PRE_WORD_ t, PRE_WORD_ u
#define PRE_WORDS_7(number, p, q, r, s, t, u) PRE_WORDS_6(p, q, r, s, t, u)
#define PRE_CASTS_1(p) PRE_TYPE_ p a[0]
#define PRE_CASTS_2(p, q) PRE_CASTS_1(p), PRE_TYPE_ q a[1]
#define PRE_CASTS_3(p, q, r) PRE_CASTS_2(p, q), PRE_TYPE_ r a[2]
#define PRE_CASTS_4(p, q, r, s) PRE_CASTS_3(p, q, r), PRE_TYPE_ s a[3]
#define PRE_CASTS_5(p, q, r, s, t) PRE_CASTS_4(p, q, r, s), PRE_TYPE_ t a[4]
#define PRE_CASTS_6(p, q, r, s, t, u) PRE_CASTS_5(p, q, r, s, t), PRE_TYPE_ u a[5]

/*
 * libc's functions, or those of the next preloaded library. Never NULL: until the lookup is done
 * each member asks the kernel directly. Optional arguments stand as fixed ones: the calling
 * conventions of the supported machines pass both alike.
 */
struct pre_real {
#define PRE_FD(served, ret, name, sys, n, ...) ret (*name)(PRE_PARAMS_##n(__VA_ARGS__));
#define PRE_CHECKED(ret, name, of, args, fits, n, ...) ret (*name)(PRE_PARAMS_##n(__VA_ARGS__));
#include "symbols.def"
};
extern struct pre_real pre_real;

/* False in a program that asked for PULC_DISABLE=1: nothing is ever tracked. */
extern bool pre_enabled;

/* The program is behind a seccomp filter, has a ring of the kernel's or descriptors that somebody
 * else closes, or is about to: the shim does nothing any more (aside.c). */
extern bool pre_aside;
void pre_step_aside(void);
/* syscall(SYS_io_uring_setup, ...) is about to be made by this code: is it to be told that there is
 * no such call? */
bool pre_denies_ring(const void *caller);
/* syscall(SYS_seccomp, operation, flags, filter) is about to be made. */
void pre_seccomp(unsigned operation, const void *filter);

/* Looks libc's functions up, once. False while this very thread is in the middle of doing so. */
bool pre_start(void);
/* The same for a function of a library that the program may have loaded later, by itself. */
void pre_look_in(const char *library, const char *name, void *slot);
/* The function that others find under that name, if it is the shim's; NULL: it has none, or another
 * library stands before it. */
void *pre_look_here(const char *name);
/* Does the library, or program, that has this code have a function of that name? */
bool pre_is_beside(const void *code, const char *name);

/* syscall(number, a[0] ...): true if it is one of the table's calls; then its handler's answer. */
bool pre_route(long number, const long *a, long *ret_answer);

/* The same for those that make children. */
bool pre_route_clone(long number, const long *a, long *ret_answer);

/*
 * The handlers: same parameters as the function, and its result, a failure as negative errno.
 * They are written in the files of their topics.
 */
#define PRE_FD(served, ret, name, sys, n, ...) ret pre_##name(PRE_PARAMS_##n(__VA_ARGS__));
#include "symbols.def"

#endif
