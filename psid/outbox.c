/*
 * What a slow reader has not taken yet. A client looks at its socket when it has a reason to,
 * which may be a while, and never when it is stopped; psid neither waits for it nor forgets.
 *
 * The kernel's buffer comes first and the queue keeps the order. It takes none with a descriptor
 * while those that its user's processes have sent and nobody has received are too many
 * (ETOOMANYREFS, unix(7)): somebody else's doing, not the client's, so such a message is kept, too.
 *
 * Whatever is sent with a message somebody has, or has had: what is kept of it the closer closes.
 *
 * Descriptors may be out when a message must be kept. Then that message is not sent, and who sends
 * it knows: what it was for does not happen, and the client, which may only be stopped, stays. A
 * message that must not fail behind another one is written before; such are about memory made just
 * now, which had a number below the reserve (descriptors.c), so hardly any of them has one above.
 */
#include "outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "cleanup.h"
#include "descriptors.h"
#include "psid.h"
#include "user.h"

struct psid_letter {
	TAILQ_ENTRY(psid_letter) link;
	struct psid_user *user;
	size_t len;
	uint32_t n_fds;
	int fds[WIRE_FDS_MAX];
	unsigned char bytes[];
};

void psid_outbox_init(struct psid_outbox *box, struct psid_user *user)
{
	box->user = user;
	TAILQ_INIT(&box->letters);
	box->size = 0;
	box->n_fds = 0;
}

void psid_letter_free(struct psid_letter *letter)
{
	if (!letter)
		return;
	while (letter->n_fds > 0)
		psid_close_promised(letter->user->psid, letter->user, letter->fds[--letter->n_fds],
				    NULL, NULL);
	free(letter);
}

/* Another descriptor of the same. Returns 0; -EMFILE; -ENOMEM. */
static int copy(const struct psid_user *user, int fd, int *ret_fd)
{
	CLEANUP_FD int again = raw_fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (again < 0)
		return -EMFILE;
	if (psid_closer_promise(&user->psid->closer) < 0)
		return -ENOMEM;
	*ret_fd = TAKE_FD(again);
	return 0;
}

int psid_letter_write(struct psid_user *user, const void *buf, size_t len, const int *fds,
		      uint32_t n_fds, struct psid_letter **ret_letter)
{
	struct psid_letter *letter = malloc(sizeof(*letter) + len);

	if (!letter)
		return -ENOMEM;
	letter->user = user;
	letter->len = len;
	memcpy(letter->bytes, buf, len);
	for (letter->n_fds = 0; letter->n_fds < n_fds; letter->n_fds++) {
		int r = copy(user, fds[letter->n_fds], &letter->fds[letter->n_fds]);

		if (r < 0) {
			psid_letter_free(letter);
			return r;
		}
	}
	*ret_letter = letter;
	return 0;
}

/* The message is to be sent once more. */
static bool is_early(int r)
{
	return r == -EAGAIN || r == -ETOOMANYREFS;
}

static bool has_reserve(const struct psid_letter *letter)
{
	for (uint32_t i = 0; i < letter->n_fds; i++)
		if (psid_descriptor_is_reserve(letter->fds[i]))
			return true;
	return false;
}

static size_t size_of(const struct psid_letter *letter)
{
	return sizeof(*letter) + letter->len;
}

static void keep(struct psid_outbox *box, struct psid_letter *letter)
{
	TAILQ_INSERT_TAIL(&box->letters, letter, link);
	box->size += size_of(letter);
	box->n_fds += letter->n_fds;
}

static void take_out(struct psid_outbox *box, struct psid_letter *letter)
{
	TAILQ_REMOVE(&box->letters, letter, link);
	box->size -= size_of(letter);
	box->n_fds -= letter->n_fds;
	psid_letter_free(letter);
}

int psid_outbox_post(struct psid_outbox *box, int socket, struct psid_letter *letter,
		     struct psid_outbox_room room)
{
	int r = -EAGAIN;

	if (psid_outbox_is_empty(box))
		r = wire_send(socket, letter->bytes, letter->len, letter->fds, letter->n_fds);
	if (is_early(r) && size_of(letter) <= room.size) {
		keep(box, letter);
		return 0;
	}
	psid_letter_free(letter);
	return is_early(r) ? -ENOBUFS : r;
}

int psid_outbox_send(struct psid_outbox *box, int socket, const void *buf, size_t len,
		     const int *fds, uint32_t n_fds, struct psid_outbox_room room)
{
	struct psid_letter *letter;
	int r;

	if (psid_outbox_is_empty(box)) {
		r = wire_send(socket, buf, len, fds, n_fds);
		if (!is_early(r))
			return r;
	}
	if (sizeof(*letter) + len > room.size)
		return -ENOBUFS;
	if (n_fds > room.n_fds)
		return -EMFILE;
	r = psid_letter_write(box->user, buf, len, fds, n_fds, &letter);
	if (r < 0)
		return r;
	if (has_reserve(letter)) {
		psid_letter_free(letter);
		return -EMFILE;
	}
	keep(box, letter);
	return 0;
}

int psid_outbox_flush(struct psid_outbox *box, int socket)
{
	struct psid_letter *letter;

	while ((letter = TAILQ_FIRST(&box->letters))) {
		int r = wire_send(socket, letter->bytes, letter->len, letter->fds, letter->n_fds);

		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		take_out(box, letter);
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

	while ((letter = TAILQ_FIRST(&box->letters)))
		take_out(box, letter);
}
