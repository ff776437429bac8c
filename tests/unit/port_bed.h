/* A port of ours, and at the other end of a fake link a test that speaks for the peer's. */
#ifndef PULC_TESTS_PORT_BED_H
#define PULC_TESTS_PORT_BED_H

#include <errno.h>

#include "fake_hal.h"
#include "harness.h"
#include "port.h"

#define OURS 70000u
#define THEIRS 80u
#define WORD ((uint64_t)OURS << 32 | THEIRS) /* of the way from theirs to ours */

static struct fake_pair pair;
static struct peer *peer;
static struct port *port;

/* n_queue: frames that the link takes without being looked at. */
static void bed_begin(enum port_kind kind, unsigned n_queue)
{
	const struct fake_config config = { .flags = HAL_ORDERED | HAL_RELIABLE | HAL_PRESENT,
					    .frame_max = 65536,
					    .n_queue = n_queue };

	(void)protocol_register(PROTOCOL_PORT, &port_protocol);
	fake_pair_init(&pair, &config);
	peer = peer_new(pair.link[0], 1);
	port = port_new(OURS, kind);
	REQUIRE(peer && port);
	REQUIRE_INT(peer_grant(peer, THEIRS), ==, 0);
}

/* Of datagrams, and theirs have n ports. */
static inline void bed_begin_among(unsigned n)
{
	bed_begin(PORT_D, 1024);
	for (unsigned i = 0; i < n; i++)
		REQUIRE_INT(peer_grant(peer, THEIRS + i), ==, 0);
}

static inline uint64_t word_of(unsigned i)
{
	return WORD + i;
}

static void bed_end(void)
{
	if (port_find(OURS))
		port_forget(port);
	CHECK_INT(peer->size_here, ==, 0);
	peer_break(peer, -ECONNRESET);
	port_moves_forked();
	peer_unref(peer);
	protocol_tell_forget();
	fake_pair_deinit(&pair);
}

static void bed_arrive(uint64_t word, unsigned kind, const void *data, size_t len)
{
	const struct hal_frame f = { .word = word,
				     .protocol = PROTOCOL_PORT,
				     .kind = (uint16_t)kind,
				     .len = (uint32_t)len };

	fake_pair_inject(&pair, 0, &f, data);
	REQUIRE(!peer_serve(peer, 1));
}

/* What has come at the other end of that kind; *ret: of the last one. */
static inline unsigned bed_heard(unsigned kind, struct port_about *ret, uint64_t *ret_word)
{
	struct hal_link *link = pair.link[1];
	struct iovec iov = { ret, sizeof(*ret) };
	struct hal_frame f;
	unsigned n = 0;

	while (link->ops->next(link, &f) == 1) {
		if (f.kind == kind) {
			n++;
			*ret_word = f.word;
			(void)link->ops->copy(link, &iov, 1);
		}
		link->ops->drop(link);
	}
	return n;
}

/* What ends the link for its peer. */
static inline bool bed_breaks(uint64_t word, unsigned kind, struct port_about about)
{
	const struct hal_frame f = { .word = word,
				     .protocol = PROTOCOL_PORT,
				     .kind = (uint16_t)kind,
				     .len = sizeof(about) };

	fake_pair_inject(&pair, 0, &f, &about);
	return peer_serve(peer, 1) && peer->error == -EBADMSG;
}

#endif
