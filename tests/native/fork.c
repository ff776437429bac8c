/*
 * fork with open ports: the child owns none of them, attaches anew under a number of its own, and
 * talks with its parent; the parent goes on. Prints "child" and "parent" when all is well with
 * them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

static int be_child(pulc_port *parents, const struct pulc_address *parent, uint32_t parents_number)
{
	struct pulc_address to = *parent;
	pulc_port *port;
	uint32_t number;
	char buf[8];

	if (pulc_port_give(parents, getppid(), 0) != -ECHILD || pulc_port_close(parents) != 0)
		return failed(__LINE__);
	if (pulc_process(&number) != 0 || number == 0 || number == parents_number)
		return failed(__LINE__);
	if (pulc_port_open(PULC_D, 0, NULL, &port) != 0)
		return failed(__LINE__);
	if (pulc_send(port, &to, "hello", 5, 0) != 5 || pulc_receive(port, buf, 8, NULL, 0) != 3)
		return failed(__LINE__);
	if (memcmp(buf, "bye", 3) != 0 || pulc_port_close(port) != 0)
		return failed(__LINE__);
	puts("child");
	return 0;
}

int main(void)
{
	struct pulc_address self, child;
	pulc_port *port;
	uint32_t number;
	char buf[8];
	int status;
	pid_t pid;

	if (pulc_port_open(PULC_D, 0, NULL, &port) != 0 || pulc_process(&number) != 0)
		return failed(__LINE__);
	self = pulc_port_address(port);
	if (pulc_send(port, &self, "me", 2, 0) != 2)
		return failed(__LINE__);
	pid = fork();
	if (pid == 0) {
		status = be_child(port, &self, number);
		(void)fflush(stdout);
		_exit(status);
	}
	if (pulc_receive(port, buf, 8, NULL, 0) != 2 || pulc_receive(port, buf, 8, &child, 0) != 5)
		return failed(__LINE__);
	if (pulc_send(port, &child, "bye", 3, 0) != 3)
		return failed(__LINE__);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return failed(__LINE__);
	if (pulc_process(&self.node) != 0 || self.node != number || pulc_port_close(port) != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
