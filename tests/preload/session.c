/* libc's own functions that fork, daemon and forkpty; and what all of them, and fork, leave behind
 * when they fail. */
#include "case.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static pid_t by_daemon(void)
{
	return daemon(1, 1);
}

static pid_t by_forkpty(void)
{
	int master;

	return forkpty(&master, NULL, NULL, NULL);
}

/* Nobody else has the socket then: there is none any more when it is closed. */
static void fails(struct play *p, pid_t (*by)(void))
{
	B {
		fork_in_vain(p, by);
		SEND("last");
		R(close(FD));
	}
	A {
		RECV(8);
		for (int i = 0; i < 3; i++) SEND("x");
	}
}

CASE_TRAITS(session_fork_that_fails, PROCESS, DATAGRAMS)
{
	fails(p, fork);
}

CASE_TRAITS(session_daemon_that_fails, PROCESS, DATAGRAMS)
{
	fails(p, by_daemon);
}

CASE_TRAITS(session_forkpty_that_fails, PROCESS, DATAGRAMS)
{
	fails(p, by_forkpty);
}

static void wait_for_word(struct play *p, unsigned i)
{
	while (!*stage_word(p, i)) usleep(300);
}

/* The daemon is the only one that has the socket, once its parent has ended. */
CASE_TRAITS(session_daemon_closes_alone, PROCESS, DATAGRAMS)
{
	B {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			if (daemon(1, 1) < 0)
				_exit(1);
			wait_for_word(p, 1);
			SEND("last");
			R(close(FD));
			*stage_word(p, 2) = 1;
			wait_for_word(p, 3);
			_exit(0);
		}
		reap(p, "parent of the daemon", pid);
		R(close(FD));
		*stage_word(p, 1) = 1;
		wait_for_word(p, 2);
	}
	A {
		RECV(8);
		for (int i = 0; i < 3; i++) SEND("x");
		*stage_word(p, 3) = 1;
	}
}

static bool is_nowhere(const char *path)
{
	char target[100] = "";

	return readlink(path, target, sizeof(target) - 1) > 0 && strcmp(target, "/dev/null") == 0;
}

static void daemonize(struct play *p, int stays_there, int keeps_stdio)
{
	pid_t pid = fork_logged(p);

	if (pid == 0) {
		int was = getpid();

		close(0);
		T(daemon(stays_there, keeps_stdio) == 0);
		wait_for_word(p, 2);
		T(getpid() != was && getsid(0) == getpid());
		T(is_nowhere("/proc/self/fd/0"));
		T(is_nowhere("/proc/self/fd/2"));
		R(access("proc/self", F_OK));
		SEND("from the daemon");
		*stage_word(p, 1) = 1;
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0)
		;
	*stage_word(p, 2) = 1;
	wait_for_word(p, 1);
}

CASE(session_daemon, ANY)
{
	A { daemonize(p, 0, 0); }
	B { RECV(100); }
}

CASE(session_daemon_that_stays, ANY)
{
	A { daemonize(p, 1, 1); }
	B { RECV(100); }
}

/* On a terminal of its own a child talks to its parent, and goes on with the connection. */
CASE(session_forkpty, ANY)
{
	A {
		struct winsize size = { .ws_row = 11, .ws_col = 22 };
		char name[100] = "", line[32] = "";
		int master;
		pid_t pid = forkpty(&master, name, NULL, &size);

		if (pid == 0) {
			T(ioctl(0, TIOCGWINSZ, &size) == 0 && size.ws_col == 22);
			T(isatty(0) && isatty(1) && isatty(2) && getsid(0) == getpid());
			T(strcmp(ttyname(0), name) == 0);
			SEND("from the child");
			T(write(1, "hello", 5) == 5);
			_exit(0);
		}
		reap(p, "child", pid);
		T(read(master, line, sizeof(line)) == 5 && strcmp(line, "hello") == 0);
		close(master);
	}
	B { RECV(100); }
}
