/*
 * The greeting on a new connection: both ends show that they hold the key that someone both trust
 * has given to these two.
 *
 * Each sends 24 bytes, a name and 16 random ones; then a proof, the SipHash-2-4 under the key of
 * its role and both greetings. So the key never travels, a proof is good for this connection only,
 * and sending somebody's own words back proves nothing, for the roles differ. Whoever guesses has
 * one try at 64 bits, since the key is forgotten after it.
 *
 * It keeps strangers from connecting in another one's name. It hides nothing and does not watch
 * over what follows: whoever can change packets on the way can do so after the greeting.
 *
 * Source: Aumasson and Bernstein 2012 (SipHash); ISO 9798-4 (mutual authentication by a keyed check
 * function).
 */
#include "handshake.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "macros.h"
#include "rawsys.h"

#define SIZE_NAME 8u
#define SIZE_PROOF 8u

static const char name[SIZE_NAME] = { 'P', 'U', 'L', 'C', 't', 'c', 'p', '2' };

/* ---- SipHash-2-4 ----------------------------------------------------------------------------- */

static inline uint64_t rotate(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void rounds(uint64_t v[4], unsigned n)
{
	for (; n > 0; n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static uint64_t load(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return le64toh(x);
}

static void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

/* Of whole words; the last word of the padding is the length alone. */
static uint64_t siphash(const uint8_t key[HANDSHAKE_KEY], const uint8_t *bytes, size_t len)
{
	uint64_t k0 = load(key), k1 = load(key + 8);
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull,
			  k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull };

	for (size_t at = 0; at < len; at += 8)
		absorb(v, load(bytes + at));
	absorb(v, (uint64_t)len << 56);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- the greeting ---------------------------------------------------------------------------- */

/* What the end in this role has to show. */
static uint64_t proof(const struct handshake *h, bool connects)
{
	uint8_t text[8 + 2 * HANDSHAKE_HELLO] = { connects };

	memcpy(text + 8, h->connects ? h->ours : h->theirs, HANDSHAKE_HELLO);
	memcpy(text + 8 + HANDSHAKE_HELLO, h->connects ? h->theirs : h->ours, HANDSHAKE_HELLO);
	return htole64(siphash(h->key, text, sizeof(text)));
}

int handshake_init(struct handshake *h, const uint8_t key[HANDSHAKE_KEY], bool connects)
{
	size_t size = HANDSHAKE_HELLO - SIZE_NAME;
	long e;

	*h = (struct handshake){ .connects = connects };
	memcpy(h->key, key, HANDSHAKE_KEY);
	memcpy(h->ours, name, SIZE_NAME);
	e = raw_syscall(SYS_getrandom, h->ours + SIZE_NAME, size, 0);
	if (e < 0)
		return (int)e;
	return (size_t)e == size ? 0 : -EAGAIN;
}

static int send_part(struct handshake *h, int fd, const void *part, uint32_t from, uint32_t size)
{
	ssize_t len;

	while (h->size_sent < from + size) {
		len = raw_send(fd, (const char *)part + (h->size_sent - from),
			       from + size - h->size_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (len == -EAGAIN || len == -EINTR)
			return -EAGAIN;
		if (len <= 0)
			return -EPIPE;
		h->size_sent += (uint32_t)len;
	}
	return 0;
}

static int get_part(struct handshake *h, int fd, void *part, uint32_t from, uint32_t size)
{
	ssize_t len;

	while (h->size_got < from + size) {
		len = raw_recv(fd, (char *)part + (h->size_got - from), from + size - h->size_got,
			       MSG_DONTWAIT);
		if (len == -EAGAIN || len == -EINTR)
			return -EAGAIN;
		if (len <= 0)
			return -EPIPE;
		h->size_got += (uint32_t)len;
	}
	return 0;
}

static int go_on(struct handshake *h, int fd)
{
	int e = send_part(h, fd, h->ours, 0, HANDSHAKE_HELLO);

	if (e == 0)
		e = get_part(h, fd, h->theirs, 0, HANDSHAKE_HELLO);
	if (e == 0 && memcmp(h->theirs, name, SIZE_NAME) != 0)
		e = -EBADMSG;
	if (e < 0)
		return e;
	h->proof_ours = proof(h, h->connects);
	e = send_part(h, fd, &h->proof_ours, HANDSHAKE_HELLO, SIZE_PROOF);
	if (e == 0)
		e = get_part(h, fd, &h->proof_theirs, HANDSHAKE_HELLO, SIZE_PROOF);
	if (e < 0)
		return e;
	return h->proof_theirs == proof(h, !h->connects) ? 0 : -EACCES;
}

int handshake_step(struct handshake *h, int fd)
{
	int e = go_on(h, fd);

	if (e != -EAGAIN)
		explicit_bzero(h->key, sizeof(h->key));
	return e;
}
