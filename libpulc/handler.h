/*
 * The protocol switch of sockets: what a protocol must be able to do for the functions of
 * pulc/stream.h.
 *
 * A stream is bound to its handler when it is made, so the switch decides once for a socket.
 * Handlers stand side by side and know nothing of each other. switch.c calls the slots; every slot
 * is filled. Unless a comment says so a slot is called with no lock held, by any thread, several at
 * a time, and must not block. Semantics are those of the function of pulc/stream.h that has the
 * same name.
 */
#ifndef PULC_LIB_HANDLER_H
#define PULC_LIB_HANDLER_H

#include <pulc/stream.h>

struct handler {
	const char *name;
	bool is_datagram;

	/* Data calls; they may block as the calls they are named for. Buffers are the caller's
	 * throughout. */
	ssize_t (*send)(pulc_stream *s, int fd, const void *buf, size_t len, int flags);
	ssize_t (*recv)(pulc_stream *s, int fd, void *buf, size_t len, int flags);
	ssize_t (*sendmsg)(pulc_stream *s, int fd, const struct msghdr *msg, int flags);
	ssize_t (*recvmsg)(pulc_stream *s, int fd, struct msghdr *msg, int flags);
	/* Pairs with a data call that answered PULC_USE_KERNEL. */
	void (*send_end)(pulc_stream *s, int fd, ssize_t n);
	void (*recv_end)(pulc_stream *s, int fd, ssize_t n);
	int (*send_begin)(pulc_stream *s, int fd);
	void (*met)(pulc_stream *s, int fd, unsigned event, const struct sockaddr *addr,
		    socklen_t len);
	bool (*connected)(pulc_stream *s, int fd);
	int (*kernel_enter)(pulc_stream *s, unsigned events);
	void (*kernel_leave)(pulc_stream *s, unsigned events);

	/* ready, mark, when and watch are asked of attached streams only. */
	unsigned (*ready)(pulc_stream *s, int fd, unsigned events);
	unsigned (*poll)(pulc_stream *s, int fd, unsigned events);
	uint64_t (*mark)(pulc_stream *s);
	uint32_t (*when)(pulc_stream *s);
	int (*watch)(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events);
	void (*unwatch)(pulc_stream *s, pulc_waitset *set, unsigned bit);
	uint64_t (*patience)(pulc_stream *s, pulc_waitset *set);
	bool (*peer_here)(pulc_stream *s);

	int (*shutdown)(pulc_stream *s, int fd, int how);
	int (*inq)(pulc_stream *s, int fd, int *ret_size);
	int (*outq)(pulc_stream *s, int fd, int *ret_size);
	bool (*at_mark)(pulc_stream *s, int fd);
	void (*add_info)(pulc_stream *s, void *info, size_t len);
	int (*take_error)(pulc_stream *s);
	void (*keep_error)(pulc_stream *s, int error);
	bool (*is_reset)(pulc_stream *s);
	void (*nonblock_changed)(pulc_stream *s, bool nonblock);
	void (*option_changed)(pulc_stream *s, int fd, int level, int option);
	void (*keep_on_kernel)(pulc_stream *s, int fd, enum pulc_reason reason);
	void (*closing)(pulc_stream *s, int fd);

	/* Nobody uses s any more: gives back what psid has granted. Under the client lock. */
	void (*release)(pulc_stream *s);
	/* psid is gone: what was under way begins anew. Under the client lock. */
	void (*psid_lost)(pulc_stream *s);
	/* The same in the child, which has one thread, and the lock. */
	void (*forked)(pulc_stream *s);
	/* The child has a psid of its own: tell(conn) of each connection that it has inherited.
	 * Under the client lock. */
	void (*adopt)(pulc_stream *s, void (*tell)(uint64_t conn));
};

/* stream.c: connected TCP sockets */
extern const struct handler stream_handler __attribute__((visibility("hidden")));

#endif
