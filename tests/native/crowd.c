/*
 * One process and many others, of its own node or of another one, all of whom ask and some of whom
 * are silent meanwhile.
 *
 * 	crowd gather NAME N HOW	answers everything until N have said that they are done; HOW: wait
 * 				(pulc_receive), look (again and again, without waiting) or loop
 * 				(poll on pulc_fd)
 * 	crowd join NAME [NODE]	asks in bursts, some of many short messages and some with a long one
 * 				among them, and checks the answers
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pulc/pulc.h>

#define MSEC_PATIENCE 40000
#define N_BURSTS 150u
#define N_BURST_MAX 12u
#define SIZE_LONG 90000u
/* A question of this size is the last one. */
#define SIZE_DONE 1u

static unsigned char buf[SIZE_LONG], answer[SIZE_LONG];

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			printf("line %d\n", __LINE__);                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* ---- the one --------------------------------------------------------------------------------- */

static unsigned n_done;

/* Answers one question. False: there is none. */
static int answer_one(pulc_port *port, int flags)
{
	struct pulc_address from;
	ssize_t n = pulc_receive(port, buf, sizeof(buf), &from, flags);

	if (n == -EAGAIN)
		return 0;
	MUST(n > 0);
	n_done += n == SIZE_DONE;
	MUST(pulc_send(port, &from, buf, (size_t)n, 0) == n);
	return 1;
}

static void loop(pulc_port *port, unsigned n)
{
	struct pollfd p = { .fd = pulc_fd(), .events = POLLIN };
	uint64_t seen = 0;

	while (n_done < n) {
		while (answer_one(port, PULC_DONTWAIT))
			;
		if (n_done == n || pulc_arm(&seen) > 0)
			continue;
		MUST(poll(&p, 1, MSEC_PATIENCE) == 1);
		pulc_disarm();
	}
}

static int gather(const char *name, unsigned n, const char *how)
{
	const int flags = strcmp(how, "look") == 0 ? PULC_DONTWAIT : 0;
	pulc_port *port;

	MUST(pulc_port_open(PULC_D, 0, name, &port) == 0);
	if (strcmp(how, "loop") == 0)
		loop(port, n);
	while (n_done < n)
		(void)answer_one(port, flags);
	MUST(pulc_port_close(port) == 0);
	printf("%u are done\n", n_done);
	return 0;
}

/* ---- the many -------------------------------------------------------------------------------- */

static size_t size_of(unsigned burst, unsigned i)
{
	return burst % 10 == 7 && i == 2 ? SIZE_LONG : 8 + burst % 50 * i;
}

static void fill(size_t len, unsigned burst, unsigned i)
{
	for (size_t k = 0; k < len; k++)
		buf[k] = (unsigned char)(burst * 31 + i * 7 + k);
}

static void play_burst(pulc_port *port, const struct pulc_address *to, unsigned burst)
{
	const unsigned n = 1 + burst % N_BURST_MAX;
	struct pulc_wait wait = { .port = port };

	for (unsigned i = 0; i < n; i++) {
		fill(size_of(burst, i), burst, i);
		MUST(pulc_send(port, to, buf, size_of(burst, i), 0) > 0);
	}
	for (unsigned i = 0; i < n; i++) {
		MUST(pulc_select(&wait, 1, NULL, 0, MSEC_PATIENCE) == 1);
		MUST(pulc_receive(port, answer, sizeof(answer), NULL, 0) ==
		     (ssize_t)size_of(burst, i));
		fill(size_of(burst, i), burst, i);
		MUST(memcmp(answer, buf, size_of(burst, i)) == 0);
	}
}

static int join(const char *name, const char *node)
{
	const struct timespec moment = { 0, 20000000 };
	struct pulc_address to;
	pulc_port *port;
	char text[160];
	int e = -ENOENT;

	(void)snprintf(text, sizeof(text), "%s%s%s", name, node ? "@" : "", node ? node : "");
	for (int i = 0; i < MSEC_PATIENCE / 20 && e < 0; i++) {
		e = pulc_find(text, &to);
		if (e < 0)
			(void)nanosleep(&moment, NULL);
	}
	MUST(e == 0 && pulc_port_open(PULC_D, 0, NULL, &port) == 0);
	for (unsigned burst = 0; burst < N_BURSTS; burst++)
		play_burst(port, &to, burst);
	MUST(pulc_send(port, &to, buf, SIZE_DONE, 0) == SIZE_DONE);
	MUST(pulc_receive(port, answer, sizeof(answer), NULL, 0) == SIZE_DONE);
	printf("%u bursts\n", N_BURSTS);
	(void)fflush(stdout);
	/* Silent, and still joined, until the one has ended. */
	e = (int)pulc_receivev(port, &(struct iovec){ answer, sizeof(answer) }, 1, &to, NULL, 0);
	return e == -EPIPE || e == -ECONNRESET ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "gather") == 0)
		return gather(argv[2], (unsigned)atoi(argv[3]), argv[4]);
	if (argc >= 3 && strcmp(argv[1], "join") == 0)
		return join(argv[2], argc > 3 ? argv[3] : NULL);
	return 2;
}
