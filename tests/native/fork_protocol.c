/*
 * fork with a protocol: the child keeps it, finds its peers anew, and its frames come to the
 * parent's handler. Prints "child" and "parent" when all is well with them.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define NUMBER 20

static unsigned n_arrived, n_gone;

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

static int arrived(void *arg, const struct pulc_frame *f)
{
	(void)arg, (void)f;
	n_arrived++;
	return 0;
}

static void gone(void *arg, uint32_t peer, int error)
{
	(void)arg, (void)peer;
	n_gone += error == -ECONNRESET;
}

static int be_child(const struct pulc_address *parent)
{
	struct pulc_frame f = { .protocol = NUMBER };

	if (pulc_peer_find(parent, &f.peer) != 0 || f.peer == 0 ||
	    pulc_protocol_send(&f, NULL, 0) != 0)
		return failed(__LINE__);
	f.peer = 0;
	if (n_arrived != 1 || pulc_protocol_send(&f, NULL, 0) != 0 || n_arrived != 2)
		return failed(__LINE__);
	puts("child");
	return 0;
}

int main(void)
{
	const struct pulc_protocol protocol = { arrived, gone, NULL };
	struct pulc_frame f = { .protocol = NUMBER };
	struct pulc_address self;
	uint64_t seen = 0;
	pulc_port *port;
	int status;
	pid_t pid;

	if (pulc_protocol_register(NUMBER, &protocol) != 0 ||
	    pulc_port_open(PULC_D, 0, NULL, &port) != 0 || pulc_protocol_send(&f, NULL, 0) != 0)
		return failed(__LINE__);
	self = pulc_port_address(port);
	pid = fork();
	if (pid == 0) {
		status = be_child(&self);
		(void)fflush(stdout);
		_exit(status);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return failed(__LINE__);
	while (n_gone == 0)
		if (pulc_progress(&seen, -1) != 1)
			return failed(__LINE__);
	if (n_arrived != 2 || pulc_port_close(port) != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
