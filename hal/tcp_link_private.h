/* What the files of HAL tcp share. */
#ifndef PULC_HAL_TCP_LINK_PRIVATE_H
#define PULC_HAL_TCP_LINK_PRIVATE_H

#include <stdatomic.h>

#include "tcp_link.h"

#define TCP_FRAME_MAX 65536u
#define TCP_HEAD 16u
/* Three of the largest frames: one is shown while the next arrives. */
#define TCP_SIZE_BUFFER (3 * (TCP_FRAME_MAX + TCP_HEAD))

/* As many sleepers as a link over memory has room for, and one who looks at many links at once. */
#define TCP_N_WATCHES 9u

/* Bytes in a row; [at, end) are there. */
struct tcp_buffer {
	char *bytes;
	size_t at, end;
};

static inline size_t tcp_len(const struct tcp_buffer *b)
{
	return b->end - b->at;
}

struct tcp_uring;
struct hal_tcp;

/* How bytes get from and to the kernel. */
struct tcp_way {
	/* Fills `in` as far as there is room; the end becomes rx_error. */
	void (*pull)(struct hal_tcp *h);
	/* Sends these bytes from where they are, `out` being empty: how many, an error becomes
	 * tx_error. NULL: not this way. */
	size_t (*direct)(struct hal_tcp *h, struct iovec *iov, unsigned n);
	/* Empties `out` as far as the kernel takes it; the end becomes tx_error. */
	void (*push)(struct hal_tcp *h);
	/* hal_ops.pending, watch, unwatch and fd */
	bool (*pending)(const struct hal_tcp *h);
	int (*watch)(struct hal_tcp *h, hal_watch watch);
	void (*unwatch)(struct hal_tcp *h, hal_watch watch);
	int (*fd)(const struct hal_tcp *h);
	/* The kernel does nothing any more with this memory. Unsent bytes stay in `out`. */
	void (*stop)(struct hal_tcp *h);
	void (*free)(struct hal_tcp *h);
};

struct hal_tcp {
	struct hal_link link;
	const struct tcp_way *way;
	int fd;
	struct tcp_buffer in, out;
	bool out_is_read; /* the kernel looks at `out`: it may grow but not move */
	int rx_error, tx_error;
	bool owed;	       /* pull() has something to go on with that nothing tells of */
	bool unsure;	       /* the peer's kernel may not have got all that was sent */
	uint64_t nsec_checked; /* when that was last looked at */
	/* For pending() and room(), which are asked without the lock. */
	_Atomic bool hint;	  /* next() has an answer */
	_Atomic uint32_t refused; /* bytes that there was no room for; 0: none, or there is now */
	size_t n_in, n_out;	  /* what psid is shown of this link's `in` and `out` */
	uint32_t shown;		  /* the link's entry in what psid is shown (shm/pairs.h): */
	uint64_t n_sent, n_received; /* bytes */
	/* plain */
	int epoll;
	uint32_t interest;		  /* for what the set holds the socket; 0: it does not */
	_Atomic uint32_t wanted;	  /* for what it would, if somebody slept */
	unsigned n_unwatched;		  /* pieces in a row that were taken while nobody watched */
	hal_watch watches[TCP_N_WATCHES]; /* 0: free */
	struct tcp_uring *uring;
};

/* Makes room behind `end` by moving what is there to the front. */
void tcp_buffer_compact(struct tcp_buffer *b);

/* Closes it, wherever it is kept. */
void tcp_release_fd(int *home);
/* A descriptor of ours goes to where they are kept; it is closed if there is no room. 0; negative
 * errno. */
int tcp_keep_own(int fd, int *home);
/* The rest of hal_tcp_open, with this way to start. */
int tcp_open(int fd, int (*start)(struct hal_tcp *h), struct hal_link **ret_link);

/* 0, or why not. */
int tcp_plain_start(struct hal_tcp *h);
int tcp_uring_start(struct hal_tcp *h);

#endif
