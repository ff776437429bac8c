/*
 * fork with a progress thread: the parent keeps its own, the child has none and may begin one.
 * Prints "child" and "parent" when all is well with them.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define LEN (2u << 20)

static char from[LEN], to[LEN];

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

/* A long message to oneself. */
static int exchange(void)
{
	pulc_port *port;
	pulc_op *receive, *send;
	struct pulc_address self;

	if (pulc_port_open(PULC_D, 0, NULL, &port) != 0)
		return failed(__LINE__);
	self = pulc_port_address(port);
	if (pulc_ireceive(port, to, LEN, &receive) != 0 ||
	    pulc_isend(port, &self, from, LEN, &send) != 0)
		return failed(__LINE__);
	if (pulc_op_end(receive, NULL) != LEN || pulc_op_end(send, NULL) != LEN)
		return failed(__LINE__);
	return pulc_port_close(port) == 0 ? 0 : failed(__LINE__);
}

static int be_child(void)
{
	if (pulc_progress_thread(false) != 0 || exchange() != 0)
		return failed(__LINE__);
	if (pulc_progress_thread(true) != 0 || exchange() != 0)
		return failed(__LINE__);
	return pulc_progress_thread(false) == 0 ? 0 : failed(__LINE__);
}

int main(void)
{
	int status;
	pid_t pid;

	if (pulc_progress_thread(true) != 0 || exchange() != 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		status = be_child();
		if (status == 0)
			puts("child");
		(void)fflush(stdout);
		_exit(status);
	}
	if (exchange() != 0 || waitpid(pid, &status, 0) != pid || status != 0 || exchange() != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
