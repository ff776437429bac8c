/* The parts of the membership, for each other. Each belongs to the file that is named. */
#ifndef PULC_PSID_SWIM_INSIDE_H
#define PULC_PSID_SWIM_INSIDE_H

#include "swim.h"

/* Kinds of datagrams. */
enum psid_swim_kind {
	PSID_SWIM_PING = 1,
	PSID_SWIM_ACK = 2,
	PSID_SWIM_PING_FOR = 3, /* please probe that node for me */
	PSID_SWIM_ACK_FOR = 4,	/* it lives */
	PSID_SWIM_EXCUSE = 5,	/* it has not answered me, but I am here (Lifeguard's nack) */
	PSID_SWIM_GOSSIP = 6,
	PSID_SWIM_JOIN = 7,
	PSID_SWIM_PULL = 8,
	PSID_SWIM_PAGE = 9,
	PSID_SWIM_NO = 10,
};

/* swim.c: datagrams */
struct psid_datagram {
	struct psid_writer w;
	uint8_t body[PSID_SWIM_SIZE_MAX];
};
void psid_datagram_begin(struct psid_datagram *d, enum psid_swim_kind kind);
void psid_datagram_send(struct psid_datagram *d, struct psid_swim *swim,
			const struct psid_address *to);
void psid_swim_remark(struct psid_swim *swim, enum psid_swim_remark remark,
		      const struct psid_address *from);
uint64_t psid_swim_random(struct psid_swim *swim);
/* Below n, which is not 0. */
size_t psid_swim_random_below(struct psid_swim *swim, size_t n);
/* A random node that is up, not ourselves and not `but` (which may be 0); NULL: there is none. */
struct psid_node *psid_swim_random_node(struct psid_swim *swim, uint64_t but);

/* news.c: what is said about nodes becomes what we know of them */
void psid_news_of(const struct psid_swim *swim, const struct psid_node *node,
		  struct psid_news *ret_news);
void psid_news_of_state(const struct psid_node *node, struct psid_news *ret_news);
void psid_news_of_load(const struct psid_swim *swim, const struct psid_node *node,
		       struct psid_news *ret_news);
/* from: who told us, NULL: nobody. */
void psid_news_take(struct psid_swim *swim, const struct psid_news *news,
		    const struct psid_address *from);
/* Of the sender's own load, which has no number of the node in it. */
void psid_news_take_load(struct psid_swim *swim, struct psid_node *node,
			 const struct psid_load *load, uint32_t msec_old);
/* Moves the node to this state, at the incarnation that it has, and has everybody told. */
void psid_node_become(struct psid_swim *swim, struct psid_node *node, enum psid_node_state state,
		      bool is_new);
/* Raises our own incarnation above that one and says so. */
void psid_self_contradict(struct psid_swim *swim, uint32_t incarnation);
/* Forgets those who are dead or gone for long. */
uint64_t psid_news_run(struct psid_swim *swim);

/* suspicion.c */
void psid_suspicion_start(struct psid_swim *swim, struct psid_node *node, uint64_t by);
/* Somebody else finds so too. Returns false if that was known. */
bool psid_suspicion_confirm(struct psid_swim *swim, struct psid_node *node, uint64_t by);
/* So many do that more would change nothing. */
void psid_suspicion_confirm_all(struct psid_swim *swim, struct psid_node *node);
/* Has it had time to contradict? */
bool psid_suspicion_is_old(const struct psid_swim *swim, const struct psid_node *node);
void psid_suspicion_stop(struct psid_swim *swim, struct psid_node *node);
uint64_t psid_suspicions_run(struct psid_swim *swim);
/* We have slept: nobody is to die of that. */
void psid_suspicions_postpone(struct psid_swim *swim, uint64_t usec);
/* Who said so last, for our own news of it. */
uint64_t psid_suspicion_by(const struct psid_node *node);

/* spread.c */
void psid_spread_state(struct psid_swim *swim, struct psid_node *node);
void psid_spread_load(struct psid_swim *swim, struct psid_node *node);
/* Somebody has told us of a node's state what we knew. */
void psid_spread_heard(struct psid_swim *swim, struct psid_node *node);
void psid_spread_forget(struct psid_swim *swim, struct psid_node *node);
/* Fills up a datagram with what is to be passed on. to: who gets it; 0: not known. */
void psid_spread_add(struct psid_swim *swim, struct psid_writer *w, uint64_t to);
uint64_t psid_spread_run(struct psid_swim *swim);
/* Tells one node that it is not in its newest life, but that one is. */
void psid_spread_tell_life(struct psid_swim *swim, const struct psid_address *to, uint64_t id,
			   uint64_t life);
/* Tells one node what we think of that one, which it may be itself. */
void psid_spread_tell(struct psid_swim *swim, const struct psid_address *to,
		      const struct psid_node *about);

/* probe.c */
int psid_probe_enlist(struct psid_swim *swim, struct psid_node *node);
/* Probes it out of turn. */
void psid_probe_now(struct psid_swim *swim, struct psid_node *node);
uint64_t psid_probe_run(struct psid_swim *swim);
void psid_probe_ping(struct psid_swim *swim, struct psid_node *sender,
		     const struct psid_address *from, struct psid_reader *r);
void psid_probe_ack(struct psid_swim *swim, struct psid_node *sender,
		    const struct psid_address *from, struct psid_reader *r);
void psid_probe_ping_for(struct psid_swim *swim, struct psid_node *sender,
			 const struct psid_address *from, struct psid_reader *r);
void psid_probe_ack_for(struct psid_swim *swim, struct psid_reader *r);
void psid_probe_excuse(struct psid_swim *swim, struct psid_reader *r);
void psid_health(struct psid_swim *swim, int change);

/* join.c */
uint64_t psid_join_run(struct psid_swim *swim);
/* Somebody unknown speaks to us as to a member. */
void psid_join_spoken_to(struct psid_swim *swim, const struct psid_address *from);
void psid_join_request(struct psid_swim *swim, uint64_t id, const struct psid_address *from,
		       struct psid_reader *r);
void psid_join_no(struct psid_swim *swim, const struct psid_address *from, struct psid_reader *r);

/* sync.c */
void psid_sync_start(struct psid_swim *swim, const struct psid_address *peer);
/* The peer's table has this digest: if it is not ours for a while, ask for all of it. */
void psid_sync_compare(struct psid_swim *swim, const struct psid_address *peer, uint32_t digest);
uint64_t psid_sync_run(struct psid_swim *swim);
void psid_sync_pull(struct psid_swim *swim, const struct psid_address *from, struct psid_reader *r);
void psid_sync_page(struct psid_swim *swim, const struct psid_address *from, struct psid_reader *r);

#endif
