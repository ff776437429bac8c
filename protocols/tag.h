/*
 * The protocol of tagged messages. docs/native.md is normative for its frames.
 *
 * Everything under the caller's lock; nothing blocks: whoever calls decides how to wait.
 */
#ifndef PULC_PROTOCOLS_TAG_H
#define PULC_PROTOCOLS_TAG_H

#include "layout.h"
#include "macros.h"
#include "pairs.h"
#include "protocol.h"

/* Frame kinds, and what the word is. */
#define TAG_EAGER 0u	 /* tag; payload: a whole message */
#define TAG_OFFER 1u	 /* tag; payload: struct tag_offer */
#define TAG_PUSH 2u	 /* number of an offer; payload: struct tag_push */
#define TAG_DATA 3u	 /* number of a push; payload: the next bytes */
#define TAG_DONE 4u	 /* number of an offer: it was received */
#define TAG_WITHDRAW 5u	 /* number of an offer: is it still to be had? */
#define TAG_WITHDRAWN 6u /* number of an offer: nobody will ask for it any more */
#define TAG_CREDIT 7u	 /* cost of all that was ever taken */
#define TAG_BLOCK                                                                                  \
	8u /* tag; payload: struct tag_block: an offer whose bytes lie in the message area */
#define TAG_OFFER_AWAY                                                                             \
	9u /* as TAG_OFFER, of a sender that computes meanwhile: to be fetched, if that may be */

/* What a process may have unread at another one, bytes of cost; a message may begin while less is
 * used. */
#define TAG_WINDOW SHM_TAG_WINDOW
/* A message costs its length, if that travels with it, and this. */
#define TAG_OVERHEAD 64u
#define TAG_EAGER_MAX 16384u
#define TAG_ANY_PEER UINT32_MAX

/* Where the bytes are, for who may ask the kernel for them; 0 in all: nobody. */
struct tag_place {
	uint64_t address;
	uint64_t proof_address, proof[2]; /* what lies there, in this process and no other one */
};

struct tag_offer {
	uint64_t id, size;
	struct tag_place place;
};

struct tag_push {
	uint64_t number, size;
};

struct tag_block {
	struct tag_offer offer;
	uint64_t offset; /* in the sender's message area */
};
_Static_assert(sizeof(struct tag_offer) == 48 && sizeof(struct tag_push) == 16 &&
		       sizeof(struct tag_block) == 56,
	       "on the wire");

struct tag_peer;

struct tag_send;
TAILQ_HEAD(tag_sends, tag_send);

/* What a sender wants; all but peer, tag, buf and size begin as 0. */
struct tag_send {
	TAILQ_ENTRY(tag_send) link;
	struct tag_sends *list; /* its peer's that it stands in; NULL: none */
	struct peer *peer;
	uint64_t tag;
	const unsigned char *buf;
	size_t size;
	uint64_t id; /* of the offer; 0: none was made */
	/* pushing, because the receiver asked for it */
	uint64_t number;
	size_t at, size_wanted;
	bool withdrawing;
	bool in_block;	 /* buf lies in the message area, which the peer may have mapped, */
	uint64_t offset; /* there */
	/* the answer */
	bool complete, withdrawn;
	int error;
	void (*ended)(
		/* told once it is complete, if it was not at once; s must stay. NULL: nobody */
		struct tag_send *s);
};

/* One by one: to clear the whole would take longer than to send a short message. */
static inline void tag_send_init(struct tag_send *s, uint64_t tag, const void *buf, size_t size)
{
	s->list = NULL;
	s->peer = NULL;
	s->tag = tag;
	s->buf = buf;
	s->size = size;
	s->id = s->number = s->offset = 0;
	s->at = s->size_wanted = 0;
	s->withdrawing = s->in_block = s->complete = s->withdrawn = false;
	s->error = 0;
	s->ended = NULL;
}

/* Where the bytes of a message lie that is not in a queue's own memory. */
struct tag_bytes {
	const unsigned char *at; /* NULL: nowhere */
	void *holder;		 /* libpulc's, of an area: to be given back */
	bool is_malloced;
};

