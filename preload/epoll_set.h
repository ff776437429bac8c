/* An epoll set and its members, for the epoll_*.c files. */
#ifndef PULC_PRELOAD_EPOLL_SET_H
#define PULC_PRELOAD_EPOLL_SET_H

#include <sys/epoll.h>

#include "epoll.h"
#include "file.h"
#include "process.h"
#include "wait.h"

/* What a set that is a member of another one has to say. */
#define PRE_NESTED_ASKS (EPOLLIN | EPOLLRDNORM)
/* Members whose rings are looked at directly by a spinning waiter. */
#define PRE_N_HOT 64

/* What tells new data, and room that was waited for, from old. */
struct pre_marks {
	uint64_t in;
	uint32_t n_full;
};

/* How something of this node may come by a member before a ring has something (epoll_near.c). */
enum pre_near {
	PRE_NOT_NEAR,
	PRE_NEAR_LISTENER,
	PRE_NEAR_RING, /* its peer has not begun to send through it */
	PRE_NEAR_KERNEL,
	PRE_N_NEAR
};

/*
 * One registration: (set, file, descriptor number), as in the kernel. `ring` members are served
 * here, the others by the kernel and only remembered. All fields under the set's lock, the first
 * five also under the file's.
 */
struct pre_member {
	struct pre_pooled pooled;
	struct pre_set *set; /* NULL: free */
	struct pre_file *file;
	struct pre_member *next_of_file;
	int key; /* number it was added under */
	int fd;	 /* a descriptor of the file to make calls with */
	uint32_t events;
	epoll_data_t data;
	struct pre_member *prev_of_set, *next_of_set;

	bool ring;
	bool parked;	     /* to the program it is no member */
	pulc_stream *stream; /* a reference */
	uint32_t index;	     /* in set->rings */
	uint32_t serial;     /* tells late events of `inner` for an earlier user of the index */
	bool disarmed;	     /* one-shot, reported */
	bool watched;	     /* its peer will mark the board */
	bool placed;	     /* the watch stands in memory, fired or not */
	bool unsure;	     /* in the list of those whose peer may not */
	bool hot;
	uint32_t hot_index;
	uint32_t heated; /* number of the answer when it was last active */
	bool listed;	 /* in the ready list */
	bool in_order;	 /* ... at its place */
	bool edge;	 /* report whatever is ready, also to an edge-triggered user */
	bool told;	 /* by the board: look twice */
	bool asked;	 /* anew, by epoll_ctl: room may still be the kernel's to say */
	bool ask_kernel; /* the kernel knows something that memory does not */
	bool hears_room; /* and tells of it by `inner` */
	/* where the directions went at the last look, as pulc_stream_ready says it */
	unsigned sides;
	bool tagged;	    /* its socket is in the program's set, under the tag: the set is deaf */
	bool told_since;    /* since it moved */
	enum pre_near near; /* counted in set->n_near */
	/* one-shot, armed when it came to rings: set->n_moves then; 0: not */
	uint64_t moved;
	/* pulc_stream_peer_connects when the kernel was asked on its account */
	uint64_t n_connects;
	uint32_t answer;	/* the last one that it stands in */
	uint32_t listed_for;	/* the last one for which it was listed in the order of sending */
	uint32_t when;		/* since when it was ready, when it was found last */
	uint32_t armed;		/* by epoll_ctl, with something unread; 0: not */
	uint32_t said;		/* what for */
	struct pre_marks marks; /* as of the last report */
	struct pre_member *prev_ready, *next_ready;
	struct pre_member *next_unsure;
	struct pre_member *next_nested;
};

