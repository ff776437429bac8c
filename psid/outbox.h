/* Messages on their way to a client that does not read as fast as we write. */
#ifndef PULC_PSID_OUTBOX_H
#define PULC_PSID_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct psid_letter;
struct psid_user;

struct psid_outbox {
	struct psid_user *user;
	TAILQ_HEAD(, psid_letter) letters;
	size_t size;
	uint32_t n_fds; /* kept with them */
};

/* How much more may be kept. */
struct psid_outbox_room {
	size_t size;
	uint32_t n_fds;
};

/* What it keeps is closed on the account of user. */
void psid_outbox_init(struct psid_outbox *box, struct psid_user *user);
/* A copy of a message and of its descriptors. Returns 0; -ENOMEM; -EMFILE. */
int psid_letter_write(struct psid_user *user, const void *buf, size_t len, const int *fds,
		      uint32_t n_fds, struct psid_letter **ret_letter);
void psid_letter_free(struct psid_letter *letter);
/*
 * Sends the letter on socket, or keeps it to send later; takes it in any case. Returns 0; -ENOBUFS:
 * the client is too slow; negative errno of the socket.
 */
int psid_outbox_post(struct psid_outbox *box, int socket, struct psid_letter *letter,
		     struct psid_outbox_room room);
/*
 * The same for a message that was not written yet: a copy is made if it must be kept. Also -EMFILE:
 * its descriptors can't be kept. Nothing of it will arrive, and whatever is sent after it may.
 */
int psid_outbox_send(struct psid_outbox *box, int socket, const void *buf, size_t len,
		     const int *fds, uint32_t n_fds, struct psid_outbox_room room);
/* Goes on sending. Returns 0; -ETOOMANYREFS: the rest is to be sent later, the socket won't tell
 * when; other negative errno of the socket. */
int psid_outbox_flush(struct psid_outbox *box, int socket);
bool psid_outbox_is_empty(const struct psid_outbox *box);
void psid_outbox_deinit(struct psid_outbox *box);

#endif
