/*
 * A terminal for rank 0.
 *
 * Our end is opened twice, once to read and once to write, so that output and input each have their
 * descriptor and their life. Everything the task says comes as its standard output, in the order it
 * said it. The end of input becomes the terminal's end-of-file character, whatever that is at the
 * time; in the middle of a line the first one only ends the line, and there are two. As at any
 * terminal it is one end: who reads on waits for more, which does not come.
 */
#include "pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cleanup.h"
#include "input.h"
#include "output.h"
#include "task.h"

static void set_size(int fd, const Pulc__Job__WindowSize *window)
{
	struct winsize size;

	if (!window || !window->rows)
		return;
	size = (struct winsize){ .ws_row = (unsigned short)window->rows,
				 .ws_col = (unsigned short)window->columns };
	(void)ioctl(fd, TIOCSWINSZ, &size);
}

bool keeper_is_pty(const struct task *task)
{
	return task->keeper->spec->pty && task->rank == 0;
}

int keeper_pty_open(struct task *task, int theirs[3])
{
	CLEANUP_FD int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	int slave, copy;

	if (ours < 0 || grantpt(ours) < 0 || unlockpt(ours) < 0)
		return -errno;
	slave = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	theirs[0] = theirs[1] = theirs[2] = slave;
	set_size(ours, task->keeper->spec->window);
	copy = fcntl(ours, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	keeper_input_open(task, copy);
	keeper_output_open(&task->out[0], TAKE_FD(ours));
	return 0;
}

/* Does a line end with this character? */
static bool ends_line(const struct termios *t, uint8_t c)
{
	if (c == '\r')
		return (t->c_iflag & (ICRNL | IGNCR)) == ICRNL;
	if (c == '\n')
		return !(t->c_iflag & INLCR);
	return c && (c == t->c_cc[VEOL] || c == t->c_cc[VEOL2] || c == t->c_cc[VEOF]);
}

int keeper_pty_end_input(struct task *task, uint8_t last)
{
	struct sink *in = &task->in;
	struct termios t;
	unsigned n = 1;

	if (tcgetattr(in->fd, &t) < 0 || t.c_cc[VEOF] == _POSIX_VDISABLE)
		return 0;
	if ((t.c_lflag & ICANON) && !ends_line(&t, last))
		n = 2;
	for (; in->n_ends < n; in->n_ends++)
		if (write(in->fd, &t.c_cc[VEOF], 1) != 1)
			return -errno;
	return 0;
}

void keeper_window(struct keeper *k, const Pulc__Job__WindowSize *window)
{
	struct task *task = keeper_task(k, 0);

	if (task && k->spec->pty && task->out[0].fd >= 0)
		set_size(task->out[0].fd, window);
}
