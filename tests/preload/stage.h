/* The memory that the actors of a case and their supervisor share. */
#ifndef PULC_TESTS_STAGE_H
#define PULC_TESTS_STAGE_H

#include "case.h"

#include <pthread.h>
#include <stdatomic.h>

#define N_STAGE_WORDS 32

struct log_part {
	size_t size;
	char text[256 * 1024];
};

struct stage {
	pthread_barrier_t barrier;
	_Atomic unsigned phase[2]; /* that each actor has entered */
	pid_t tid[2], pid[2];
	_Atomic int is_warm;	 /* the connection was seen on rings, both ways */
	_Atomic int on_rings[2]; /* that side's last byte did not pass through the kernel */
	struct address addresses[2];
	_Atomic long words[N_STAGE_WORDS];
	struct log_part part[2], log;
};

/* What the environment asks of the warm-up: WARM_RINGS, or a number of exchanges. */
#define WARM_RINGS (-1)
int warm_goal(void);

void play_phase(struct play *p);
void play_open(struct play *p);
void play_warm(struct play *p);
void play_prepare_listener(struct play *p);
void play_open_datagrams(struct play *p);
void play_warm_datagrams(struct play *p);
bool warm_goes_on(struct stage *stage, unsigned n_done, uint64_t usec_start);
void warm_conclude(struct stage *stage);
void address_of(const char *host, uint16_t port, struct address *ret_address);
/* Tells the supervisor that the connections are as wanted, and waits for its leave to go on. */
void play_gate(struct play *p);

/* exec.c: what this program is when a case executes it. Sends back all that comes on fd, or counts
 * it; the exit status. */
int echo_until_end(int fd);
int count_until_end(int fd);
/* Waits for the end of gate. 0: the whole pattern has come, or its beginning and then a reset. */
int check_pattern(int fd, size_t len, int gate);
/* exec_owed.c: sends len bytes of the pattern that begin with byte `from`. */
int write_pattern(int fd, size_t len, size_t from);
/* downgrade.c: the same with a descriptor that is passed to it. */
int echo_passed(int via);

#endif
