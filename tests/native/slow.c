/*
 * A receiver that takes nothing until it is told to, by SIGUSR1, and a sender that hurries: what
 * pulcctl says of them meanwhile is tests/native/native.sh's to look at.
 *
 * 	slow receive NAME	opens the port, waits for the signal, receives all and says how many
 * 	slow send NAME N	sends so many messages of 5000 bytes there, and an empty one
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pulc/pulc.h>

static char buf[5000];

static int fail(const char *what, ssize_t error)
{
	fprintf(stderr, "slow: %s: %s\n", what, strerror((int)-error));
	return 1;
}

static int receive(const char *name)
{
	unsigned n_messages = 0;
	pulc_port *port;
	sigset_t set;
	ssize_t n;
	int signal;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	n = pulc_progress_thread(true);
	if (n == 0)
		n = pulc_port_open(PULC_D, 0, name, &port);
	if (n < 0)
		return fail("cannot open the port", n);
	(void)sigwait(&set, &signal);
	while ((n = pulc_receive(port, buf, sizeof(buf), NULL, 0)) > 0)
		n_messages++;
	printf("%u received\n", n_messages);
	return n < 0 ? fail("cannot receive", n) : pulc_port_close(port) != 0;
}

static int hurry(const char *name, unsigned n_messages)
{
	struct pulc_address to;
	pulc_port *port;
	ssize_t n;

	n = pulc_port_open(PULC_D, 0, NULL, &port);
	if (n == 0)
		n = pulc_find(name, &to);
	for (unsigned i = 0; n >= 0 && i < n_messages; i++)
		n = pulc_send(port, &to, buf, sizeof(buf), 0);
	if (n >= 0)
		n = pulc_send(port, &to, buf, 0, 0);
	return n < 0 ? fail("cannot send", n) : pulc_port_close(port) != 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "receive") == 0)
		return receive(argv[2]);
	if (argc == 4 && strcmp(argv[1], "send") == 0)
		return hurry(argv[2], (unsigned)atoi(argv[3]));
	fputs("slow: receive NAME, or send NAME N\n", stderr);
	return 2;
}
