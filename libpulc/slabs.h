/* The slabs that this process has mapped. All under the client lock. */
#ifndef PULC_LIB_SLABS_H
#define PULC_LIB_SLABS_H

#include <stdbool.h>
#include <stdint.h>

#include "slab.h"

struct pulc_stream;

struct slab {
	struct slab *next;
	struct shm_slab_map map;
	int fd;	   /* of an own slab: what it is brought back to the next psid by; -1: not kept */
	int guard; /* exec.c: the process that has a lock on it */
	/* return.c: those of its streams that are about to be named */
	struct pulc_stream *returning;
	uint64_t id;
	uint32_t peer_client;
	uint32_t n_streams;
	bool own;
	bool gone; /* psid puts no new connection there */
	/* Slots that this process is counted for; what a fork raises. A closing thread has no
	 * lock. */
	_Atomic uint64_t held[SHM_SLOTS_MAX / 64];
	/* those of them that the last fork has raised */
	_Atomic uint64_t forked[SHM_SLOTS_MAX / 64];
};

/* The slab psid calls `id`, if we have it. */
struct slab *slabs_find(uint64_t id, bool own);
/* Keeps a mapped slab. NULL: no memory (the map is undone). */
struct slab *slabs_add(uint64_t id, bool own, uint32_t peer_client, struct shm_slab_map *map);
void slabs_ref(struct slab *slab);
/* The last stream of a slab that is gone unmaps it. */
void slabs_unref(struct slab *slab);
void slabs_gone(uint64_t id);

/* This process is counted among the slot's holders; no longer (no lock). */
void slabs_hold(struct slab *own, uint32_t slot);
void slabs_let_go(struct slab *own, uint32_t slot);
/* Another process is about to hold all that this one holds (fork). */
void slabs_forking(void);
/* It is not: the last fork has failed. What was let go meanwhile stays counted. */
void slabs_fork_failed(void);

/*
 * Is there address space for connections with one more process? Slabs are large, though few of
 * their pages are ever used: a program that limits what it has (RLIMIT_AS) limits them, too. An
 * eighth of such a limit is all that they take. One system call.
 */
bool slabs_have_room(void);
/* Is there room for the descriptor of one more slab? */
bool slabs_can_keep(void);
/* Keeps the descriptor of an own slab, in a high number; *fd moves here. */
void slabs_keep(struct slab *slab, int *fd);
/* psid is gone: no other one will put a connection into any of them. */
void slabs_lost(void);
void slabs_each(void (*f)(struct slab *));

/* ---- exec.c ---------------------------------------------------------------------------------- */
/* This process, which is about to execute a program, lets go of slots of an own slab. True: the
 * others can see when it can't come back any more. */
bool exec_guard(struct slab *own);
/* Of shm_on_return_doubted (no lock). */
void exec_doubted(const struct shm_stream *s);

/* Says in every slab of our own that we can ring that board. */
void slabs_acquaint(uint32_t client, uint32_t board);
void slabs_forget(uint32_t client);
/* Says there that this process has begun a connection. */
void slabs_count_connect(void);

#endif
