/* The cgroup that this process is in. */
#ifndef PULC_PSID_CGROUP_OWN_H
#define PULC_PSID_CGROUP_OWN_H

#include <stddef.h>

/* Of version 2: "/system.slice/..."; "" for the topmost one. Returns 0; negative errno. */
int psid_cgroup_own(char *buf, size_t size);

#endif
