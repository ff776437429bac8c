/* A job, or the part of it that runs on this node. */
#ifndef PULC_PSID_JOB_H
#define PULC_PSID_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job.pb-c.h"
#include "client.pb-c.h"
#include "cluster.h"
#include "deadline.h"
#include "loop.h"
#include "map.h"
#include "peer.pb-c.h"
#include "root.h"

#define JOB_SIZE_ID 80 /* "17@" and a node's name of up to 63 bytes */
#define JOB_SIZE_NODE 64
#define JOB_SIZE_WAITS 192 /* why it has not begun */
#define JOB_SIZE_PROGRAM 65
#define JOB_N_TASKS_MAX 65536u
#define JOB_N_CPUS_MAX 4096u /* of a task; of all tasks of a job together they fit into 32 bits */
#define JOB_MSEC_ANSWER 2000 /* of another node to a question */

struct psid;
struct psid_processors;
struct psid_spare;
struct psid_zygote;
struct psid_client;
struct psid_wait;
struct psid_user;

#define JOB_N_USE_ASKERS 8u
#define JOB_N_SIGNALS 128u /* that wait: each number for all tasks, and some for one */
#define JOB_N_EARLY 64u	   /* failures of a launch kept until the head keeper is there */

/* One line for people: why not. */
struct job_why {
	char text[200];
};
/* Fills it in and returns r. */
int job_why(struct job_why *why, int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

struct job_task {
	uint32_t rank, pid, code;
	Pulc__Wire__TaskState state;
	bool is_known; /* its keeper has told of it */
};

/* For all tasks, or (one more than its rank) only for one. */
struct job_signal {
	uint32_t number, only;
};

/* A place that was lost before the head keeper was there, and why, or NULL. */
struct job_early {
	uint32_t here;
	char *text;
};

struct psid_job {
	struct psid_map_node node; /* jobs->by_id, by the hash of its id */
	struct psid *psid;
	struct psid_user *user;
	char id[JOB_SIZE_ID];
	uint32_t number;
	char program[JOB_SIZE_PROGRAM];
	char partition[JOB_SIZE_NODE]; /* "": none */
	char reservation[JOB_SIZE_ID]; /* the job whose processors it uses; "": none */
	bool reserves;		       /* it is such a one */
	bool head;		       /* started from this node */
	uint32_t n_ranks;
	uint32_t n_cpus; /* of each task; 0: one, and not bound */
	uint64_t usec_started;
	uint64_t usec_alone; /* reservation.c: since when its reservation is not here; 0: it is */
	uint64_t usec_ended; /* time.c: its time was up, and it was told so; 0: not yet */
	uint64_t *places;    /* head: the nodes of its places */
	uint32_t n_places;
	struct job_early early[JOB_N_EARLY]; /* launch.c */
	uint32_t n_early;

	/* On this node: */
	uint32_t n_tasks;
	struct job_task *tasks;
	pid_t keeper;
	int pidfd; /* the keeper's */
	bool is_child, has_poll, released;
	bool is_foreign; /* keep.c: its keeper is of another version, and never calls */
	bool is_claimed; /* keep.c: nothing but its keeper's word says that there is such a job */
	uv_poll_t poll;
	struct psid_client *client; /* the keeper's; NULL: not there, or not yet */
	/* end.c: to be told to the keeper when it calls: its end, or signals, in their order */
	bool end_waits;
	char end_why[JOB_SIZE_WAITS];
	struct job_signal signals[JOB_N_SIGNALS];
	uint32_t n_signals;
	bool has_cgroup;
	/* bind.c: what its tasks are bound to, positions in the order of processors */
	uint32_t *cpus;
	size_t n_bound;
};

struct psid_jobs {
	struct psid *psid;
	struct psid_map by_id;
	unsigned n_handles;   /* of libuv's, being closed */
	uint32_t last_number; /* number.c */
	int number_fd;
	char node[JOB_SIZE_NODE]; /* this node's name */
	char keeper[512];	  /* the program */

	struct psid_cluster_watch watch;    /* launch.c */
	struct psid_processors *processors; /* bind.c */

	/* survey.c: questions that other nodes have not answered yet */
	LIST_HEAD(, psid_survey) surveys;
	struct psid_deadlines answers;
	struct psid_cluster_watch survey_watch;
	uint32_t last_survey;
	/* end.c: the same of kills */
	LIST_HEAD(, psid_kill) kills;
	struct psid_deadlines kill_answers;
	struct psid_cluster_watch kill_watch;
	uint32_t last_kill;
	/* wait.c */
	LIST_HEAD(, psid_wait) waits;
	uv_timer_t wait_timer;
	uv_timer_t time_timer; /* time.c */
	/* use.c: who decides about partitions, and has asked lately */
	struct psid_use_asker {
		uint64_t node, usec;
	} use_askers[JOB_N_USE_ASKERS];
	uint64_t use_sum; /* of what was told last */

	struct psid_zygote *zygote; /* zygote.c; NULL: none is there */
	struct psid_spare *spare;   /* spare.c; NULL: none is there */
	uv_timer_t idle_timer;	    /* until both go */

	/* cgroup.c */
	char cgroup_root[PSID_SIZE_ROOT]; /* "": there is none */
	int cgroup_fd;
	uv_timer_t sweep;
	/* orphans.c */
	uv_signal_t sigchld;
};

/* job.c: a new one in the table, without a keeper yet; NULL: no memory, or the id is taken. */
struct psid_job *psid_job_new(struct psid *psid, struct psid_user *user, const char *id);
struct psid_job *psid_job_find(struct psid *psid, const char *id);
/* Watches the process of its keeper; takes pidfd. Returns 0, negative errno. */
int psid_job_watch(struct psid_job *job, pid_t keeper, int pidfd, bool is_child);
/* Its keeper is gone, or never was: nothing of it survives here. Frees it. */
void psid_job_end(struct psid_job *job);
uint32_t psid_job_n_running(const struct psid_job *job);

/* number.c: the next job's, never used before by a psid of this run directory. */
uint32_t psid_job_number(struct psid *psid);

/*
 * place.c: which ranks run where. Returns 0 with places to free by psid_places_free; negative errno
 * with one line for people.
 */
int psid_job_place(struct psid *psid, const Pulc__Wire__Submit *submit, Pulc__Job__Start *start,
		   struct job_why *why);
/* May start->identity use the partition that is wanted? Returns 0; -ENOENT, -EPERM, with one line
 * for people. */
int psid_job_may_use(struct psid *psid, const Pulc__Wire__Submit *submit,
		     const Pulc__Job__Start *start, struct job_why *why);
/* Are the nodes that are named there, and in the partition? Returns 0; -EHOSTUNREACH, -EPERM,
 * -E2BIG with one line. */
int psid_job_may_name(struct psid *psid, const Pulc__Wire__Submit *submit, struct job_why *why);
/* The same with places that were granted. */
int psid_job_take_shares(struct psid *psid, const Pulc__Wire__Submit *submit,
			 Pulc__Peer__Share *const *shares, size_t n_shares, Pulc__Job__Start *start,
			 struct job_why *why);
/* Tasks placed on this node have not started after all. */
void psid_job_unplace(struct psid *psid, const char *name, size_t n_tasks, uint32_t n_cpus);
void psid_places_free(Pulc__Job__Start *start);

/* identity.c: who the client is, as the kernel says. Returns 0 with an identity to free, negative
 * errno. */
int psid_job_identity(const struct psid_client *client, Pulc__Job__Identity **ret_identity);
void psid_identity_free(Pulc__Job__Identity *identity);

/*
 * bind.c: chooses processors for the tasks of this node, if they are to be bound, and writes them
 * into start. Returns 0, negative errno. psid_bindings_free takes them out again.
 */
int psid_job_bind(struct psid_job *job, Pulc__Job__Start *start);
void psid_bindings_free(Pulc__Job__Start *start);

/* spawn.c: where the keeper is, found once. Returns 0, negative errno. */
int psid_job_find_keeper(struct psid_jobs *jobs);
/* Starts the keeper of a job. The descriptors stay the caller's. Returns 0; -ENOPKG: there is no
 * keeper; other negative errno. */
int psid_job_spawn(struct psid_job *job, Pulc__Job__Start *start, int owner_fd, int listen_fd);
/* For people: why a job could not be started. */
const char *psid_job_error(int r);

/*
 * launch.c: key and address of a job on several nodes, into start; a job on this node alone gets
 * neither. Returns 0, negative errno; psid_job_forget_launch frees what is there in any case.
 */
int psid_job_prepare_launch(struct psid *psid, Pulc__Job__Start *start, int *ret_listen_fd);
void psid_job_forget_launch(Pulc__Job__Start *start);
/* Why this node may not run tasks of a job of this user and partition ("": none); NULL: it may. */
const char *psid_job_objection(struct psid *psid, const char *id, const char *partition,
			       uint32_t uid);
/* Has the keepers of the other places started. */
void psid_job_launch(struct psid_job *job, const Pulc__Job__Start *start);
/* The head keeper is there: it hears what has gone wrong before. */
void psid_job_tell_early(struct psid_job *job);
void psid_job_forget_early(struct psid_job *job);
void psid_jobs_join(struct psid *psid);

/* list.c: is this job meant by "17@n1", or by "17" on its own node? */
bool psid_job_is_named(const struct psid_job *job, const char *name);
/* The name of the node that a job was started from, out of its own. */
const char *psid_job_origin(const char *id);
void psid_lists_join(struct psid *psid);

/* use.c: what runs here, for those who decide about partitions. */
void psid_use_join(struct psid *psid);
void psid_use_changed(struct psid *psid);

/* time.c: a job has come; it is looked at from now on if its time may be limited. */
void psid_job_time_look(struct psid_job *job);
void psid_job_times_start(struct psid *psid);

/* survey.c: lists of the whole cluster. */
void psid_surveys_start(struct psid *psid);
void psid_surveys_close(struct psid *psid);
void psid_survey_forget(struct psid_client *client);

/*
 * end.c: a signal for its tasks, or (0) their end, through its keeper. only: one more than the rank
 * that it is for; 0: all of them.
 */
void psid_job_signal(struct psid_job *job, uint32_t signal, uint32_t only);
/* Its end, on all nodes if its head keeper is here, and why, which its owner hears. */
void psid_job_end_for(struct psid_job *job, const char *why);
/* Its keeper is there: it hears what was sent before. */
void psid_job_tell_signals(struct psid_job *job);
void psid_kills_start(struct psid *psid);
void psid_kills_close(struct psid *psid);
void psid_kill_forget(struct psid_client *client);
void psid_job_set_program(struct psid_job *job, const char *name);
/* Tells the cluster how many tasks run here. */
void psid_jobs_count(struct psid *psid);

/* cgroup.c */
void psid_cgroups_start(struct psid *psid);
/*
 * Makes the cgroup of a job, for this user's keeper. Returns 0 with a descriptor of the keeper's
 * and one of the tasks'; -ENOENT: there are none here; negative errno.
 */
int psid_cgroup_make(struct psid *psid, const char *id, uid_t uid, int *ret_keeper, int *ret_tasks);
/* One that was made for us is this user's keeper's now. Returns 0, negative errno. */
int psid_cgroup_give(struct psid *psid, const char *id, uid_t uid);
/* Is this process in it? */
bool psid_cgroup_has(const struct psid_jobs *jobs, const char *id, pid_t pid);
/* The job in whose cgroup it is, as a keeper is. */
bool psid_cgroup_find(const struct psid_jobs *jobs, pid_t pid, char ret_id[JOB_SIZE_ID]);
/* Kills everything in it, and removes it, now or soon. */
void psid_cgroup_remove(struct psid *psid, const char *id);

/* orphans.c: who has lost keeper and cgroup comes to us, their subreaper. */
int psid_orphans_start(struct psid *psid);
void psid_orphans_kill(struct psid *psid);

#endif
