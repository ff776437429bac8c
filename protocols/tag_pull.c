/*
 * Bytes of a long message, fetched by its receiver out of the sender's memory: one copy, made by the kernel, while the sender does something
 * else. And the choice between that and asking the sender.
 *
 * Whom to ask the kernel about. The number of the process comes from psid, which has it from the kernel, and never from the peer. The
 * number may be somebody else's by the time of the copy: the process died, or lives on as another program. So an offer names, beside the
 * bytes, a random word of this process's and where it lies; the receiver fetches bytes and word in one call, in this order. The kernel
 * looks the process up once for both, so whoever has the word had the bytes: this very image of this very process. A forked child makes a
 * word of its own. Any other outcome (no right to ask, nobody there, no such memory, another word) means the same: this peer is asked to send, now
 * and from now on, and if it is dead its link's end says so. A peer that lies about addresses reads its own memory, or nothing.
 *
 * Addresses are shown to peers of the same user only: others must not learn where things lie, and could not use it.
 *
 * The choice. Below 64 KiB a copy costs less than asking. Above, each way is tried on a few messages of a peer's, and then the one that took
 * less time for a byte is kept, with a look at the other one now and then; asking is slow if the sender is seldom in the library, and a
 * copy where the kernel's is slow.
 *
 * Source: pulc-1998, 4.5.3 (rawdata: from the sender's memory to the receiver's without a stop); process_vm_readv(2).
 */
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "macros.h"
#include "rawsys.h"
#include "tag.h"

#define SIZE_CHOICE 65536u
#define N_TRIALS 4u
#define N_LOOK_AGAIN 64u

static uint64_t proof[2]; /* 0: none was made */
static const char *allowed;

void tag_allow_pulls(const char *how)
{
	allowed = how;
}

static bool is_setting(const char *value)
{
	return allowed && strcmp(allowed, value) == 0;
}

static bool has_proof(void)
{
	if (LIKELY(proof[0] != 0))
		return true;
	if (raw_syscall(SYS_getrandom, proof, sizeof(proof), GRND_NONBLOCK) != sizeof(proof))
		memset(proof, 0, sizeof(proof));
	return proof[0] != 0;
}

struct tag_place tag_place_of(const struct tag_send *s)
{
	struct tag_place place = { 0 };

	if (!s->peer->pid || is_setting("0") || !has_proof())
		return place;
	place.address = (uintptr_t)s->buf;
	place.proof_address = (uintptr_t)proof;
	memcpy(place.proof, proof, sizeof(proof));
	return place;
}

bool tag_may_pull(const struct peer *peer)
{
	return peer->pid && !is_setting("0") && !(peer->tags && peer->tags->no_pull);
}

static enum tag_way choose_by_rate(struct tag_peer *tp)
{
	uint64_t n = tp->n_chosen++;
	bool push_is_faster = tp->rates[TAG_WAY_PUSH].nsec_per_megabyte <
			      tp->rates[TAG_WAY_PULL].nsec_per_megabyte;

	if (n < 2 * N_TRIALS)
		return n < N_TRIALS ? TAG_WAY_PULL : TAG_WAY_PUSH;
	if (n % N_LOOK_AGAIN == 0)
		push_is_faster = !push_is_faster;
	return push_is_faster ? TAG_WAY_PUSH : TAG_WAY_PULL;
}

enum tag_way tag_choose(struct tag_peer *tp, const struct tag_place *place, uint64_t size)
{
	if (!place->address || !tag_may_pull(tp->peer))
		return TAG_WAY_PUSH;
	if (size < SIZE_CHOICE || is_setting("1"))
		return TAG_WAY_PULL;
	return choose_by_rate(tp);
}

int tag_pull(struct tag_peer *tp, const struct tag_place *place, size_t at, void *to, size_t len)
{
	uint64_t word[2] = { 0 };
	const struct iovec here[2] = { { to, len }, { word, sizeof(word) } };
	const struct iovec there[2] = {
		{ (void *)(uintptr_t)(place->address + at), len },
		{ (void *)(uintptr_t)place->proof_address, sizeof(word) },
	};
	long n = raw_syscall(SYS_process_vm_readv, (pid_t)tp->peer->pid, here, 2, there, 2, 0);

	if (n == (long)(len + sizeof(word)) && memcmp(word, place->proof, sizeof(word)) == 0)
		return 0;
	tp->no_pull = true;
	return n < 0 ? (int)n : -EFAULT;
}

void tag_rate(struct tag_peer *tp, enum tag_way way, size_t size, uint64_t nsec)
{
	struct tag_rate *rate = &tp->rates[way];
	uint64_t now = (uint64_t)((double)nsec / (double)size * (1 << 20));

	rate->n++;
	if (size >= SIZE_CHOICE)
		rate->nsec_per_megabyte = rate->nsec_per_megabyte
						  ? (3 * rate->nsec_per_megabyte + now) / 4
						  : now;
}

void tag_pull_forget(void)
{
	memset(proof, 0, sizeof(proof));
}
