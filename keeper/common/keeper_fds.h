/* What psid and a keeper that it starts have agreed about. */
#ifndef PULC_KEEPER_FDS_H
#define PULC_KEEPER_FDS_H

#include <stdint.h>

/* Descriptors that psid gives to a keeper at its start. */
enum keeper_fd {
	KEEPER_FD_START =
		/* the encoded Start, a memory file; or a socket where struct keeper_copy comes */
	3,
	KEEPER_FD_OWNER = 4,  /* head: the channel to the owner; other keepers: nothing */
	KEEPER_FD_CGROUP = 5, /* the cgroup of the tasks, a directory; or nothing */
	KEEPER_FD_LISTEN =
		6, /* head of a job on several nodes: where other keepers call; or nothing */
	KEEPER_FD_END = 7,
};

#define KEEPER_N_FDS (KEEPER_FD_END - KEEPER_FD_START)
#define KEEPER_SIZE_ID 80 /* JOB_SIZE_ID */

/* What the kernel shows as the name of the keeper that is copied, of one that has no job yet, and
 * of one that has. */
#define KEEPER_NAME_ZYGOTE "keeper-zygote"
#define KEEPER_NAME_WAITS "keeper-waits"
#define KEEPER_NAME "keeper"

/* To a keeper that is to be copied: a packet with a socket, and the cgroup of the copy if there is
 * one. */
struct keeper_copy {
	/* the job is on several nodes: TLS will be needed, now and probably again */
	uint32_t calls;
	char id[KEEPER_SIZE_ID]; /* the job's, for people who list processes */
};

/* And back, with a pidfd of the copy if pid is positive; else negative errno. */
struct keeper_copied {
	int32_t pid;
};

/* To the copy through its socket: one packet, with a descriptor for each bit, in their order. */
struct keeper_gifts {
	uint32_t has; /* bit 0: KEEPER_FD_START, and so on */
};

#endif
