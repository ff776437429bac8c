/*
 * fork inside of a protocol's handler. The child has no frame, may begin anew there, and must not
 * return; if it does it is ended. The parent goes on as if nothing had been. Prints "child",
 * "ended" and "parent".
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define NUMBER 20

enum { STAYS = 1, RETURNS, PLAIN };

static struct pulc_address parent;
static unsigned n_plain;
static pid_t pid;

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

/* All of the interface, in a handler that is never left. */
static int be_child(const struct pulc_frame *f)
{
	struct pulc_frame plain = { .protocol = NUMBER, .kind = PLAIN };
	struct pulc_address from;
	pulc_port *port;
	char c;

	if (pulc_frame_copy(f, &c, 1) != 0)
		return failed(__LINE__);
	if (pulc_port_open(PULC_D, 0, NULL, &port) != 0 ||
	    pulc_send(port, &parent, "x", 1, 0) != 1 || pulc_receive(port, &c, 1, &from, 0) != 1 ||
	    c != 'y' || from.port != parent.port)
		return failed(__LINE__);
	if (pulc_peer_find(&parent, &plain.peer) != 0 || plain.peer == 0 ||
	    pulc_protocol_send(&plain, NULL, 0) != 0)
		return failed(__LINE__);
	plain.peer = 0;
	if (n_plain != 0 || pulc_protocol_send(&plain, NULL, 0) != 0 || n_plain != 1)
		return failed(__LINE__);
	puts("child");
	(void)fflush(stdout);
	return 0;
}

static int arrived(void *arg, const struct pulc_frame *f)
{
	char c = 0;

	(void)arg;
	if (f->kind == PLAIN) {
		n_plain++;
		return 0;
	}
	pid = fork();
	if (pid == 0 && f->kind == STAYS)
		_exit(be_child(f));
	if (pid == 0)
		return 0;
	return pulc_frame_copy(f, &c, 1) == 1 && c == 'f' ? 0 : -EBADMSG;
}

int main(void)
{
	const struct pulc_protocol protocol = { .arrived = arrived };
	struct pulc_frame f = { .protocol = NUMBER, .len = 1, .kind = STAYS };
	const struct rlimit no_core = { 0, 0 };
	struct pulc_address from;
	uint64_t seen = 0;
	pulc_port *port;
	int status;
	char c;

	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (pulc_protocol_register(NUMBER, &protocol) != 0 ||
	    pulc_port_open(PULC_D, 0, NULL, &port) != 0)
		return failed(__LINE__);
	parent = pulc_port_address(port);
	if (pulc_protocol_send(&f, "f", 0) != 0 || pulc_receive(port, &c, 1, &from, 0) != 1 ||
	    pulc_send(port, &from, "y", 1, 0) != 1)
		return failed(__LINE__);
	while (n_plain == 0)
		if (pulc_progress(&seen, -1) != 1)
			return failed(__LINE__);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return failed(__LINE__);
	f.kind = RETURNS;
	if (pulc_protocol_send(&f, "f", 0) != 0)
		return failed(__LINE__);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) ||
	    (WTERMSIG(status) != SIGILL && WTERMSIG(status) != SIGTRAP))
		return failed(__LINE__);
	puts("ended");
	f = (struct pulc_frame){ .protocol = NUMBER, .kind = PLAIN };
	if (pulc_protocol_send(&f, NULL, 0) != 0 || n_plain != 2 || pulc_port_close(port) != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
