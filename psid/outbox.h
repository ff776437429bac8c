/* Messages on their way to a client that does not read as fast as we write. */
#ifndef PULC_PSID_OUTBOX_H
#define PULC_PSID_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct psid_letter;

struct psid_outbox {
	TAILQ_HEAD(, psid_letter) letters;
	size_t size;
};

void psid_outbox_init(struct psid_outbox *box);
/*
 * Sends on socket, or keeps a copy (and copies of the descriptors) to send later, at most size_max
 * bytes of them. Returns 0; -ENOBUFS: the client is too slow; negative errno of the socket.
 */
int psid_outbox_send(struct psid_outbox *box, int socket, const void *buf, size_t len,
		     const int *fds, size_t n_fds, size_t size_max);
/* Goes on sending. Returns 0; negative errno of the socket. */
int psid_outbox_flush(struct psid_outbox *box, int socket);
bool psid_outbox_is_empty(const struct psid_outbox *box);
void psid_outbox_deinit(struct psid_outbox *box);

#endif
