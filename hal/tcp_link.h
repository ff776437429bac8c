/* The HAL of two processes of different nodes: frames over a connected TCP socket. */
#ifndef PULC_HAL_TCP_LINK_H
#define PULC_HAL_TCP_LINK_H

#include "hal.h"

enum hal_tcp_way {
	HAL_TCP_BEST,  /* io_uring where the kernel allows it */
	HAL_TCP_PLAIN, /* non-blocking calls and epoll */
	HAL_TCP_URING, /* or fail */
};

/*
 * A link over this socket, which becomes the link's unless this fails. 0; -ENOMEM; -EINVAL: no stream socket; -EMFILE; with HAL_TCP_URING what the kernel
 * says against it. Where io_uring is forbidden on pain of death, ask for HAL_TCP_PLAIN.
 */
int hal_tcp_open(int fd, enum hal_tcp_way way, struct hal_link **ret_link);
bool hal_tcp_is_uring(const struct hal_link *link);
/* Has the kernel got everything that was sent? 0; -EAGAIN; -EPIPE. To be asked before close(), which cannot wait. */
int hal_tcp_flush(const struct hal_link *link);

/* ---- who is it? --------------------------------------------------------------------------------- */

#define HAL_TCP_KEY 16u	  /* bytes; made for one connection, by someone both ends trust */
#define HAL_TCP_HELLO 24u /* bytes of each greeting; for this file's own use */

/* One end's share of the greeting. */
struct hal_tcp_greeting {
	uint8_t key[HAL_TCP_KEY];
	bool connects; /* the end that connected, not the one that accepted */
	uint8_t ours[HAL_TCP_HELLO], theirs[HAL_TCP_HELLO];
	uint32_t size_sent, size_got; /* of both greetings and both proofs */
	uint64_t proof_ours, proof_theirs;
};

/* 0; a negative errno: the kernel has no random numbers. */
int hal_tcp_greeting_init(struct hal_tcp_greeting *g, const uint8_t key[HAL_TCP_KEY],
			  bool connects);
/*
 * Goes on with it as far as the socket lets it, without blocking and without reading what belongs to the link. 0: it is the other holder of
 * the key. -EAGAIN: again when the socket is readable (or writable); how long is the caller's to decide. -EACCES: another key, or the caller's own
 * words sent back. -EBADMSG: no such greeting. -EPIPE. The key is used up, whatever the result.
 */
int hal_tcp_greet(struct hal_tcp_greeting *g, int fd);

#endif
