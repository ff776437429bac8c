/* What psid and the starter say to each other: both are of one installation, on one machine. */
#ifndef PULC_PSID_STARTER_H
#define PULC_PSID_STARTER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "clone.h"

#define STARTER_VERSION 1u
#define STARTER_CGROUP (1u << KEEPER_N_FDS) /* in `has`: the last descriptor */

/* The starter begins. */
struct starter_hello {
	uint32_t version;
	char cgroup[252]; /* its own, of version 2: "/system.slice/..."; "": none */
};

/* With a descriptor for each bit of `has`, in order: the keeper's gifts, then its cgroup. */
struct starter_request {
	uint32_t has;
	char id[KEEPER_SIZE_ID];
};

/* With a pidfd if pid is positive; else negative errno. */
struct starter_answer {
	int32_t pid;
};

/* Psid's side. Each is one short conversation; returns 0 or a pid, negative errno. */
int psid_starter_cgroup(const char *socket, char *buf, size_t size);
pid_t psid_starter_clone(const char *socket, const char *id, const struct psid_gifts *gifts,
			 int cgroup_fd, int *ret_pidfd);

#endif
