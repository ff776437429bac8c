/*
 * What the driver of a random sequence and its players share: one piece of memory, mapped by all of
 * them.
 *
 * A player is a process, or a thread of one, that makes one call after the other, as the driver
 * says. It knows its descriptors by letters, so that a descriptor number, which may differ between
 * two plays, stands nowhere in a trace; threads of a process know the same ones. Addresses have
 * letters as well, for all players together.
 */
#ifndef PULC_TESTS_WORLD_H
#define PULC_TESTS_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define N_PLAYERS 6
#define N_SLOTS 26     /* descriptors of a process: a to z */
#define N_ADDRESSES 10 /* A to J */
#define CALL_MAX 128
#define ANSWER_MAX 2048

/* Descriptors of every player, at numbers that no sequence comes near: the world, and both ends of
 * the Unix socket through which descriptors are passed. */
enum { FD_WORLD = 200, FD_HAT_IN, FD_HAT_OUT };

enum kind { KIND_NONE, KIND_STREAM, KIND_LISTENER, KIND_DATAGRAM, KIND_EPOLL, KIND_BELL };

/* Whose move it is. The word is a futex. */
enum turn { TURN_DRIVER, TURN_PLAYER };

/* What a process has. */
struct table {
	int fds[N_SLOTS];
	char kinds[N_SLOTS]; /* enum kind */
};

struct player {
	_Atomic uint32_t turn;
	_Atomic pid_t pid; /* of its thread; 0: there is none yet, or no more */
	pid_t process;
	unsigned table; /* whose: the first player's of its process */
	pthread_t thread;
	unsigned handler_slot; /* what the handlers of SIGHUP and SIGQUIT are about */
	/* the call that is being made may wait for others, without a time limit */
	_Atomic bool may_sleep;
	bool is_executing; /* the call is an exec */
	bool on_rings;	   /* as the last byte of a warm-up has shown */
	unsigned step;	   /* of the call, which its bytes show */
	char call[CALL_MAX];
	char answer[ANSWER_MAX];
};

struct address {
	struct sockaddr_storage storage;
	socklen_t size; /* 0: none has this letter */
};

struct world {
	pid_t driver;
	/* a descriptor may be held by several players, or lie in the hat */
	_Atomic bool has_shared;
	struct player players[N_PLAYERS];
	struct table tables[N_PLAYERS];
	struct address addresses[N_ADDRESSES];
};

static inline struct table *table_of(const struct world *world, const struct player *player)
{
	return (struct table *)&world->tables[player->table];
}

#endif
