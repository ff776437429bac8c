/*
 * fork with operations under way: in the child they end at once, the parent's go on.
 * Prints "child" and "parent" when all is well with them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

static pulc_op *sending, *receiving, *cancelled;
static char buf[1000];

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

static int be_child(pulc_port *port)
{
	if (pulc_op_test(sending) != 1 || pulc_op_test(receiving) != 1)
		return failed(__LINE__);
	/* The port may go first. */
	if (pulc_op_end(cancelled, NULL) != -ECHILD || pulc_port_close(port) != 0)
		return failed(__LINE__);
	if (pulc_op_cancel(sending) != 0 || pulc_op_end(sending, NULL) != -ECHILD ||
	    pulc_op_end(receiving, NULL) != -ECHILD)
		return failed(__LINE__);
	puts("child");
	return 0;
}

static int begin(pulc_port *port, const struct pulc_address *to)
{
	/* What is sent first waits for the reader, so what is begun then is under way. */
	while (pulc_send(port, to, buf, sizeof(buf), PULC_DONTWAIT) == sizeof(buf))
		;
	if (pulc_isend(port, to, "behind", 6, &sending) < 0 || pulc_op_test(sending) != 0)
		return failed(__LINE__);
	if (pulc_ireceive(port, buf, 8, &receiving) < 0 || pulc_op_test(receiving) != 0)
		return failed(__LINE__);
	return pulc_ireceive(port, buf, 8, &cancelled) < 0 ? failed(__LINE__) : 0;
}

static int go_on(pulc_port *port, pulc_port *other)
{
	struct pulc_address to = pulc_port_address(port);
	char got[1000];
	ssize_t n;

	do
		n = pulc_receive(other, got, sizeof(got), NULL, 0);
	while (n == sizeof(got));
	if (n != 6 || memcmp(got, "behind", 6) != 0 || pulc_op_end(sending, NULL) != 6)
		return failed(__LINE__);
	if (pulc_send(other, &to, "y", 1, 0) != 1 || pulc_op_end(receiving, NULL) != 1)
		return failed(__LINE__);
	if (pulc_op_cancel(cancelled) != 0 || pulc_op_end(cancelled, NULL) != -ECANCELED)
		return failed(__LINE__);
	return pulc_port_close(port) == 0 && pulc_port_close(other) == 0 ? 0 : failed(__LINE__);
}

int main(void)
{
	pulc_port *port, *other;
	struct pulc_address to;
	int status;
	pid_t pid;

	if (pulc_port_open(PULC_D, 0, NULL, &port) != 0 ||
	    pulc_port_open(PULC_D, 0, NULL, &other) != 0)
		return failed(__LINE__);
	to = pulc_port_address(other);
	if (begin(port, &to) != 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		status = be_child(port);
		(void)fflush(stdout);
		_exit(status);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0 || go_on(port, other) != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
