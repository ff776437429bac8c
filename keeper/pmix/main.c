/*
 * keeper-pmix: the PMIx server of one job on one node.
 *
 * libpmix is large, has threads of its own, and tears its clients down when it dies: so it lives in
 * a process beside the keeper, started only for jobs that need it, and lives as long as their
 * tasks. Descriptor 3 is the channel to the keeper. There comes what job it is (PmixBegin); back
 * goes what the tasks' environment must hold; afterwards collectives and modex requests pass
 * between libpmix and the keeper, which takes them to the other nodes.
 *
 * libpmix calls us from its own thread: such a call only writes a message. The main thread reads
 * the keeper's messages and calls into libpmix. When the channel closes, everything is over.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "serve.h"

static int wait_for_keeper(struct frame_pipe *pipe)
{
	struct pollfd p = { .fd = SERVE_FD, .events = POLLIN };
	int r;

	while ((r = frame_read(pipe)) == -EAGAIN)
		(void)poll(&p, 1, -1);
	return r;
}

int main(void)
{
	struct frame_pipe pipe;
	struct frame frame;
	int r = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	frame_pipe_init(&pipe, SERVE_FD);
	while (r == 0) {
		Pulc__Job__Message *msg;

		r = frame_next(&pipe, &frame);
		if (r == 0) {
			r = wait_for_keeper(&pipe);
			continue;
		}
		msg = r > 0 ? frame_unpack(&frame) : NULL;
		r = msg ? serve_take(msg) : -EBADMSG;
	}
	_exit(r == -EPIPE ? EXIT_SUCCESS
			  : EXIT_FAILURE); /* libpmix's own end would wait for its clients */
}
