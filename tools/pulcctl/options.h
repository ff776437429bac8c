/* pulcctl's command line. */
#ifndef PULCCTL_OPTIONS_H
#define PULCCTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum ctl_command {
	CTL_STATUS,
	CTL_SOCKETS,
	CTL_CLIENTS,
	CTL_PORTS,
	CTL_JOBS,
	CTL_QUEUE,
	CTL_TASKS,
	CTL_KILL,
	CTL_NODES,
	CTL_AREAS,
	CTL_TOP,
	CTL_DRAIN,
	CTL_UNDRAIN,
	CTL_PARTITION,
	CTL_KEYGEN,
	CTL_RELOAD,
	CTL_LOGLEVEL,
	CTL_STOP,
	CTL_VERSION
};

enum ctl_partition {
	CTL_PARTITION_LIST,
	CTL_PARTITION_CREATE,
	CTL_PARTITION_SET,
	CTL_PARTITION_DELETE
};

/* What is to be so of a partition. */
enum ctl_choice { CTL_UNSAID, CTL_YES, CTL_NO };

#define CTL_N_USERS_MAX 256u /* of a partition */
#define CTL_N_LIMITS_MAX 16u

enum ctl_keygen { CTL_KEY_MAKE, CTL_KEY_ADD, CTL_KEY_USE, CTL_KEY_DROP_OLD, CTL_KEY_LIST };

struct ctl_options {
	enum ctl_command command;
	bool json;
	bool no_headers;
	bool peers;	     /* ports: a line for each peer of each */
	bool here;	     /* jobs, tasks: of the node that is asked only */
	uint64_t usec_watch; /* 0: show once */
	unsigned pid;	     /* 0: all */
	unsigned port;	     /* 0: all */
	const char *path;    /* NULL: all */
	const char *job;     /* tasks: NULL: of all; kill: which, the first of: */
	char *const *jobs;
	unsigned n_jobs;
	const char *node;  /* nodes: NULL: all; drain, undrain: NULL: this one */
	const char *level; /* loglevel: NULL: only asks */
	const char *file;  /* keygen: NULL: the usual one */
	enum ctl_keygen keygen;
	const char *key; /* CTL_KEY_USE: which */
	enum ctl_partition partition;
	const char *name;  /* partition: which; NULL: all */
	const char *nodes; /* partition create, set: its list */
	enum ctl_choice exclusive, is_default;
	const char *owner; /* NULL: who asks */
	const char *users[CTL_N_USERS_MAX];
	unsigned n_users;
	uint32_t uids[CTL_N_USERS_MAX]; /* lists: whose entries; n_uids 0: everybody's */
	unsigned n_uids;
	bool all_users;
	const char *limits[CTL_N_LIMITS_MAX];
	unsigned n_limits;
	unsigned signal; /* kill: 0: whatever it takes */
};

/* Returns 0; 1: help was asked for and given; -EINVAL: wrong, and stderr says how. */
int ctl_options_parse(int argc, char **argv, struct ctl_options *ret_options);

#endif
