/*
 * Ping-pong with ports: one process waits at a well-known name, the other sends it messages and
 * waits for each answer.
 *
 * 	cc pingpong.c $(pkg-config --cflags --libs pulc) -o pingpong
 * 	./pingpong server &
 * 	./pingpong client [ROUNDS [NODE]]	(NODE: where the server is, if not here)
 */
#define _POSIX_C_SOURCE 200809L /* clocks and naps, for compilers that are told -std=c11 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pulc/pulc.h>

static int fail(const char *what, ssize_t error)
{
	fprintf(stderr, "pingpong: %s: %s\n", what, strerror((int)-error));
	return 1;
}

/* Sends back whatever comes, until an empty message comes. */
static int serve(void)
{
	struct pulc_address from;
	char buf[4096];
	pulc_port *port;
	ssize_t n;

	n = pulc_port_open(PULC_D, 0, "pingpong", &port);
	if (n < 0)
		return fail("cannot open a port (does a psid run?)", n);
	do {
		n = pulc_receive(port, buf, sizeof(buf), &from, 0);
		if (n > 0)
			n = pulc_send(port, &from, buf, (size_t)n, 0);
	} while (n > 0);
	(void)pulc_port_close(port);
	return n < 0 ? fail("cannot answer", n) : 0;
}

static double seconds(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int play(long rounds, const char *node)
{
	char name[128];
	struct pulc_address server;
	char buf[8] = "ping...";
	pulc_port *port;
	double begun;
	ssize_t n;

	n = pulc_port_open(PULC_D, 0, NULL, &port);
	if (n < 0)
		return fail("cannot open a port (does a psid run?)", n);
	(void)snprintf(name, sizeof(name), "pingpong%s%s", node ? "@" : "", node ? node : "");
	n = pulc_find(name, &server);
	if (n < 0)
		return fail("no server", n);
	begun = seconds();
	for (long i = 0; n >= 0 && i < rounds; i++) {
		n = pulc_send(port, &server, buf, sizeof(buf), 0);
		if (n >= 0)
			n = pulc_receive(port, buf, sizeof(buf), NULL, 0);
	}
	if (n < 0)
		return fail("the game is over", n);
	printf("%ld rounds, %.3f us one way\n", rounds,
	       (seconds() - begun) * 1e6 / (double)rounds / 2);
	n = pulc_send(port, &server, NULL, 0, 0);
	(void)pulc_port_close(port);
	return n < 0 ? fail("cannot say good-bye", n) : 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "server") == 0)
		return serve();
	if (argc >= 2 && strcmp(argv[1], "client") == 0)
		return play(argc > 2 ? strtol(argv[2], NULL, 10) : 100000,
			    argc > 3 ? argv[3] : NULL);
	fputs("usage: pingpong server | pingpong client [ROUNDS [NODE]]\n", stderr);
	return 2;
}
