/*
 * One connection between two psids: from the TCP connect to frames under TLS. What the frames mean
 * is the business of peers.c.
 */
#ifndef PULC_PSID_LINK_H
#define PULC_PSID_LINK_H

#include <openssl/ssl.h>
#include <sys/queue.h>

#include "address.h"
#include "deadline.h"
#include "greeting.h"
#include "loop.h"
#include "frames.h"

struct psid_cluster;
struct psid_peer;

enum psid_link_state {
	PSID_LINK_CONNECTING,
	PSID_LINK_GREETING,
	PSID_LINK_HANDSHAKE,
	PSID_LINK_OPEN,
	PSID_LINK_ENDED,
};

struct psid_link {
	LIST_ENTRY(psid_link) link; /* all of them */
	struct psid_cluster *cluster;
	struct psid_peer *peer; /* NULL: not known who it is */
	enum psid_link_state state;
	bool is_server;	  /* they have connected */
	bool is_inquiry;  /* we only want to know whether we would understand each other */
	bool has_welcome; /* both have said who they are */
	bool wants_write; /* TLS does */
	bool has_said_bye, has_heard_bye;
	struct psid_address address;
	int fd;
	uv_poll_t poll;
	SSL *ssl;
	struct psid_deadline deadline; /* until the welcome */
	uint8_t greeting_out[PSID_SIZE_GREETING], greeting_in[PSID_SIZE_GREETING];
	size_t n_greeting_out, n_greeting_in;
	struct psid_queue out;
	uint8_t *in; /* NULL: nothing is there */
	size_t n_in, n_in_room;
};

/* Each returns a link that psid_link_end frees, or NULL: no memory, or no descriptors. */
struct psid_link *psid_link_connect(struct psid_cluster *cluster,
				    const struct psid_address *address);
/* fd is taken in any case. */
struct psid_link *psid_link_accept(struct psid_cluster *cluster, int fd,
				   const struct psid_address *address);
/* out has something, or more. */
void psid_link_flush(struct psid_link *link);
/*
 * The end: closes it, and frees it in the loop's next turn. Does not call back. why: a line for the
 * log, which names the address; NULL: it ended as it should.
 */
void psid_link_end(struct psid_link *link, const char *why);

/* peers.c: what a link calls. The link may be ended in any of these. */
void psid_peers_link_open(struct psid_link *link);
int psid_peers_link_frame(struct psid_link *link, const uint8_t *frame, size_t len);
void psid_peers_link_flushed(struct psid_link *link);
/* It is broken; psid_link_end follows. */
void psid_peers_link_broken(struct psid_link *link);

#endif