struct tag_message;
struct tag_receive;
TAILQ_HEAD(tag_receives, tag_receive);

/* What a receiver wants; all but the first ones begin as 0. */
struct tag_receive {
	uint64_t tag, mask;
	uint32_t peer; /* TAG_ANY_PEER */
	unsigned char *buf;
	size_t size;
	/* posted */
	TAILQ_ENTRY(tag_receive) link;
	struct tag_receives *list;
	uint64_t turn;		     /* the order of posting */
	struct tag_message *message; /* a long one on its way here */
	bool lends; /* no buf: the answer is where the bytes lie; size is the most that is wanted */
	struct tag_message *room; /* what will be lent, with buf, while it is fetched */
	/* the answer */
	bool complete;
	int error;
	size_t done;
	const unsigned char *lent; /* until tag_give_back */
	uint64_t got_tag, got_size;
	uint32_t got_peer;
};

/* As tag_send_init; no buffer. */
static inline void tag_receive_init(struct tag_receive *r, uint64_t tag, uint64_t mask,
				    uint32_t peer)
{
	r->tag = tag;
	r->mask = mask;
	r->peer = peer;
	r->buf = NULL;
	r->size = r->done = 0;
	r->list = NULL;
	r->turn = 0;
	r->message = r->room = NULL;
	r->lends = r->complete = false;
	r->error = 0;
	r->lent = NULL;
	r->got_tag = r->got_size = 0;
	r->got_peer = 0;
}

extern const struct protocol tag_protocol __attribute__((visibility("hidden")));

/* When the kernel is asked for a peer's memory: as measured, never, or whenever it may be. */
enum tag_pulls { TAG_PULLS_MEASURED = -1, TAG_PULLS_NEVER, TAG_PULLS_ALWAYS };
void tag_allow_pulls(enum tag_pulls how);
/* This process sends while it computes: its long messages are best fetched. */
void tag_send_away(bool on);
/* Goes on with whatever can be moved on without news of a peer's; part of progress. */
void tag_move_on(void);
struct tag_message;
struct tag_peer;
TAILQ_HEAD(tag_messages, tag_message);
TAILQ_HEAD(tag_peers, tag_peer);
extern struct tag_messages tag_under_way __attribute__((visibility("hidden")));
extern struct tag_peers tag_busy __attribute__((visibility("hidden"))); /* with something to send */
static inline bool tag_any_to_move(void)
{
	return !TAILQ_EMPTY(&tag_under_way) || !TAILQ_EMPTY(&tag_busy);
}
/* In a forked child: nothing that was begun is ours. */
void tag_forget(void);
void tag_forget_peer(struct peer *peer);

/* ---- sending: tag_send.c --------------------------------------------------------------------- */

/* Begins it. 0: complete, or under way: s->complete tells; or why it is none: -ENOMEM, the peer's
 * error. */
int tag_send_begin(struct tag_send *s);
/* 0: it is complete; 1: it will be, when the peer has answered; -EAGAIN, -ENOMEM: not now. */
int tag_send_cancel(struct tag_send *s);

/* ---- receiving: tag_receive.c ---------------------------------------------------------------- */

/* 0: complete, or on its way: r->complete tells. -EAGAIN: nothing is there. */
int tag_take(struct tag_receive *r);
/* Nobody wants what is here. */
bool tag_any_early(void);
/* The same, or somebody waits for what is not here. */
bool tag_any_set(void);
/* It gets what comes next, after those that were posted before. */
void tag_post(struct tag_receive *r);
/* Takes it back; a message that was on its way is somebody else's, or kept. */
void tag_unpost(struct tag_receive *r);
/* Is there something that it could take? Fills in got_. */
bool tag_look(struct tag_receive *r);

/* ---- lending: tag_block.c -------------------------------------------------------------------- */

/* What was lent is not read any more. 0; -EINVAL: nothing is lent there. */
int tag_give_back(const void *at);
/* libpulc's: finds bytes in a peer's message area. 0; -ENOENT: it is not mapped; -EBADMSG: they are
 * not in it. */
