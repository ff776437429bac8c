/*
 * Bytes of a long message, fetched by its receiver out of the sender's memory: one copy, made by
 * the kernel, while the sender does something else. And the choice between that and asking the
 * sender.
 *
 * Whom to ask the kernel about. The number of the process comes from psid, which has it from the
 * kernel, and never from the peer. The number may be somebody else's by the time of the copy: the
 * process died, or lives on as another program. So an offer names, beside the bytes, a random word
 * of this process's and where it lies; the receiver fetches bytes and word in one call, in this
 * order. The kernel looks the process up once for both, so whoever has the word had the bytes: this
 * very image of this very process. A forked child makes a word of its own. Any other outcome (no
 * right to ask, nobody there, no such memory, another word) means the same: this peer is asked to
 * send, now and from now on, and if it is dead its link's end says so. A peer that lies about
 * addresses reads its own memory, or nothing.
 *
 * Addresses are shown to peers of the same user only: others must not learn where things lie, and
 * could not use it.
 *
 * The choice. Which way takes less time depends on the machine, on where its processors are, and on
 * the two programs: asking is slow if the sender is seldom in the library, and a copy where the
 * kernel's is slow. So each is tried, what took less time for a byte is kept, and the other one is
 * tried again later, the more seldom the more often it has lost. A trial is counted by its second
 * half, and by no less than two messages: in the first one messages of both ways are under way
 * beside each other, and the ring's lines are not where pushing leaves them, or it has still to
 * grow. What was known of that way before counts no more then: it may have been a trial that went
 * badly. Of several under way the time of each begins when the one before was there.
 *
 * Messages of a sender that has asked for a progress thread are always fetched: pushing them would
 * take the processor that it computes on.
 *
 * Source: pulc-1998, 4.5.3 (rawdata: from the sender's memory to the receiver's without a stop);
 * process_vm_readv(2).
 */
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "tag.h"

/* Bytes of a trial, at least, and how many of them are not counted; of what is kept until the next
 * one, at first and at most. */
#define SIZE_TRIAL (16ull << 20)
#define SIZE_SETTLE (8ull << 20)
/* Times that are taken in a trial, at least. */
#define N_TIMED 2u
#define SIZE_KEPT (512ull << 20)
#define SIZE_KEPT_MAX (4ull << 30)
/* Short messages are timed together until they are so long. */
#define SIZE_TIMED (1ull << 20)
/* Copied in one turn, so that nobody who shares the process waits for all of a long message. */
#define SIZE_PULL (1u << 20)
/*
 * Shorter messages of one peer are fetched by one call as far as they are no longer together: the
 * call itself, and the proof, cost as much as 16 KiB do. Not all that there are: their sender shall
 * begin the next ones meanwhile.
 */
#define SIZE_BATCH (128u << 10)

static uint64_t proof[2]; /* 0: none was made */
static enum tag_pulls allowed = TAG_PULLS_MEASURED;

void tag_allow_pulls(enum tag_pulls how)
{
	allowed = how;
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

	if (!s->peer->pid || allowed == TAG_PULLS_NEVER || !has_proof())
		return place;
	place.address = (uintptr_t)s->buf;
	place.proof_address = (uintptr_t)proof;
	memcpy(place.proof, proof, sizeof(proof));
	return place;
}

bool tag_may_pull(const struct peer *peer)
{
	return peer->pid && allowed != TAG_PULLS_NEVER && !(peer->tags && peer->tags->no_pull);
}

/* By an eighth, as far as is known. */
static bool is_better(const struct tag_peer *tp, enum tag_way way)
{
	uint64_t nsec = tp->rates[way].nsec_per_megabyte, other = tp->rates[!way].nsec_per_megabyte;

	return nsec && nsec < other - other / 8;
}

/* Every other run is a trial, and so is the first one. */
static bool is_trial(const struct tag_choice *c)
{
	return c->n_runs == 0 || c->n_runs % 2 == 1;
}

static bool is_over(const struct tag_peer *tp)
{
	const struct tag_choice *c = &tp->choice;

	if (is_trial(c))
		return c->n_timed >= N_TIMED && c->size_timed >= SIZE_TRIAL - SIZE_SETTLE;
	return c->size >= c->size_kept || (c->size >= SIZE_TRIAL && is_better(tp, !c->way));
}

static void begin_run(struct tag_peer *tp)
{
	struct tag_choice *c = &tp->choice;

	c->size = c->size_timed = 0;
	c->n_timed = 0;
	if (++c->n_runs % 2 == 1) {
		c->way = !c->way;
		tp->rates[c->way].is_old = true;
	} else if (is_better(tp, c->way)) {
		c->size_kept = SIZE_KEPT;
	} else {
		c->way = !c->way;
		c->size_kept = MIN(MAX(2 * c->size_kept, (uint64_t)SIZE_KEPT),
				   (uint64_t)SIZE_KEPT_MAX);
	}
}

