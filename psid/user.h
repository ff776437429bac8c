/* What each user has of this psid, and how much more it may have. */
#ifndef PULC_PSID_USER_H
#define PULC_PSID_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "closer.h"
#include "map.h"

struct psid;
struct psid_client;

struct psid_user {
	struct psid_map_node node; /* psid->users, by uid */
	struct psid *psid;
	uid_t uid;
	unsigned n_refs;
	uint32_t n_sockets;  /* accepted client sockets, of any role or none yet */
	uint32_t n_clients;  /* processes */
	uint32_t n_controls; /* pulcctl and friends */
	uint32_t n_areas;
	uint32_t n_descriptors; /* of ours, kept for it: of areas, too */
	uint64_t size_bytes;
	uint64_t size_kept; /* talk.c: messages that its clients have not read yet */
	uint32_t n_hints, n_ports;
	unsigned n_asks, n_meeting;    /* remote.c, joint.c */
	struct psid_closings closings; /* closer.c: closes that wait */
	unsigned n_running, n_closings;
	unsigned n_deliveries; /* deliver.c: those under way */
	/* talk.c: the turn in which it was heard last, how long; who is to be heard in the next */
	uint64_t msec_turn, nsec_turn;
	TAILQ_HEAD(, psid_client) unheard;
	bool jammed; /* some of its clients are paused: too many closings wait */
};

/* Returns a reference; NULL: no memory. */
struct psid_user *psid_user_get(struct psid *psid, uid_t uid);
struct psid_user *psid_user_ref(struct psid_user *user);
/* The last one forgets the user. */
struct psid_user *psid_user_unref(struct psid_user *user);

/* May psid keep n more descriptors for this user? */
bool psid_user_has_descriptors(const struct psid_user *user, uint32_t n);
/* Keeps them. Returns 0, or the Reason (positive) why not. */
int psid_user_take_descriptors(struct psid_user *user, uint32_t n);
void psid_user_give_descriptors(struct psid_user *user, uint32_t n);

/* One more area, whose descriptor can be closed whatever happens. Returns 0, or the Reason
 * (positive) why not. */
int psid_user_take_area(struct psid_user *user);
/* It is gone. Closes its descriptor (negative: it never got one), which may be the last one. */
void psid_user_give_area(struct psid_user *user, int fd);
/* More bytes. Returns 0, or the Reason (positive) why not. */
int psid_user_take_bytes(struct psid_user *user, uint64_t size);
void psid_user_give_bytes(struct psid_user *user, uint64_t size);
/*
 * At most `wanted` bytes, and never more than half of what is left, so that there is always some
 * left for new connections. Returns what was taken.
 */
uint64_t psid_user_take_credit(struct psid_user *user, uint64_t wanted);

/* Too many of this user's descriptors wait to be closed: read no more from it. */
bool psid_user_is_jammed(const struct psid_user *user);
/* A close of this user is done. */
void psid_user_closed(struct psid_user *user);

#endif
