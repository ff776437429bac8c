/* What psid and a keeper that it starts have agreed about. */
#ifndef PULC_KEEPER_FDS_H
#define PULC_KEEPER_FDS_H

#include <stdint.h>

/* Descriptors that psid gives to a keeper at its start. */
enum keeper_fd {
	KEEPER_FD_START =
		3, /* the encoded Start, a memory file; or a socket where struct keeper_gifts comes */
	KEEPER_FD_OWNER = 4,  /* head: the channel to the owner; other keepers: nothing */
	KEEPER_FD_CGROUP = 5, /* the cgroup of the tasks, a directory; or nothing */
	KEEPER_FD_LISTEN =
		6, /* head of a job on several nodes: where other keepers call; or nothing */
	KEEPER_FD_END = 7,
};

/* What the kernel shows as the name of a keeper that has no job yet. */
#define KEEPER_NAME_WAITS "keeper-waits"
#define KEEPER_NAME "keeper"

/* To a keeper that was there before its job: one packet, with a descriptor for each bit, in their order. */
struct keeper_gifts {
	uint32_t has; /* bit 0: KEEPER_FD_START, and so on */
};

#endif