struct pre_set {
	struct pre_pooled pooled;
	struct pre_lock lock;
	int epfd; /* one of its descriptors */
	bool closed;
	/* somebody waits for the set itself: the kernel must know the truth at any time */
	bool exposed;
	bool counted_mute; /* in pre_n_mute */
	/* ... by poll or select, and may do so again; or by a set of which nothing is known */
	_Atomic bool polled;
	_Atomic bool has_rings; /* has or had ring members */
	/* pre_process_generation at its creation: another one now, the kernel's set is shared */
	uint32_t made;
	_Atomic uint32_t prepared; /* pre_process_generation when what follows was made; 0: never */
	uint64_t tag;		   /* data of `inner` in the program's set */
	int inner; /* the private epoll descriptor: ring members' kernel sockets and the bell */
	bool deaf; /* there is no `inner`, or it lacks something */
	uint64_t spoke; /* whose socket stood for a bell last */
	/* in a forked child: the one that is registered in the program's set */
	int inner_of_ancestor;
	pulc_waitset *waitset;	/* NULL: none to be had */
	unsigned psid_mark;	/* of the notice that `inner` holds; 0: none */
	_Atomic bool psid_said; /* that notice has said something */
	struct pre_member *members;
	struct pre_member *nested; /* those that are sets themselves */
	_Atomic bool has_nested;   /* has or had such */
	struct pre_member **rings; /* by index */
	uint32_t n_rings, size_rings;
	struct pre_member *ready, *ready_last;
	unsigned n_unordered; /* of these, not at their places yet */
	struct pre_member *unsure;
	struct pre_member *hot[PRE_N_HOT]; /* in no order */
	unsigned n_hot;
	unsigned next_hot; /* whose age is looked at next */
	_Atomic uint32_t n_answers;
	unsigned n_asleep;
	/* threads in the kernel's own call, begun before there were ring members */
	_Atomic unsigned n_native;
	_Atomic bool spinning;	    /* one thread at a time */
	_Atomic bool has_exclusive; /* has or had members with EPOLLEXCLUSIVE */
	_Atomic bool has_kernel;    /* has or had members that are the kernel's alone */
	_Atomic bool kernel_first;  /* rings filled a whole answer when the kernel was due */
	/* members by which the kernel may have to tell something first */
	_Atomic unsigned n_near[PRE_N_NEAR];
	unsigned n_until_recount; /* looks in order */
	unsigned n_ahead;	  /* events that the kernel has told while rings waited for room */
	unsigned next_neighbour;  /* whose processor is looked at next */
	_Atomic uint64_t n_moves; /* of one-shot members to rings, two each */
	_Atomic unsigned n_in_vain; /* waits in a row that were not to wait, and found nothing */
	struct pulc_spin spin;
	struct pre_looked looked;
};

/* The kernel's set belongs to an ancestor too: `inner` is not registered in it but waited for
 * beside it. */
static inline bool pre_set_inherited(const struct pre_set *set)
{
	return set->made != pre_process_generation;
}

/* Made and waited for in an ancestor: bell, board, `inner` and what is asked for in their name are
 * the ancestor's, and there is nothing here for this process to use or to take away. */
static inline bool pre_set_is_ancestors(const struct pre_set *set)
{
	uint32_t prepared = atomic_load_explicit(&set->prepared, memory_order_relaxed);

	return prepared != 0 && prepared != pre_process_generation;
}

/* Waited for itself, and without a bell that could be heard, or in a forked child, whose bell
 * stands beside the set: who waits has to refresh it often. */
static inline bool pre_set_is_mute(const struct pre_set *set)
{
	return set->exposed && set->n_rings &&
	       (!set->waitset || set->inner < 0 || pre_set_inherited(set));
}

/* Perhaps there is such a set among the members of this one. */
static inline bool pre_set_has_mute(const struct pre_set *set)
{
	return atomic_load_explicit(&pre_n_mute, memory_order_relaxed) > 0 &&
	       atomic_load(&set->has_nested);
}

/* Makes the kernel's view of all of them true. True: some are mute, and may be heard by another
 * set, if there is one (except). No lock is held. */
bool pre_sets_refresh(const struct pre_set *except);

