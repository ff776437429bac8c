/* The fake libpulc's wait sets: the second half of preload_fake.h, which alone includes it. */
#ifndef PULC_TESTS_PRELOAD_FAKE_WAIT_H
#define PULC_TESTS_PRELOAD_FAKE_WAIT_H

/* ---- waiting --------------------------------------------------------------------------------- */

void pulc_waitset_expect(void)
{
}

int pulc_waitset_new(pulc_waitset **ret_set)
{
	pulc_waitset *set;

	if (fake.no_waitset)
		return -ENOBUFS;
	set = calloc(1, sizeof(*set));
	set->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	set->pid = getpid();
	(void)!pulc_fd_adopt(&set->bell);
	*ret_set = set;
	return 0;
}

pulc_waitset *pulc_waitset_free(pulc_waitset *set)
{
	if (set)
		pulc_fd_release(&set->bell);
	/* In a forked child the parent's watches go on naming it. */
	if (set && set->pid == getpid())
		free(set);
	return NULL;
}

bool pulc_waitset_alive(const pulc_waitset *set)
{
	return set->pid == getpid();
}

int pulc_waitset_fd(const pulc_waitset *set)
{
	return set->bell;
}

unsigned pulc_waitset_n_bits(const pulc_waitset *set)
{
	(void)set;
	return FAKE_N_BITS;
}

void pulc_waitset_arm(pulc_waitset *set)
{
	atomic_store(&set->armed, true);
}

void pulc_waitset_disarm(pulc_waitset *set)
{
	atomic_store(&set->armed, false);
}

bool pulc_waitset_pending(const pulc_waitset *set)
{
	for (int i = 0; i < FAKE_N_BITS; i++) {
		if (atomic_load(&set->bits[i]))
			return true;
	}
	return false;
}

bool pulc_waitset_take(pulc_waitset *set, unsigned *ret_bit)
{
	for (unsigned i = 0; i < FAKE_N_BITS; i++) {
		if (atomic_exchange(&set->bits[i], false)) {
			*ret_bit = i;
			return true;
		}
	}
	return false;
}

void pulc_waitset_ring(pulc_waitset *set)
{
	(void)atomic_fetch_add(&set->n_rings, 1);
	(void)!eventfd_write(set->bell, 1);
}

void pulc_waitset_quiet(pulc_waitset *set)
{
	eventfd_t value;

	(void)!eventfd_read(set->bell, &value);
}

int pulc_stream_watch(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events)
{
	struct fake_watch *found = NULL;

	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < 8; i++) {
		struct fake_watch *w = &s->watches[i];

		if (!w->set || (w->set == set && w->bit == bit)) {
			found = w;
			break;
		}
	}
	if (found)
		*found = (struct fake_watch){
			.set = set, .bit = bit, .events = events, .armed = true
		};
	pthread_mutex_unlock(&fake.lock);
	if (s->tells_at_once) {
		s->tells_at_once = false;
		fake_tell(s, events);
	}
	return found ? 0 : -ENOSPC;
}

void pulc_stream_unwatch(pulc_stream *s, pulc_waitset *set, unsigned bit)
{
	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < 8; i++) {
		if (s->watches[i].set == set && s->watches[i].bit == bit)
			s->watches[i].set = NULL;
	}
	pthread_mutex_unlock(&fake.lock);
}

uint64_t pulc_stream_patience(pulc_stream *s, pulc_waitset *set)
{
	(void)s;
	(void)set;
	return fake.nsec_patience;
}

int pulc_notice_fd(short *ret_events)
{
	*ret_events = 0;
	return -1;
}

unsigned pulc_notice_mark(void)
{
	return 0;
}

static uint64_t fake_nsec_trust = UINT64_MAX;
static _Atomic unsigned fake_n_sleeps; /* or nearly */

uint64_t pulc_notice_patience(void)
{
	(void)atomic_fetch_add(&fake_n_sleeps, 1);
	return fake_nsec_trust;
}

void pulc_notice(bool said)
{
	(void)said;
}

static pulc_waitset *fake_mine;

pulc_waitset *pulc_waitset_mine(void)
{
	if (!fake_mine)
		(void)pulc_waitset_new(&fake_mine);
	return fake_mine;
}

static __thread volatile uint32_t fake_n_handled;

uint32_t pulc_signal_begins(int signal, const siginfo_t *info, void *context, bool restarts)
{
	(void)signal;
	(void)info;
	(void)context;
	(void)restarts;
	fake_n_handled++;
	return 0;
}

uint32_t pulc_signal_count(void)
{
	return fake_n_handled;
}

void pulc_signal_done(uint32_t answer)
{
	(void)answer;
}

/* ---- when what is unread was sent ------------------------------------------------------------ */

static uint32_t fake_now;

uint32_t pulc_stream_when(pulc_stream *s)
{
	return s->when;
}

uint32_t pulc_when(void)
{
	return fake_now;
}

#endif
