/*
 * What a slow reader has not taken yet. A client looks at its socket when it has a reason to,
 * which may be a while, and never when it is stopped; psid neither waits for it nor forgets.
 *
 * The kernel's buffer comes first and the queue keeps the order. Kept descriptors are psid's own
 * (slabs, boards) or verified eventfds, so closing them here blocks nobody.
 */
#include "outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "cleanup.h"
#include "descriptors.h"

struct psid_letter {
	TAILQ_ENTRY(psid_letter) link;
	size_t len, n_fds;
	int fds[WIRE_FDS_MAX];
	unsigned char bytes[];
};

void psid_outbox_init(struct psid_outbox *box)
{
	TAILQ_INIT(&box->letters);
	box->size = 0;
}

static void letter_free(struct psid_letter *letter)
{
	while (letter->n_fds > 0)
		(void)close_own(letter->fds[--letter->n_fds]);
	free(letter);
}

static int keep(struct psid_outbox *box, const void *buf, size_t len, const int *fds, size_t n_fds)
{
	struct psid_letter *letter = malloc(sizeof(*letter) + len);

	if (!letter)
		return -ENOMEM;
	letter->len = len;
	memcpy(letter->bytes, buf, len);
	for (letter->n_fds = 0; letter->n_fds < n_fds; letter->n_fds++) {
		int fd = raw_fcntl(fds[letter->n_fds], F_DUPFD_CLOEXEC, 0);

		if (fd < 0 || psid_descriptor_is_reserve(fd)) {
			(void)close_own(fd);
			letter_free(letter);
			return -EMFILE;
		}
		letter->fds[letter->n_fds] = fd;
	}
	TAILQ_INSERT_TAIL(&box->letters, letter, link);
	box->size += sizeof(*letter) + len;
	return 0;
}

int psid_outbox_send(struct psid_outbox *box, int socket, const void *buf, size_t len,
		     const int *fds, size_t n_fds, size_t size_max)
{
	int r;

	if (psid_outbox_is_empty(box)) {
		r = wire_send(socket, buf, len, fds, n_fds);
		if (r != -EAGAIN)
			return r;
	}
	if (box->size + sizeof(struct psid_letter) + len > size_max)
		return -ENOBUFS;
	return keep(box, buf, len, fds, n_fds);
}

int psid_outbox_flush(struct psid_outbox *box, int socket)
{
	struct psid_letter *letter;

	while ((letter = TAILQ_FIRST(&box->letters))) {
		int r = wire_send(socket, letter->bytes, letter->len, letter->fds, letter->n_fds);

		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		TAILQ_REMOVE(&box->letters, letter, link);
		box->size -= sizeof(*letter) + letter->len;
		letter_free(letter);
	}
	return 0;
}

bool psid_outbox_is_empty(const struct psid_outbox *box)
{
	return TAILQ_EMPTY(&box->letters);
}

void psid_outbox_deinit(struct psid_outbox *box)
{
	struct psid_letter *letter;

	while ((letter = TAILQ_FIRST(&box->letters))) {
		TAILQ_REMOVE(&box->letters, letter, link);
		letter_free(letter);
	}
	box->size = 0;
}
