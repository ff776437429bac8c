/* Two pinned processes with TCP or UDP between them: the stage of nearly every benchmark. */
#ifndef PULC_BENCH_PAIR_H
#define PULC_BENCH_PAIR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "options.h"

/* Both functions run in a process of their own and return 0 or a negative errno. */
struct bench_pair {
	unsigned server_cpu;
	unsigned client_cpu;
	bool udp; /* the listener is a datagram socket */
	int (*serve)(int listener, void *arg);
	int (*connect)(const struct sockaddr_in *server, void *arg);
	void *arg;
};

/*
 * Forks the two processes, pins them, makes the listener in the server and gives its address to the
 * client. Returns three times: in each process what main is to return as its result, 0 or a
 * negative errno. In the calling process that is after both have ended; when one fails the other is
 * killed.
 */
int bench_pair_run(const struct bench_pair *pair);

/*
 * All of main: reads the options, these and those that choose the two processors, lets `ready` look
 * at what they say (it returns 0 or a negative errno, and may change the pair), and runs the pair.
 * Returns main's result in each of the three processes.
 */
int bench_pair_main(int argc, char **argv, const char *purpose, struct bench_pair *pair,
		    int (*ready)(struct bench_pair *pair), const struct bench_option *options,
		    size_t n_options);

/* The processors to use when nobody says otherwise: the first two that this process may run on. */
void bench_pair_default_cpus(unsigned *ret_server, unsigned *ret_client);

/*
 * Memory of zeroes for messages, or NULL; free() takes it back. Every page of it is written: one
 * that nobody has written is the machine's one page of zeroes when it is read, which stays in the
 * nearest cache, and copies of it are too fast.
 */
void *bench_buffer(size_t size);

/* Keeps this process on one processor. Returns 0 or a negative errno. */
int bench_pin(unsigned cpu);

/*
 * One connection, with TCP_NODELAY. A datagram socket that listens is itself connected, to whoever
 * sends the first datagram, which stays unread. Return 0 or a negative errno.
 */
int bench_accept(int listener, int *ret_fd);
int bench_connect(const struct sockaddr_in *server, bool udp, int *ret_fd);
/*
 * An end of stream for UDP: empty datagrams until the peer is gone or a second has passed. One may
 * be dropped where buffers are full.
 */
void bench_end_udp(int fd);

/* Blocking, whole messages. Return 0; 1: the peer closed; or a negative errno. */
int bench_send_all(int fd, const void *buf, size_t size);
int bench_recv_all(int fd, void *buf, size_t size);

/* Waits for the end of standard input: whoever started the program looks at the connections. */
void bench_stay(void);

#endif
