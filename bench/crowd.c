/*
 * Many processes on one processor. In each round every one of them sends 8 B to every other one and
 * receives as many; or, in pairs, half of them play ping-pong with the other half, so that no
 * message can be had without a switch to another process. Told is what a message costs, all
 * processes together, and how often one of them gave up the processor for it; and what it costs two
 * processes there to hand a word to and fro by futex.
 *
 * Needs a psid. Processes are forked by one that never attaches.
 */
#include "clock.h"
#include "options.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>
#include <pulc/tag.h>

#define N_MAX 64u
#define N_FUTEX 20000u
#define N_WARMUP 200u
#define TAG_ROUND 1u

struct settings {
	unsigned cpu, processes, msec;
	bool tags, pairs;
};

static struct {
	_Atomic unsigned n_ready, n_done;
	_Atomic uint32_t word;	   /* whose turn it is, for the futex */
	_Atomic uint64_t n_rounds; /* that are to be played; told by the first process */
	_Atomic uint64_t nsec, n_switches;
	_Atomic int error;
	struct pulc_address addresses[N_MAX];
} * shared;

static int pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

/* ---- the futex ------------------------------------------------------------------------------- */

static void hand_over(uint32_t me, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		while (atomic_load(&shared->word) != me)
			(void)syscall(SYS_futex, &shared->word, FUTEX_WAIT, !me, NULL);
		atomic_store(&shared->word, !me);
		(void)syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1);
	}
}

/* ns from the one to the other. */
static double futex_nsec(void)
{
	uint64_t began;
	pid_t pid = fork();

	if (pid == 0) {
		hand_over(1, N_FUTEX);
		_exit(0);
	}
	began = nsec_now();
	hand_over(0, N_FUTEX);
	(void)waitpid(pid, NULL, 0);
	return (double)(nsec_now() - began) / (2.0 * N_FUTEX);
}

/* ---- one of the crowd ------------------------------------------------------------------------ */

struct one {
	const struct settings *set;
	unsigned at;
	pulc_port *port;
	uint32_t peers[N_MAX]; /* for tags */
};

static int send_to(const struct one *me, unsigned i)
{
	uint64_t word = me->at;
	ssize_t n = me->set->tags
			    ? pulc_tag_send(me->peers[i], TAG_ROUND, &word, sizeof(word))
			    : pulc_send(me->port, &shared->addresses[i], &word, sizeof(word), 0);

	return n < 0 ? (int)n : 0;
}

static int receive_one(const struct one *me)
{
	const struct pulc_tag any = { TAG_ROUND, PULC_TAG_EXACT, PULC_ANY_PEER };
	uint64_t word;
	ssize_t n = me->set->tags ? pulc_tag_receive(&any, &word, sizeof(word), NULL)
				  : pulc_receive(me->port, &word, sizeof(word), NULL, 0);

	return n < 0 ? (int)n : 0;
}

/* Everybody's messages of a round may be received in the one before: who is ahead is so by one
 * round at most. */
static int round_of_all(const struct one *me)
{
	unsigned n = me->set->processes;
	int r = 0;

	for (unsigned i = 1; r == 0 && i < n; i++)
		r = send_to(me, (me->at + i) % n);
	for (unsigned i = 1; r == 0 && i < n; i++)
		r = receive_one(me);
	return r;
}

static int round_of_pair(const struct one *me)
{
	int r = me->at % 2 ? receive_one(me) : send_to(me, me->at + 1);

	if (r == 0)
		r = me->at % 2 ? send_to(me, me->at - 1) : receive_one(me);
	return r;
}

static int play(const struct one *me, uint64_t n)
{
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < n; i++)
		r = me->set->pairs ? round_of_pair(me) : round_of_all(me);
	return r;
}

static void await(const _Atomic unsigned *count, unsigned n)
{
	while (atomic_load(count) < n && atomic_load(&shared->error) == 0)
		(void)sched_yield();
}

static uint64_t switches(void)
{
	struct rusage usage;

	(void)getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw;
}

/* The first one finds out how many rounds there is time for. */
static int find_rounds(const struct one *me)
{
	uint64_t began = nsec_now(), took;
	int r = play(me, N_WARMUP);

	took = nsec_now() - began + 1;
	if (me->at == 0)
		shared->n_rounds = 1 + N_WARMUP * me->set->msec * 1000000ull / took;
	(void)atomic_fetch_add(&shared->n_done, 1);
	await(&shared->n_done, me->set->processes);
	return r;
}

static int open_one(struct one *me)
{
	unsigned n = me->set->processes;
	int r = pulc_port_open(PULC_D, 0, NULL, &me->port);

	if (r < 0)
		return r;
	shared->addresses[me->at] = pulc_port_address(me->port);
	(void)atomic_fetch_add(&shared->n_ready, 1);
	await(&shared->n_ready, n);
	for (unsigned i = 0; r == 0 && i < n; i++)
		if (i != me->at)
			r = pulc_peer_find(&shared->addresses[i], &me->peers[i]);
	return r;
}

static int be_one(const struct settings *set, unsigned at)
{
	struct one me = { .set = set, .at = at };
	uint64_t began, before;
	int r = open_one(&me);

	if (r == 0)
		r = find_rounds(&me);
	began = nsec_now();
	before = switches();
	if (r == 0)
		r = play(&me, shared->n_rounds);
	(void)atomic_fetch_add(&shared->n_switches, switches() - before);
	if (at == 0)
		shared->nsec = nsec_now() - began;
	if (r < 0)
		shared->error = r;
	/* Nobody closes his port while somebody may still read. */
	(void)atomic_fetch_add(&shared->n_done, 1);
	await(&shared->n_done, 2 * set->processes);
	return me.port ? pulc_port_close(me.port) : r;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int run(const struct settings *set)
{
	int status = 0;

	for (unsigned i = 0; i < set->processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			shared->error = -errno;
		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(be_one(set, i) < 0);
		}
	}
	while (wait(&status) > 0)
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			shared->error = shared->error ? shared->error : -EPIPE;
	return shared->error;
}

static int measure(const struct settings *set)
{
	double per_round = set->pairs ? set->processes : set->processes * (set->processes - 1.0);
	double futex, n;
	int r = pin(set->cpu);

	if (r < 0)
		return r;
	futex = futex_nsec();
	r = run(set);
	if (r < 0)
		return r;
	futex = (futex + futex_nsec()) / 2;
	n = per_round * (double)shared->n_rounds;
	printf("message_ns=%.1f futex_ns=%.1f switches=%.3f\n", (double)shared->nsec / n, futex,
	       (double)shared->n_switches / n);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings set = { .processes = 8, .msec = 300 };
	const struct bench_option options[] = {
		{ "cpu", "the processor for all of them", .number = &set.cpu },
		{ "processes", "how many", .number = &set.processes },
		{ "msec", "time to measure, about", .number = &set.msec },
		{ "tags", "messages with a tag, instead of ports of kind D", .flag = &set.tags },
		{ "pairs", "ping-pong of each with one other, instead of all to all",
		  .flag = &set.pairs },
	};
	int r = bench_options_parse(argc, argv, "Messages between many processes on one processor.",
				    options, sizeof(options) / sizeof(options[0]));

	if (r != 0)
		return r < 0;
	if (set.processes < 2 || set.processes > N_MAX || (set.pairs && set.processes % 2))
		return bench_exit_status("crowd", -EINVAL);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return bench_exit_status("crowd", -errno);
	return bench_exit_status("crowd", measure(&set));
}
