/*
 * The last message that a port sends before it is closed.
 *
 * 	last hear NAME		prints what its first source sends, until that is told to have ended
 * 	last say NAME		sends "first"; for a line that it reads, "last", and closes its port;
 * 				and lives as long as there is something to read
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pulc/pulc.h>

static int failed(const char *what, long long e)
{
	printf("%s: %s\n", what, strerror(e < 0 ? (int)-e : 0));
	return 1;
}

static int hear(const char *name)
{
	struct pulc_address from;
	pulc_port *port;
	char text[16];
	const struct iovec iov = { text, sizeof(text) };
	int e = pulc_port_open(PULC_D, 0, name, &port);
	ssize_t n = e < 0 ? e : pulc_receive(port, text, sizeof(text), &from, 0);

	while (n >= 0) {
		printf("%.*s\n", (int)n, text);
		n = pulc_receivev(port, &iov, 1, &from, NULL, 0);
	}
	return n == -EPIPE ? puts("closed") < 0 : failed("hear", n);
}

static int find(const char *name, struct pulc_address *ret_address)
{
	int e;

	while ((e = pulc_find(name, ret_address)) == -ENOENT)
		(void)nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	return e;
}

static int say(const char *name)
{
	struct pulc_address to;
	pulc_port *port;
	char line[8];
	int e = pulc_port_open(PULC_D, 0, NULL, &port);
	ssize_t n = e < 0 ? e : find(name, &to);

	if (n >= 0)
		n = pulc_send(port, &to, "first", 5, 0);
	if (n < 0 || puts("said") < 0 || !fgets(line, sizeof(line), stdin))
		return failed("say", n);
	n = pulc_send(port, &to, "last", 4, 0);
	if (n >= 0)
		n = pulc_port_close(port);
	if (n < 0 || puts("closed") < 0)
		return failed("say", n);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}

int main(int argc, char **argv)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "hear") == 0)
		return hear(argv[2]);
	if (argc == 3 && strcmp(argv[1], "say") == 0)
		return say(argv[2]);
	return 2;
}