extern int (*tag_area_bytes)(struct peer *peer, uint64_t offset, uint64_t size,
			     struct tag_bytes *ret_bytes) __attribute__((visibility("hidden")));
extern void (*tag_area_unref)(void *holder) __attribute__((visibility("hidden")));

/* ---- inside ---------------------------------------------------------------------------------- */

enum tag_way { TAG_WAY_PUSH, TAG_WAY_PULL };

/* What one way has done for long messages of a peer's. */
struct tag_rate {
	uint64_t n;		    /* messages */
	uint64_t nsec_per_megabyte; /* of the last ones; 0: not known */
	uint64_t nsec_last;	    /* when the last one was there */
	uint64_t nsec, size;	    /* of those that were timed since */
	bool is_old;		    /* what is known is of before the trial that has begun */
};

/* Long messages go one way for a run of them. */
struct tag_choice {
	enum tag_way way;
	uint64_t n_runs, size,
		size_kept; /* finished ones; bytes of this one; its length, unless it is a trial */
	uint64_t size_timed; /* of a trial: bytes that count, */
	unsigned n_timed;    /* and the times that were taken of them */
};

struct tag_peer {
	struct peer *peer;
	uint64_t sent, freed;	   /* as a sender */
	uint32_t shown;		   /* its entry in what psid is shown (shm/pairs.h) */
	uint64_t got, taken, told; /* as a receiver */
	struct tag_sends queue;	   /* not begun, in order */
	struct tag_sends offers;   /* offered: the receiver's turn */
	struct tag_sends pushing;
	TAILQ_ENTRY(tag_peer) link; /* of those with something to be moved on */
	bool busy;
	bool owes;    /* what was taken, and could not be told */
	bool no_pull; /* the kernel does not give us its memory */
	enum {
		TAG_AREA_UNKNOWN,
		TAG_AREA_SHOWN,
		TAG_AREA_HIDDEN
	} area; /* ours, to the peer; libpulc's */
	struct tag_choice choice;
	struct tag_rate rates[2]; /* by tag_way */
};

/* Sent, or about to be; a negative cost takes back. */
static inline void tag_count_sent(struct tag_peer *tp, uint64_t cost)
{
	tp->sent += cost;
	shm_pair_set(tp->shown, 0, tp->sent - tp->freed);
}
/* NULL: no memory. */
struct tag_peer *tag_peer_of(struct peer *peer);
int tag_control(struct peer *peer, unsigned kind, uint64_t word, const void *payload, uint32_t len);
/* The payload of the frame that is shown, as far as len goes. Returns the bytes copied. */
size_t tag_copy_payload(struct tag_peer *tp, void *to, size_t len);
/* This much of what the peer has sent needs no room any more. */
void tag_taken(struct peer *peer, uint64_t cost);
void tag_tell_credit(struct tag_peer *tp);
/* Something has been put into, or taken out of, what is to be moved on. */
void tag_set_busy(struct tag_peer *tp);
/* The send of this process that made the offer; NULL: none. */
const struct tag_send *tag_find_offered(const struct tag_peer *tp, uint64_t id);

enum tag_stage {
	TAG_STAGE_EARLY,  /* nobody wants it yet */
	TAG_STAGE_COPY,	  /* to be copied from this process's own memory */
	TAG_STAGE_PULL,	  /* to be copied from the sender's memory */
	TAG_STAGE_ASK,	  /* its bytes are to be asked for */
	TAG_STAGE_COMING, /* they come */
	TAG_STAGE_DONE,	  /* they are here; the sender is to be told */
	TAG_STAGE_LENT,	  /* the program reads them */
};

struct tag_message {
	TAILQ_ENTRY(tag_message) by_order; /* of the early ones, or of those under way */
	TAILQ_ENTRY(tag_message) by_tag;   /* early, or lent: by address */
	struct peer *peer;
	uint64_t tag, size;
	uint64_t turn; /* the order of arrival */
	uint64_t id;   /* of the offer; 0: it is here */
	struct tag_place place;
	struct tag_bytes bytes; /* .at NULL: they are in `data`, or with the sender */
	bool paid;		/* the sender has its credit again */
	bool away;		/* the sender computes meanwhile */
	bool settles;		/* one of the first that go its way: tells nothing of that */
	enum tag_stage stage;
	struct tag_receive *receive; /* COPY to COMING */
	uint64_t number;	     /* COMING: of what was asked for */
	uint64_t nsec_begun;
	unsigned char data[];
};

