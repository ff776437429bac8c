/*
 * daemon and forkpty: libc's own functions that fork.
 *
 * They would call libc's fork, which tells nobody that it has failed, libc's _exit, by which the
 * parent of a daemon would end without a word, and libc's dup2, after which the table would have
 * something else at descriptors 0 to 2 than there is. So they are made here, of the shim's calls.
 * What a program sees of them is as it was: the same results, the same descriptors, and the same
 * handlers of fork.
 */
#include <errno.h>
#include <fcntl.h>
#include <paths.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "file.h"
#include "rawsys.h"
#include "symbols.h"

#define N_STDIO 3

static void become_stdio(int fd)
{
	for (int i = 0; i < N_STDIO; i++)
		(void)pre_dup2(fd, i);
	if (fd >= N_STDIO)
		(void)raw_close(fd);
}

/* Something else of that name is none. */
static bool is_null_device(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static int leave_terminal(void)
{
	int fd = (int)raw_syscall(SYS_openat, AT_FDCWD, _PATH_DEVNULL, O_RDWR);

	if (fd < 0)
		return fd;
	if (!is_null_device(fd)) {
		(void)raw_close(fd);
		return -ENODEV;
	}
	become_stdio(fd);
	return 0;
}

int pre_daemon(int stays_there, int keeps_stdio)
{
	pid_t pid;
	int e;

	if (!pre_enabled)
		return (int)pre_sys(pre_real.daemon(stays_there, keeps_stdio));
	pid = pre_fork();
	if (pid < 0)
		return -errno;
	if (pid > 0)
		pre__exit(0);
	e = (int)raw_syscall(SYS_setsid);
	if (e < 0)
		return e;
	if (!stays_there)
		(void)raw_syscall(SYS_chdir, "/");
	return keeps_stdio ? 0 : leave_terminal();
}

static void enter_terminal(int slave)
{
	(void)raw_syscall(SYS_setsid);
	if (raw_ioctl(slave, TIOCSCTTY, NULL) < 0)
		pre__exit(1);
	become_stdio(slave);
}

int pre_forkpty(int *ret_master, char *name, const struct termios *mode, const struct winsize *size)
{
	int master, slave, error;
	pid_t pid;

	if (!pre_enabled)
		return (int)pre_sys(pre_real.forkpty(ret_master, name, mode, size));
	if (openpty(&master, &slave, name, mode, size) < 0)
		return -errno;
	pid = pre_fork();
	error = errno;
	if (pid <= 0)
		(void)raw_close(master);
	if (pid == 0) {
		enter_terminal(slave);
		return 0;
	}
	(void)raw_close(slave);
	if (pid < 0)
		return -error;
	*ret_master = master;
	return pid;
}