/* Unlocks; does what signal handlers left to do meanwhile. */
void pre_set_unlock(struct pre_set *set);
void pre_file_unlock(struct pre_file *f);

/* ---- epoll_ring.c: the set's private half; under its lock ------------------------------------ */

/* Opens or, in a forked child, makes anew what the set's ring members need. */
void pre_set_prepare(struct pre_set *set);
/* Before a fork: makes of it what a child of this process must have too. */
void pre_set_forks(struct pre_set *set);
/* To be called before anything of it is used, but for the end of members and of the set itself. */
static inline void pre_set_own(struct pre_set *set)
{
	if (__builtin_expect(pre_set_is_ancestors(set), 0))
		pre_set_prepare(set);
}
void pre_rings_free(struct pre_set *set);
/* Makes a kernel member, whose stream is attached, a ring member. */
void pre_member_to_ring(struct pre_member *m);
/* Makes a member that the kernel's set does not have, or a parked one, a ring member. False: no
 * memory. */
bool pre_member_open_ring(struct pre_member *m);
/* Its events have changed: whatever is ready now is to be reported. */
void pre_member_rearm(struct pre_member *m);
/* Deleted by the program, and ready to be added again. */
void pre_member_park(struct pre_member *m);
/* Takes a ring member out of every list and out of `inner`. */
void pre_member_from_ring(struct pre_member *m);
/* Takes notice of what `inner` says: kernel events of ring members. */
void pre_set_drain(struct pre_set *set);
/* The same after a sleep or a look at the program's set; has the members of a deaf set examined. */
void pre_set_hear(struct pre_set *set);
/* The name of a ring member, by which `inner` knows it, and whose it is, NULL: it is no member any
 * more. */
#define PRE_NOBODY UINT64_MAX
uint64_t pre_member_name(const struct pre_member *m);
struct pre_member *pre_member_named(const struct pre_set *set, uint64_t name);
/* Asks m's peer to mark the board; lists m if it is ready already. */
void pre_member_watch(struct pre_member *m);
/* How long a sleeper may trust the bell. */
uint64_t pre_set_patience(struct pre_set *set);
/* That time is over: lists the members of which it was not sure; all: and of the others those that
 * memory shows to be ready. */
void pre_set_check(struct pre_set *set, bool all);
/* Passes on what was heard of psid's end. No lock is held. */
void pre_set_notice(struct pre_set *set);
/* Another waiter must look, if one sleeps. */
void pre_set_wake(struct pre_set *set);
/* What decides whether it is mute has changed. */
void pre_set_note_mute(struct pre_set *set);
/* Whoever leaves a set that others sleep on, or that is waited for itself, leaves nothing unwatched
 * and nothing ready unsaid. */
void pre_set_hand_over(struct pre_set *set);

/* ---- epoll_listing.c: what the kernel says of a set in /proc --------------------------------- */

/* A line of it. */
struct pre_listed {
	int fd;
	unsigned events;
};
/* How many lines have this in them and, unless it is negative, this number; the last of those.
 * -1: there is no listing to be had. */
int pre_set_listed(const struct pre_set *set, const char *wanted, int key,
		   struct pre_listed *ret_last);

/* ---- epoll_filter.c: what of the kernel's events is told ------------------------------------- */

/* Around the move of a one-shot member to rings, from before it is seen to be armed until it is out
 * of the kernel's set; under the lock. */
void pre_once_moves(struct pre_member *m);
void pre_once_moved(struct pre_member *m);
/* Takes those of the n events that the kernel gave which are not the program's to be told; how many
 * are left. n_moves: the set's, before the kernel was asked. No lock is held. *tagged is true if
 * `inner` has something. */
int pre_filter(struct pre_set *set, struct epoll_event *events, int n, uint64_t n_moves,
	       bool *tagged);

/* ---- epoll_nested.c: members that are sets themselves ---------------------------------------- */

