/*
 * Tests of the native interface: each role is a process of its own, forked before anything is
 * attached, under one psid of the test's. A role that fails says where and exits with 1.
 */
#ifndef PULC_TESTS_NATIVE_CASE_H
#define PULC_TESTS_NATIVE_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <pulc/tag.h>

#include "harness.h"

#define MUST(expr)                                                                                 \
	do {                                                                                       \
		if (!(expr)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expr);                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define MUST_IS(a, b)                                                                              \
	do {                                                                                       \
		long long must_a_ = (long long)(a), must_b_ = (long long)(b);                      \
		if (must_a_ != must_b_) {                                                          \
			fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__,  \
				#a, must_a_, #b, must_b_);                                         \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

typedef void native_role(void);

/* Runs the roles, each in a process, under a psid; the test fails if one does. */
void native_run(native_role *const roles[], size_t n);
#define NATIVE_RUN(...)                                                                            \
	do {                                                                                       \
		native_role *const roles_[] = { __VA_ARGS__ };                                     \
		native_run(roles_, sizeof(roles_) / sizeof(roles_[0]));                            \
	} while (0)
/* The process of role number i, for the test's own thread: `during` runs beside the roles. */
void native_run_with(native_role *const roles[], size_t n, void (*during)(const pid_t *pids));
/* Theirs, for `during`. */
struct daemon;
struct daemon *native_daemon(void);
/* Under a psid for all users; needs root. A role that is to be another user's says so before
 * anything else. */
void native_run_for_users(native_role *const roles[], size_t n);
void native_become(uid_t uid);
/* The same, and one of the roles kills psid. */
void native_run_lost(native_role *const roles[], size_t n);

/* In a role. */
pulc_port *native_open(enum pulc_kind kind, const char *name);
/* The port of that name, waited for. */
struct pulc_address native_find(const char *name);
/* A receive, a send that has begun and must not be refused. */
pulc_op *native_receive_begin(pulc_port *p, void *to, size_t len, const struct pulc_address *from);
pulc_op *native_send_begin(pulc_port *p, const struct pulc_address *to, const void *from,
			   size_t len);
/* The process that has the port of that name; a tagged message begun, to it or from whom it may
 * come. */
uint32_t native_peer_named(const char *name);
pulc_op *native_tag_receive(struct pulc_tag want, void *to, size_t len);
pulc_op *native_tag_send(uint32_t peer, uint64_t tag, const void *from, size_t len);
/* Roles meet at a numbered point: the one that calls this waits until the other has called
 * native_reach(point). */
void native_reach(unsigned point);
void native_await(unsigned point);
/* Memory that all roles share, zeroed; native_unshare frees it. Call it before they run. */
void *native_share(size_t size);
void native_unshare(void *memory, size_t size);
bool native_is_reached(unsigned point);
/* Roles know each other's processes by numbers that they choose. */
void native_known_as(unsigned i);
pid_t native_pid_of(unsigned i);
pid_t native_psid(void);

/* A message's bytes, from its number. */
void native_fill(unsigned char *buf, size_t len, unsigned number);
bool native_holds(const unsigned char *buf, size_t len, unsigned number);

#endif
