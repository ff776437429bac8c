/*
 * A work queue: a master hands numbers to whatever workers ask for one, and adds up their answers.
 * Workers come and go; the master knows none of them before they ask.
 *
 * 	cc workqueue.c $(pkg-config --cflags --libs pulc) -o workqueue
 * 	./workqueue worker & ./workqueue worker &
 * 	./workqueue master [NUMBERS [WORKERS]]
 */
#define _POSIX_C_SOURCE 200809L /* clocks and naps, for compilers that are told -std=c11 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pulc/pulc.h>

/* A worker's word: the answer to the number it had before, if it had one. The master's: a number;
 * 0: no more. */
struct answer {
	uint64_t number; /* 0: this is its first word */
	uint64_t sum;
};

static int fail(const char *what, ssize_t error)
{
	fprintf(stderr, "workqueue: %s: %s\n", what, strerror((int)-error));
	return 1;
}

/* Ends when all is done and so many workers were sent home. */
static int be_master(uint64_t n_numbers, unsigned long n_workers)
{
	uint64_t next = 1, n_done = 0, total = 0, number;
	unsigned long n_home = 0;
	struct pulc_address worker;
	struct answer answer;
	pulc_port *port;
	ssize_t n;

	n = pulc_port_open(PULC_D, 0, "workqueue", &port);
	if (n < 0)
		return fail("cannot open a port (does a psid run?)", n);
	while (n_done < n_numbers || n_home < n_workers) {
		n = pulc_receive(port, &answer, sizeof(answer), &worker, 0);
		if (n != sizeof(answer))
			return fail("cannot receive", n < 0 ? n : -EBADMSG);
		n_done += answer.number != 0;
		total += answer.sum;
		number = next <= n_numbers ? next++ : 0;
		n = pulc_send(port, &worker, &number, sizeof(number), 0);
		n_home += number == 0;
		if (n < 0 && number)
			return fail("a worker is lost", n);
	}
	printf("%llu numbers, total %llu\n", (unsigned long long)n_done, (unsigned long long)total);
	return (int)pulc_port_close(port);
}

static uint64_t sum_of_digits(uint64_t number)
{
	uint64_t sum = 0;

	for (; number; number /= 10)
		sum += number % 10;
	return sum;
}

static int find_master(struct pulc_address *ret_master)
{
	const struct timespec a_moment = { .tv_nsec = 20000000 };
	int e = -ENOENT;

	for (int i = 0; e == -ENOENT && i < 1500; i++) {
		e = pulc_find("workqueue", ret_master);
		if (e == -ENOENT)
			(void)nanosleep(&a_moment, NULL);
	}
	return e;
}

static int be_worker(void)
{
	struct answer answer = { .number = 0 };
	struct pulc_address master;
	pulc_port *port;
	uint64_t number = 1;
	struct iovec iov = { .iov_base = &number, .iov_len = sizeof(number) };
	ssize_t n;

	n = pulc_port_open(PULC_D, 0, NULL, &port);
	if (n < 0)
		return fail("cannot open a port (does a psid run?)", n);
	n = find_master(&master);
	if (n < 0)
		return fail("no master", n);
	while (number) {
		n = pulc_send(port, &master, &answer, sizeof(answer), 0);
		if (n > 0)
			n = pulc_receivev(port, &iov, 1, &master, NULL, 0);
		if (n == -ECONNREFUSED || n == -ECONNRESET || n == -EPIPE)
			break; /* all is done, and the master has gone home */
		if (n < 0)
			return fail("cannot work", n);
		answer = (struct answer){ .number = number, .sum = sum_of_digits(number) };
	}
	return (int)pulc_port_close(port);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "worker") == 0)
		return be_worker();
	if (argc >= 2 && strcmp(argv[1], "master") == 0)
		return be_master(argc > 2 ? strtoull(argv[2], NULL, 10) : 1000,
				 argc > 3 ? strtoul(argv[3], NULL, 10) : 1);
	fputs("usage: workqueue master [NUMBERS [WORKERS]] | workqueue worker\n", stderr);
	return 2;
}
