/*
 * psid's end.
 *
 * Connections on rings go on without a psid, so nobody would look at the channel, and nobody would
 * come to the next psid. Therefore whoever sleeps over an attached stream sleeps over the channel
 * as well, for its hang-up alone: psid's messages do not wake him. That costs a sleep one more
 * descriptor, and a wait that does not sleep one look in N_WAITS.
 *
 * Once the channel has hung up, sleepers wake up now and then and one of them looks for a psid:
 * after 10 ms, then each time after a quarter of the time that it has been away, at most
 * NSEC_GAP_MAX. After NSEC_SEEK nobody wakes up for it any more; whoever is about to sleep anyway
 * still looks, no more often than that. So an idle process does some fifty attempts in all.
 *
 * A process that has come back looks at messages as well when it sleeps: what psid has to say may
 * be that all of the other side has died meanwhile (Dead), which memory does not tell.
 */
#include "notice.h"

#include <poll.h>
#include <stdatomic.h>

#include "client.h"
#include "clock.h"
#include "deliver.h"
#include "macros.h"
#include "private.h"
#include "rawsys.h"

#define NSEC_GAP_MIN (10 * 1000 * NSEC_PER_USEC)
#define NSEC_GAP_MAX (2 * NSEC_PER_SEC)
/* Between attempts where nothing was lost. */
#define NSEC_GAP_USUAL (500 * 1000 * NSEC_PER_USEC)
#define NSEC_SEEK (60 * NSEC_PER_SEC)
/* What psid did not take at once it is offered again. */
#define NSEC_DUE (1000 * NSEC_PER_USEC)
/* Whoever was to wake a sleeper may have died before: nobody sleeps longer without a look. */
#define NSEC_TRUST (5 * NSEC_PER_SEC)
/* Waits between two looks: a look costs what some ten waits cost. */
#define N_WAITS 65536

/* When psid was lost; 0: it was not, or nobody here needs it. */
static OFTEN _Atomic uint64_t lost_at;

static _Atomic bool has_come_back;
static bool any_attached;

static void look_for_attached(struct pulc_stream *s)
{
	any_attached |= s->handler == &stream_handler && pulc_stream_attached(s);
}

void notice_seek(void)
{
	if (!atomic_load(&lost_at))
		atomic_store(&lost_at, nsec_now());
}

bool notice_lost(void)
{
	any_attached = false;
	stream_list_each(look_for_attached);
	if (any_attached)
		notice_seek();
	return any_attached;
}

void notice_found(void)
{
	if (atomic_exchange(&lost_at, 0))
		has_come_back = true;
}

USUAL void notice_forked(void)
{
	atomic_store(&lost_at, 0);
}

uint64_t notice_gap(void)
{
	uint64_t since = atomic_load(&lost_at), gap = since ? (nsec_now() - since) / 4 : 0;

	if (!since)
		return NSEC_GAP_USUAL;
	return MIN(MAX(gap, (uint64_t)NSEC_GAP_MIN), (uint64_t)NSEC_GAP_MAX);
}

uint64_t notice_patience(void)
{
	uint64_t since = atomic_load_explicit(&lost_at, memory_order_relaxed), now, next;

	if (UNLIKELY(client_owes()))
		return NSEC_DUE;
	if (LIKELY(!since))
		return MIN((uint64_t)NSEC_TRUST, deliver_patience());
	now = nsec_now();
	next = client_next_attempt();
	if (now - since > NSEC_SEEK || next == UINT64_MAX)
		return NSEC_TRUST;
	return next > now + NSEC_GAP_MIN ? next - now : NSEC_GAP_MIN;
}

static bool is_lost(void)
{
	return atomic_load_explicit(&lost_at, memory_order_relaxed) != 0;
}

PULC_EXPORT uint64_t pulc_notice_patience(void)
{
	return notice_patience();
}

PULC_EXPORT int pulc_notice_fd(short *ret_events)
{
	*ret_events = has_come_back ? POLLIN : 0;
	return client_is_confined() ? -1 : client_channel();
}

PULC_EXPORT unsigned pulc_notice_mark(void)
{
	return client_channel() < 0 ? 0 : client_generation();
}

PULC_EXPORT void pulc_notice(bool said)
{
	if (LIKELY(!said && !is_lost() && !client_owes() && deliver_patience() > 0))
		return;
	if (client_is_confined() || !client_lock())
		return;
	client_look();
	if (is_lost())
		(void)client_attach();
	deliver_look();
	client_unlock();
}

void notice_in_passing(void)
{
	static __thread uint32_t n_waits __attribute__((tls_model("initial-exec")));
	struct timespec now = { 0, 0 };
	struct pollfd p;

	if (LIKELY(++n_waits % N_WAITS) || client_is_confined())
		return;
	p.fd = pulc_notice_fd(&p.events);
	pulc_notice(raw_ppoll(&p, 1, &now) > 0);
}
