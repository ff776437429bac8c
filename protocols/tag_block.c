/*
 * Tagged messages that nobody copies: the sender gives up a block of its message area, the receiver
 * reads it where it lies.
 *
 * A message in a block is announced as an offer, with the place in the area besides. The receiver
 * that has the sender's area mapped finds the bytes there at once: so the message is here like a
 * short one, also when its sender ends. It is taken in one of two ways: copied to a buffer, or lent
 * to the program, by its address, until the program gives it back. Either ends with DONE, and the
 * block is the sender's again. Who does not have the area treats it as any other offer.
 *
 * Lending is for every message: a short one is lent in the memory that it was queued in, a long one
 * in memory that it is fetched to. So a program need not know how a message came.
 *
 * Nothing is believed: a place outside of the area ends the link. The bytes themselves stay
 * writable to their sender; whoever must be sure that what was checked is what is used copies them
 * first.
 *
 * Source: pulc-1998, 4.5.3 (rawdata without a copy); DESIGN 5.
 */
#include <stdlib.h>

#include "macros.h"
#include "step.h"
#include "tag.h"

#define N_ROWS 64u

int (*tag_area_bytes)(struct peer *peer, uint64_t offset, uint64_t size,
		      struct tag_bytes *ret_bytes);
void (*tag_area_unref)(void *holder);

static LARGE struct tag_messages lent[N_ROWS];
static bool has_rows;

static unsigned row_of(const void *at)
{
	return (unsigned)((uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15ull >> 58);
}

static void make_rows(void)
{
	for (unsigned i = 0; !has_rows && i < N_ROWS; i++)
		TAILQ_INIT(&lent[i]);
	has_rows = true;
}

int tag_block_find(struct tag_message *m, uint64_t offset)
{
	int e = tag_area_bytes ? tag_area_bytes(m->peer, offset, m->size, &m->bytes) : -ENOENT;

	STEP(BLOCK_ARRIVED);
	return e == -EBADMSG ? e : 0;
}

const unsigned char *tag_message_bytes(const struct tag_message *m)
{
	return m->bytes.at ? m->bytes.at : m->data;
}

void tag_bytes_drop(struct tag_message *m)
{
	if (m->bytes.holder)
		tag_area_unref(m->bytes.holder);
	if (m->bytes.is_malloced)
		free((void *)m->bytes.at);
}

/* ---- lending --------------------------------------------------------------------------------- */

void tag_lend(struct tag_message *m, struct tag_receive *r)
{
	make_rows();
	r->lent = tag_message_bytes(m);
	r->done = MIN((uint64_t)r->size, m->size);
	m->stage = TAG_STAGE_LENT;
	TAILQ_INSERT_TAIL(&lent[row_of(r->lent)], m, by_tag);
	STEP(BLOCK_LENT);
}

int tag_give_back(const void *at)
{
	struct tag_message *m;

	make_rows();
	TAILQ_FOREACH(m, &lent[row_of(at)], by_tag)
		if (tag_message_bytes(m) == at)
			break;
	if (!m)
		return -EINVAL;
	TAILQ_REMOVE(&lent[row_of(at)], m, by_tag);
	if (m->id && m->bytes.at)
		tag_say_done(m);
	else
		tag_message_free(m);
	STEP(BLOCK_RETURNED);
	return 0;
}

/* What was lent can still be read and given back; the sender is the parent's to tell. */
void tag_lent_forget(void)
{
	struct tag_message *m;

	make_rows();
	for (unsigned i = 0; i < N_ROWS; i++)
		TAILQ_FOREACH(m, &lent[i], by_tag)
			m->id = 0;
}

/* ---- memory for what must be fetched --------------------------------------------------------- */

int tag_room_make(struct tag_receive *r, const struct tag_message *m)
{
	size_t size = MIN((uint64_t)r->size, m->size);

	r->room = calloc(1, sizeof(*r->room));
	r->buf = malloc(MAX(size, (size_t)1));
	if (!r->room || !r->buf) {
		tag_room_drop(r);
		return -ENOMEM;
	}
	return 0;
}

void tag_room_drop(struct tag_receive *r)
{
	if (!r->lends)
		return;
	free(r->room);
	free(r->buf);
	r->room = NULL;
	r->buf = NULL;
}

void tag_room_lend(struct tag_receive *r)
{
	struct tag_message *m = r->room;

	m->bytes = (struct tag_bytes){ .at = r->buf, .is_malloced = true };
	m->size = r->done;
	r->room = NULL;
	r->buf = NULL;
	tag_lend(m, r);
}
