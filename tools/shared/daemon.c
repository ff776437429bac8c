/*
 * Starting a private psid, once.
 *
 * Whoever finds none locks the run directory, looks again, and only then starts one: of many
 * programs started together, one starts psid and the others wait for it. `psid --daemonize` returns
 * when its socket answers, or with an error on its stderr, which is read through a pipe so that the
 * daemon keeps none of our descriptors and a reader of our own stderr is not kept waiting for it.
 *
 * The lock is a flock of the directory itself: no lock file is left behind, and the death of its
 * holder frees it.
 */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "library.h"
#include "paths.h"
#include "program.h"
#include "talk.h"
#include "utf8.h"

#define SEC_PATIENCE 15
#define USEC_RETRY 20000
#define N_TRIES 50
#define NSEC_ANSWER (NSEC_PER_SEC / 4) /* for which a program's start may wait */
#define N_STARTS 100

static int look_for_psid(void)
{
	CLEANUP_FD int fd = -EBADF;
	int r = wire_talk_call(N_TRIES, NULL, 0, &fd);

	return r == -ETIMEDOUT ? 0 : r; /* busy is there */
}

/* Whether the way to a psid is closed by what we ourselves lack: none that is started would be
 * found. */
static bool lacks_descriptors(int r)
{
	if (r == -EMFILE || r == -ENFILE)
		fprintf(stderr, "%s: psid can't be asked: %s (ulimit -n)\n",
			program_invocation_short_name, strerror(-r));
	return r == -EMFILE || r == -ENFILE;
}

/* The run directory, made if need be, locked; *ret_fd holds the lock. */
static int lock_runtime_dir(const char *dir, int *ret_fd)
{
	uint64_t end = nsec_now() + SEC_PATIENCE * NSEC_PER_SEC;
	CLEANUP_FD int fd = -EBADF;
	int r;

	r = wire_runtime_dir_make(dir, false);
	if (r < 0)
		return r;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (nsec_now() > end)
			return -ETIMEDOUT;
		(void)usleep(USEC_RETRY);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int find_psid_program(char *buf, size_t size)
{
	return run_beside("psid", buf, size) == 0 ? 0 : run_find_program("psid", buf, size);
}

/* In the child: nothing of ours goes with the daemon, neither descriptors nor signals nor the
 * preload. */
static _Noreturn void become_psid(const char *program, int errors)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(errors, STDERR_FILENO) < 0)
		_exit(EXIT_FAILURE);
	(void)close_range(STDERR_FILENO + 1, ~0u, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)unsetenv("LD_PRELOAD");
	(void)execl(program, "psid", "--daemonize", (char *)NULL);
	dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
	_exit(EXIT_FAILURE);
}

/* Waits for the child to end, at most SEC_PATIENCE. Returns 0, -ETIMEDOUT, -ECHILD: it failed. */
static int await_child(pid_t child)
{
	uint64_t end = nsec_now() + SEC_PATIENCE * NSEC_PER_SEC;
	int status;

	for (;;) {
		pid_t pid = waitpid(child, &status, WNOHANG);

		if (pid == child)
			return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
		if (pid < 0 && errno != EINTR)
			return -errno;
		if (nsec_now() > end) {
			(void)kill(child, SIGKILL);
			(void)waitpid(child, &status, 0);
			return -ETIMEDOUT;
		}
		(void)usleep(1000);
	}
}

/* What psid wrote while it started; passed on only if it failed. */
static void pass_on(int errors)
{
	char text[2048];
	ssize_t n = read(errors, text, sizeof(text));

	if (n > 0)
		(void)!write(STDERR_FILENO, text, (size_t)n);
}

static int start_psid(const char *program)
{
	CLEANUP_FD int ours = -EBADF, theirs = -EBADF;
	int ends[2], r;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	ours = ends[0];
	theirs = ends[1];
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0)
		become_psid(program, theirs);
	r = await_child(child);
	if (r < 0)
		pass_on(ours);
	return r;
}

/*
 * Starts one until one answers: the start of a psid succeeds without effect while another, which
 * is just ending, still holds the place.
 */
static int start_and_look(const char *program)
{
	int r = 0, found;

	for (int i = 0; i < N_STARTS; i++) {
		r = start_psid(program);
		found = look_for_psid();
		if (found == 0 || lacks_descriptors(found))
			return found;
		if (r < 0)
			break;
		(void)usleep(USEC_RETRY);
	}
	if (lacks_descriptors(r))
		return r;
	fprintf(stderr, "%s: %s --daemonize %s\n", program_invocation_short_name, program,
		r == -ECHILD ? "failed" : "did not get ready in time");
	return r < 0 ? r : -ETIMEDOUT;
}

static int start_locked(const char *dir)
{
	CLEANUP_FD int lock = -EBADF;
	char program[PATH_MAX];
	int r;

	r = lock_runtime_dir(dir, &lock);
	if (r < 0) {
		fprintf(stderr, "%s: cannot use %s as run directory of a private psid: %s\n",
			program_invocation_short_name, dir,
			r == -EPERM ? "it must be ours, and nobody else's to write to"
				    : strerror(-r));
		return r;
	}
	if (look_for_psid() == 0)
		return 0;
	r = find_psid_program(program, sizeof(program));
	if (r < 0) {
		fprintf(stderr,
			"%s: psid is neither beside this program nor in PATH (is all of PULC "
			"installed?)\n",
			program_invocation_short_name);
		return r;
	}
	return start_and_look(program);
}

/* What of psid's refusals concerns the process that we will be; a command's own limits do not. */
static bool is_about_us(const Pulc__Wire__ToClient *msg)
{
	return msg->body_case == PULC__WIRE__TO_CLIENT__BODY_REFUSE &&
	       (msg->refuse->reason == PULC__WIRE__REASON__REASON_VERSION ||
		msg->refuse->reason == PULC__WIRE__REASON__REASON_USER);
}

int run_ask_psid(char *buf, size_t size)
{
	CLEANUP_FD int fd = -EBADF;
	Pulc__Wire__ToClient *msg;
	int r = wire_talk_call(1, NULL, 0, &fd);

	if (r == 0)
		r = wire_talk_hello_for(fd, program_invocation_short_name);
	if (r == 0)
		r = wire_talk_receive(fd, nsec_now() + NSEC_ANSWER, &msg);
	if (r < 0)
		return 0;
	if (is_about_us(msg)) {
		(void)wire_utf8_plain(msg->refuse->text, buf, size);
		r = -EPERM;
	}
	pulc__wire__to_client__free_unpacked(msg, NULL);
	return r;
}

int run_ensure_psid(void)
{
	char dir[PATH_MAX];
	int r;

	r = look_for_psid();
	if (r == 0 || lacks_descriptors(r))
		return r;
	r = wire_runtime_dir(false, dir, sizeof(dir));
	if (r == 0)
		r = start_locked(dir);
	return r;
}
