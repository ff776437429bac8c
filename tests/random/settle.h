/* Waiting until nothing moves any more, without a clock that decides. */
#ifndef PULC_TESTS_SETTLE_H
#define PULC_TESTS_SETTLE_H

#include <stdbool.h>
#include <sys/types.h>

/* Two of this process's processors for it and all that it starts. 0, or -1. */
int settle_begin(void);
/* Returns when what was sent over the loopback device has arrived, and what that has caused. psid:
 * one to be waited for as well, or 0. */
void settle(pid_t psid);
/* A letter of proc_pid_stat(5), X: there is no such process. */
char process_state(pid_t pid);
/* The process sleeps, and has at each of a few looks. */
bool is_asleep(pid_t pid);

#endif