/* ---- tag_receive.c --------------------------------------------------------------------------- */
void tag_describe(struct tag_receive *r, uint32_t client, uint64_t tag, uint64_t size);
/* Out of the row in which it stands, if it does. */
void tag_receive_take_off(struct tag_receive *r);
void tag_receive_end(struct tag_receive *r, int error);
void tag_message_free(struct tag_message *m);

/* Puts it where its turn is. */
void tag_keep(struct tag_message *m);

/* ---- tag_block.c ----------------------------------------------------------------------------- */
/* Finds its bytes in the sender's area, if that is mapped. 0; -EBADMSG. */
int tag_block_find(struct tag_message *m, uint64_t offset);
const unsigned char *tag_message_bytes(const struct tag_message *m);
void tag_bytes_drop(struct tag_message *m);
/* Its bytes are here, and the receive's; it stands nowhere. */
void tag_lend(struct tag_message *m, struct tag_receive *r);
void tag_lent_forget(void);
/* Memory for a message that must be fetched before it can be lent. 0; -ENOMEM. */
int tag_room_make(struct tag_receive *r, const struct tag_message *m);
void tag_room_drop(struct tag_receive *r);
/* It is full. */
void tag_room_lend(struct tag_receive *r);

/* ---- tag_fetch.c ----------------------------------------------------------------------------- */
/* Bytes of an offer that its receive has room for. */
static inline size_t tag_wanted_size(const struct tag_message *m)
{
	return MIN((uint64_t)m->receive->size, m->size);
}
/* Tells the sender that an offer was received, now or as soon as that is possible, and frees it. */
void tag_say_done(struct tag_message *m);
/* Binds an offer, which stands nowhere, to the receive that gets it. 0; -ENOMEM: the receive has
 * ended, and the offer stands nowhere. */
int tag_fetch_begin(struct tag_message *m, struct tag_receive *r);

/* ---- tag_pull.c ------------------------------------------------------------------------------ */

/* Where the bytes of a send are, if its peer may have them. */
struct tag_place tag_place_of(const struct tag_send *s);
enum tag_way tag_choose(struct tag_message *m);
/* Messages that are fetched in one call. */
#define TAG_PULL_MOST 8u
/* The first one, which is to be fetched, and those behind it that can be fetched along with it.
 * Returns how many. */
unsigned tag_pull_batch(struct tag_message *first, struct tag_message *batch[TAG_PULL_MOST]);
/* Fetches them, of a long one the next part; their receives' `done` says how far they are. 0;
 * negative errno: not from there. */
int tag_pull(struct tag_message *const *batch, unsigned n);
/* All of it is here; it was begun at nsec_begun. */
void tag_rate(const struct tag_message *m, enum tag_way way);
void tag_pull_forget(void);
/* May its memory be asked for? */
bool tag_may_pull(const struct peer *peer);

int tag_arrived_eager(struct tag_peer *tp, const struct hal_frame *f);
int tag_arrived_offer(struct tag_peer *tp, const struct hal_frame *f);
int tag_arrived_data(struct tag_peer *tp, const struct hal_frame *f);
int tag_arrived_withdraw(struct tag_peer *tp, const struct hal_frame *f);
void tag_receives_gone(struct peer *peer);
void tag_receives_move_on(void);
void tag_receives_forget(void);

int tag_arrived_push(struct tag_peer *tp, const struct hal_frame *f);
int tag_arrived_done(struct tag_peer *tp, const struct hal_frame *f);
int tag_arrived_withdrawn(struct tag_peer *tp, const struct hal_frame *f);
int tag_arrived_credit(struct tag_peer *tp, const struct hal_frame *f);
void tag_sends_gone(struct tag_peer *tp);
void tag_sends_move_on(void);
void tag_sends_forget(void);

#endif
