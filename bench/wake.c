/*
 * Waking a sleeper: messages so rare that the receiver is asleep when each one comes.
 *
 * The sender sends one message every --period-usec with the time of sending in it; the receiver,
 * in a blocking recv(), subtracts it from the time at which it has the message in its hands. The
 * monotonic clock is the same on all processors. Then comes a time without any message, in which
 * both ends wait in recv(). Each process reports what share of a processor it used, in either part.
 *
 * The first messages are a quick ping-pong and not counted: a connection may change its path.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define N_MESSAGES_MAX 1000000u

struct settings {
	unsigned usec_period;
	unsigned n_messages;
	unsigned warmup_msec;
	unsigned idle_msec;
	bool stay;
};

/* What a message says, in the place of its time, when it is none of the timed ones. */
enum { STAMP_WARMUP = 1, STAMP_IDLE = 2, STAMP_END = 3 };

/* Share of one processor used since the last call, in percent. */
struct usage {
	uint64_t nsec_wall;
	uint64_t nsec_cpu;
};

static double usage_take(struct usage *u)
{
	uint64_t wall = nsec_now(), cpu = bench_cpu_nsec();
	double percent = 100.0 * (double)(cpu - u->nsec_cpu) / (double)(wall - u->nsec_wall);

	u->nsec_wall = wall;
	u->nsec_cpu = cpu;
	return percent;
}

static int receive_all(int fd, struct bench_samples *samples)
{
	struct usage usage = { 0 };
	double busy = 0, idle;

	for (;;) {
		uint64_t stamp;
		int r = bench_recv_all(fd, &stamp, sizeof(stamp));

		if (r != 0)
			return r < 0 ? r : -ECONNRESET;
		if (stamp == STAMP_END)
			break;
		if (stamp == STAMP_WARMUP) {
			r = bench_send_all(fd, &stamp, sizeof(stamp));
			if (r != 0)
				return r < 0 ? r : -ECONNRESET;
			(void)usage_take(&usage);
		} else if (stamp == STAMP_IDLE) {
			busy = usage_take(&usage);
		} else {
			bench_samples_add(samples, (double)(nsec_now() - stamp) / 1000);
		}
	}
	idle = usage_take(&usage);
	printf("side=receiver wake_usec=%.2f p10_usec=%.2f p90_usec=%.2f p99_usec=%.2f "
	       "cpu_percent=%.3f "
	       "idle_cpu_percent=%.3f\n",
	       bench_samples_percentile(samples, 50), bench_samples_percentile(samples, 10),
	       bench_samples_percentile(samples, 90), bench_samples_percentile(samples, 99), busy,
	       idle);
	(void)fflush(stdout);
	return 0;
}

static int serve(int listener, void *arg)
{
	const struct settings *set = arg;
	struct bench_samples samples;
	char dropped;
	int r, fd;

	r = bench_samples_init(&samples, set->n_messages);
	if (r < 0)
		return r;
	r = bench_accept(listener, &fd);
	if (r == 0)
		r = receive_all(fd, &samples);
	bench_samples_deinit(&samples);
	if (r == 0)
		r = bench_recv_all(fd, &dropped, 1); /* the sender closes */
	return r < 0 ? r : 0;
}

static int send_stamp(int fd, uint64_t stamp)
{
	int r = bench_send_all(fd, &stamp, sizeof(stamp));

	return r > 0 ? -ECONNRESET : r;
}

static int warm_up(int fd, unsigned msec)
{
	uint64_t end = nsec_now() + msec * 1000000ull;

	do {
		uint64_t stamp;
		int r = send_stamp(fd, STAMP_WARMUP);

		if (r == 0)
			r = bench_recv_all(fd, &stamp, sizeof(stamp));
		if (r != 0)
			return r < 0 ? r : -ECONNRESET;
	} while (nsec_now() < end);
	return 0;
}

static void sleep_until(uint64_t nsec)
{
	struct timespec ts = timespec_from_nsec(nsec);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static int send_all(int fd, const struct settings *set)
{
	struct usage usage = { 0 };
	double busy, idle;
	uint64_t next;
	int r;

	r = warm_up(fd, set->warmup_msec);
	(void)usage_take(&usage);
	next = nsec_now();
	for (unsigned i = 0; r == 0 && i < set->n_messages; i++) {
		next += set->usec_period * NSEC_PER_USEC;
		sleep_until(next);
		r = send_stamp(fd, nsec_now());
	}
	if (r == 0)
		r = send_stamp(fd, STAMP_IDLE);
	busy = usage_take(&usage);
	sleep_until(nsec_now() + set->idle_msec * 1000000ull);
	idle = usage_take(&usage);
	if (r == 0)
		r = send_stamp(fd, STAMP_END);
	printf("side=sender cpu_percent=%.3f idle_cpu_percent=%.3f\n", busy, idle);
	(void)fflush(stdout);
	return r;
}

static int connect_and_send(const struct sockaddr_in *server, void *arg)
{
	const struct settings *set = arg;
	int r, fd;

	r = bench_connect(server, false, &fd);
	if (r == 0)
		r = send_all(fd, set);
	if (r == 0 && set->stay)
		bench_stay();
	return r;
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	return set->n_messages == 0 || set->n_messages > N_MESSAGES_MAX || set->idle_msec == 0
		       ? -EINVAL
		       : 0;
}

int main(int argc, char **argv)
{
	struct settings set = {
		.usec_period = 1000, .n_messages = 500, .warmup_msec = 200, .idle_msec = 500
	};
	const struct bench_option options[] = {
		{ "period-usec", "time between two messages", .number = &set.usec_period },
		{ "messages", "how many", .number = &set.n_messages },
		{ "warmup-msec", "time of ping-pong before, not counted",
		  .number = &set.warmup_msec },
		{ "idle-msec", "time without messages afterwards", .number = &set.idle_msec },
		{ "stay", "keep the connection until standard input ends", .flag = &set.stay },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_and_send, .arg = &set };

	return bench_pair_main(
		argc, argv, "Time from send() to a receiver that slept, and the use of processors.",
		&pair, ready, options, sizeof(options) / sizeof(options[0]));
}
