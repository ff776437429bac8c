/*
 * The ring's reading side against whatever a peer may have written: the input is the peer's control
 * words, changed between the steps of a small program of reads, peeks and skips.
 *
 * Each step takes 10 bytes: what to do, how much, and one word of the peer's page with its new
 * value.
 */
#include <string.h>
#include <sys/mman.h>

#include "stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_RING 256u

static struct shm_side own, peer;
static _Atomic uint32_t n_holders;
static unsigned char rings[2][SHM_N_RINGS][SIZE_RING];

static void bind(struct shm_stream *s)
{
	memset(&own, 0, sizeof(own));
	memset(&peer, 0, sizeof(peer));
	n_holders = 1;
	*s = (struct shm_stream){
		.own = &own, .peer = &peer, .own_holders = &n_holders, .peer_holders = &n_holders
	};
	for (unsigned i = 0; i < SHM_N_RINGS; i++) {
		s->tx_ring[i] = rings[0][i];
		s->rx_ring[i] = rings[1][i];
		s->tx_size[i] = s->rx_size[i] = SIZE_RING >> (SHM_N_RINGS - 1 - i);
		own.ring_at[i] = peer.ring_at[i] = i ? SHM_NOT_BEGUN : 0;
	}
}

static void step(struct shm_stream *s, uint8_t what, size_t len)
{
	unsigned char buf[4096];
	uint64_t room;
	bool published = false;

	switch (what % 6) {
	case 0:
		(void)shm_rx_read(s, buf, len, &published);
		break;
	case 1:
		(void)shm_rx_peek(s, buf, len, what);
		break;
	case 2:
		(void)shm_rx_skip(s, len, &published);
		break;
	case 3:
		(void)shm_tx_write(s, buf, len);
		break;
	case 4:
		(void)shm_tx_room(s, &room);
		(void)shm_rx_waiting(s);
		(void)shm_tx_unread(s);
		break;
	default:
		if (shm_tx_next_ring(s, len, UINT64_MAX) < SHM_N_RINGS)
			own.ring_at[++s->tx_cur] = own.head;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shm_stream s;
	uint64_t value;

	bind(&s);
	for (; size >= 10; data += 10, size -= 10) {
		memcpy(&value, data + 2, sizeof(value));
		((_Atomic uint64_t *)&peer)[data[1] % (sizeof(peer) / 8)] = value;
		step(&s, data[0], (size_t)data[1] * 16);
	}
	return 0;
}