enum tag_way tag_choose(struct tag_message *m)
{
	struct tag_peer *tp = m->peer->tags;

	if (!m->place.address || !tag_may_pull(m->peer))
		return TAG_WAY_PUSH;
	if (m->away || allowed == TAG_PULLS_ALWAYS)
		return TAG_WAY_PULL;
	if (is_over(tp))
		begin_run(tp);
	m->settles = tp->choice.size < SIZE_SETTLE;
	tp->choice.size += m->size;
	return tp->choice.way;
}

static bool has_same_proof(const struct tag_place *a, const struct tag_place *b)
{
	return a->proof_address == b->proof_address &&
	       memcmp(a->proof, b->proof, sizeof(a->proof)) == 0;
}

unsigned tag_pull_batch(struct tag_message *first, struct tag_message *batch[TAG_PULL_MOST])
{
	uint64_t size = tag_wanted_size(first) - first->receive->done;
	struct tag_message *m = first;
	unsigned n = 0;

	do {
		batch[n++] = m;
		m = TAILQ_NEXT(m, by_order);
		size += m && m->receive ? tag_wanted_size(m) : 0;
	} while (m && n < TAG_PULL_MOST && size <= SIZE_BATCH && m->stage == TAG_STAGE_PULL &&
		 m->peer == first->peer && has_same_proof(&m->place, &first->place));
	return n;
}

int tag_pull(struct tag_message *const *batch, unsigned n)
{
	struct tag_peer *tp = batch[0]->peer->tags;
	const struct tag_place *place = &batch[0]->place;
	struct iovec here[TAG_PULL_MOST + 1], there[TAG_PULL_MOST + 1];
	uint64_t word[2] = { 0 };
	size_t size = sizeof(word);
	long got;

	for (unsigned i = 0; i < n; i++) {
		const struct tag_receive *r = batch[i]->receive;
		size_t len = MIN(tag_wanted_size(batch[i]) - r->done, (size_t)SIZE_PULL);

		here[i] = (struct iovec){ r->buf + r->done, len };
		there[i] = (struct iovec){ (void *)(uintptr_t)(batch[i]->place.address + r->done),
					   len };
		size += len;
	}
	here[n] = (struct iovec){ word, sizeof(word) };
	there[n] = (struct iovec){ (void *)(uintptr_t)place->proof_address, sizeof(word) };
	got = raw_syscall(SYS_process_vm_readv, (pid_t)tp->peer->pid, here, n + 1, there, n + 1, 0);
	if (got != (long)size || memcmp(word, place->proof, sizeof(word)) != 0) {
		tp->no_pull = true;
		return got < 0 ? (int)got : -EFAULT;
	}
	for (unsigned i = 0; i < n; i++)
		batch[i]->receive->done += here[i].iov_len;
	return 0;
}

/* A quarter of the way; but whoever lost his processor meanwhile has learnt little. */
static void learn(struct tag_rate *rate, uint64_t now)
{
	uint64_t known = rate->is_old ? 0 : rate->nsec_per_megabyte;

	rate->nsec_per_megabyte = known ? (3 * known + MIN(now, 2 * known) + 2) / 4 : now;
	rate->is_old = false;
}

/* So much of the way that is tried was timed. */
static void count(struct tag_choice *c, enum tag_way way, uint64_t size)
{
	if (way != c->way)
		return;
	c->size_timed += size;
	c->n_timed++;
}

/* A trial that takes more than twice the time has lost, whatever its beginning is worth. */
static void end_trial_early(struct tag_peer *tp, enum tag_way way, uint64_t now)
{
	uint64_t other = tp->rates[!way].nsec_per_megabyte;

	if (!is_trial(&tp->choice) || tp->choice.way != way || !other || now <= 2 * other)
		return;
	tp->rates[way].nsec_per_megabyte = now;
	tp->choice.size_timed = SIZE_TRIAL;
	tp->choice.n_timed = N_TIMED;
}

void tag_rate(const struct tag_message *m, enum tag_way way)
{
	struct tag_peer *tp = m->peer->tags;
	struct tag_rate *rate = &tp->rates[way];
	uint64_t now = nsec_now(), begun = MAX(m->nsec_begun, rate->nsec_last), size;

	rate->n++;
	rate->nsec_last = now;
	rate->size += m->receive->done;
	rate->nsec += now - begun;
	if (rate->size < SIZE_TIMED)
		return;
	size = rate->size;
	now = (uint64_t)((double)rate->nsec / (double)size * (1 << 20)) + 1;
	rate->nsec = rate->size = 0;
	if (m->settles) {
		end_trial_early(tp, way, now);
		return;
	}
	learn(rate, now);
	count(&tp->choice, way, size);
}

void tag_pull_forget(void)
{
	memset(proof, 0, sizeof(proof));
}