/* Under both locks, as lists of memberships are. */
void pre_nested_join(struct pre_member *m);
void pre_nested_leave(struct pre_member *m);
/* Takes those of the n events that the kernel gave which prove false; how many are left. No lock is
 * held. */
int pre_nested_filter(struct pre_set *set, struct epoll_event *events, int n);

/* ---- epoll_ready.c: which ring members are ready; under the set's lock ----------------------- */

void pre_ready_list(struct pre_member *m);
void pre_ready_unlist(struct pre_member *m);
void pre_ready_cool(struct pre_member *m);
/* m tells nothing, whatever has been heard of it, until it is armed again. */
void pre_ready_disarm(struct pre_member *m);
/* By memory alone: has m something to report? */
bool pre_member_awake(struct pre_member *m);
/* What m's peer has to tell us of. */
unsigned pre_member_watched_events(const struct pre_member *m);
/* Room for events; no member stands twice in the answers of one number. */
struct pre_answer {
	struct epoll_event *events;
	uint64_t *names; /* whose they are; NULL: nobody needs to know */
	int n, max;
	uint32_t number;
};
/* Adds what is ready. Nothing that was sent before something in the answer is missing in it, if
 * there is room. */
void pre_ready_collect(struct pre_set *set, struct pre_answer *to);
/* Adds only those of which the kernel has said something. */
void pre_ready_collect_heard(struct pre_set *set, struct pre_answer *to);
/* For an event that had no room: m is to be reported by the next answers, before others. */
void pre_ready_take_back(struct pre_member *m);
/* True if a listed member has something to report; those that have not leave the list. */
bool pre_ready_settle(struct pre_set *set);
/* True if a collect might find something: a bit on the board, or a hot member. Costs a few
 * loads. */
bool pre_ready_maybe(struct pre_set *set);

/* ---- epoll_busy.c: who polls without waiting ------------------------------------------------- */

/* A call that was not to wait has found nothing: a peer that needs this processor may run. Not
 * under the lock. */
void pre_set_in_vain(struct pre_set *set);
/* One has found something. */
void pre_set_not_in_vain(struct pre_set *set);

/* ---- epoll_near.c: the order between kernel and rings; under the set's lock ------------------ */

/* What decides whether m is near may have changed. */
void pre_near_note(struct pre_member *m);
/* m leaves. */
void pre_near_forget(struct pre_member *m);
/* True if the kernel may have to be asked after the rings. */
bool pre_near_any(const struct pre_set *set);
/* True if the kernel has to be asked before what is held is told. */
bool pre_near_asks(struct pre_set *set, const struct pre_answer *held);
/* True if a wait that finds nothing has to ask the kernel before it spins. */
bool pre_near_repeats(const struct pre_set *set);
/* Rings' events that wait for the kernel's. */
#define PRE_N_HELD 64
/* Adds to an answer that the kernel's events stand in what is held (PRE_N_HELD at most, with
 * names); takes back what has no room. */
void pre_near_append(struct pre_set *set, struct pre_answer *to, const struct pre_answer *held);
/*
 * The kernel was asked before for this answer, and of what is ready by level it says the same
 * again, in the same order: that, from..n, is united with what it said first, n_first events.
 * Members are told by the program's data, which is all that the program has. How many events there
 * are then.
 */
int pre_near_unite(struct epoll_event *events, int n_first, int from, int n);
/* The lock was given up: another thread's answer may have had members of held since then. They are
 * in this one all the same, if there is room; a one-shot member is not taken back any more. */
void pre_near_keep(struct pre_set *set, struct pre_answer *held);
/* To be called when such an answer is done. Counts near members anew now and then; true:
 * pre_near_advance is to be called. */
bool pre_near_recount(struct pre_set *set);
/* Takes those further on their way into rings over which nothing is sent. No lock is held. */
void pre_near_advance(struct pre_set *set);
/* True if rings that had no room have waited for long enough. */
bool pre_near_waited(const struct pre_set *set);

#endif
