/*
 * A port that passes from one process to another and back while others, of whatever node, send to
 * it: each message comes once, and in order for each of them.
 *
 *   pass own N		has the port "passed", and a child with which it takes turns, until N
 * 			senders have sent everything
 *   pass feed I NAME	sends numbered messages as sender I to the port of that name, NAME or
 * 			NAME@NODE, and waits for its answer
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define MSEC_PATIENCE 60000
#define N_MESSAGES 400u
#define N_TURNS 4u
#define N_SENDERS_MAX 8u
#define SIZE_MAX_MESSAGE 80000u

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			printf("line %d: %s\n", __LINE__, #c);                                     \
			(void)fflush(stdout);                                                      \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* What parent and child share. */
static struct {
	_Atomic uint32_t n_received;
	uint32_t next[N_SENDERS_MAX];
	struct pulc_address from[N_SENDERS_MAX];
} * shared;

static unsigned char buf[SIZE_MAX_MESSAGE];

static size_t size_of(uint32_t sender, uint32_t number)
{
	return 8 + (number % 13 == 12 ? 70000 + sender : number * 37 % 900);
}

static void fill(uint32_t sender, uint32_t number)
{
	memset(buf, (int)(number + sender), size_of(sender, number));
	memcpy(buf, &sender, 4);
	memcpy(buf + 4, &number, 4);
}

/* ---- who sends ------------------------------------------------------------------------------- */

static void find(const char *name, struct pulc_address *ret)
{
	const struct timespec moment = { 0, 20000000 };
	int e = -ENOENT;

	for (int i = 0; i < MSEC_PATIENCE / 20 && e < 0; i++) {
		e = pulc_find(name, ret);
		if (e < 0)
			(void)nanosleep(&moment, NULL);
	}
	MUST(e == 0);
}

static void feed(uint32_t sender, const char *name)
{
	struct pulc_address to;
	uint32_t answer = 0;
	pulc_port *p;
	pulc_op *op;

	find(name, &to);
	MUST(pulc_port_open(PULC_D, 0, NULL, &p) == 0);
	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		ssize_t size = (ssize_t)size_of(sender, i);

		fill(sender, i);
		if (i % 3) {
			MUST(pulc_send(p, &to, buf, (size_t)size, 0) == size);
			continue;
		}
		MUST(pulc_isend(p, &to, buf, (size_t)size, &op) == 0);
		MUST(pulc_op_end(op, NULL) == size);
	}
	MUST(pulc_receivev(p, &(struct iovec){ &answer, 4 }, 1, &to, NULL, 0) == 4);
	MUST(pulc_port_close(p) == 0);
	printf("%u sent, all received\n", answer);
}

/* ---- who receives ---------------------------------------------------------------------------- */

static void receive_one(pulc_port *p)
{
	struct pulc_address from;
	ssize_t n = pulc_receive(p, buf, sizeof(buf), &from, 0);
	uint32_t sender, number;

	MUST(n >= 8);
	memcpy(&sender, buf, 4);
	memcpy(&number, buf + 4, 4);
	MUST(sender < N_SENDERS_MAX && number == shared->next[sender]);
	MUST((size_t)n == size_of(sender, number));
	for (ssize_t i = 8; i < n; i++)
		MUST(buf[i] == (unsigned char)(number + sender));
	shared->next[sender]++;
	shared->from[sender] = from;
	atomic_fetch_add(&shared->n_received, 1);
}

static void receive_some(pulc_port *p)
{
	for (unsigned i = 0; i < N_MESSAGES / N_TURNS / 2; i++)
		receive_one(p);
}

static int be_child(pulc_port *p, uint32_t number)
{
	MUST(pulc_port_inherit(p, MSEC_PATIENCE) == 0);
	for (unsigned i = 0; i < N_TURNS; i++) {
		receive_some(p);
		MUST(pulc_port_give(p, getppid(), MSEC_PATIENCE) == 0);
		if (i < N_TURNS - 1)
			MUST(pulc_port_take(number, MSEC_PATIENCE, &p) == 0);
	}
	puts("child");
	(void)fflush(stdout);
	return 0;
}

static void own(unsigned n_senders)
{
	uint32_t n = N_MESSAGES, number;
	pulc_port *p;
	int status, pid;

	MUST(n_senders && n_senders <= N_SENDERS_MAX);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	MUST(shared != MAP_FAILED);
	MUST(pulc_port_open(PULC_D, 0, "passed", &p) == 0);
	number = pulc_port_address(p).port;
	pid = (int)fork();
	MUST(pid >= 0);
	if (pid == 0)
		_exit(be_child(p, number));
	for (unsigned i = 0; i < N_TURNS; i++) {
		receive_some(p);
		MUST(pulc_port_give(p, pid, MSEC_PATIENCE) == 0);
		MUST(pulc_port_take(number, MSEC_PATIENCE, &p) == 0);
	}
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	while (atomic_load(&shared->n_received) < n_senders * N_MESSAGES)
		receive_one(p);
	for (unsigned i = 0; i < n_senders; i++)
		MUST(pulc_send(p, &shared->from[i], &n, 4, 0) == 4);
	MUST(pulc_port_close(p) == 0);
	puts("parent");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "own") == 0)
		own((unsigned)atoi(argv[2]));
	else if (argc == 4 && strcmp(argv[1], "feed") == 0)
		feed((uint32_t)atoi(argv[2]), argv[3]);
	else
		return 2;
	return 0;
}
