/*
 * How a case is played: the stage (memory shared by the actors), the phases, the log.
 *
 * Every block that is no WITH block begins a phase, and both actors meet at a barrier before it:
 * as both run the same text, they agree on the phases without saying more. Each side logs into a
 * part of its own; at the barrier A's part and then B's go to the log, so that blocks which run
 * side by side still give one text.
 */
#include "case.h"
#include "stage.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

volatile sig_atomic_t n_signals;
char *volatile bad_address = (char *)16;

static void log_append(struct log_part *part, const char *text)
{
	size_t len = strlen(text);

	if (part->size + len >= sizeof(part->text))
		return;
	memcpy(part->text + part->size, text, len);
	part->size += len;
}

static void collect(struct stage *stage)
{
	for (int side = SIDE_A; side <= SIDE_B; side++) {
		stage->part[side].text[stage->part[side].size] = '\0';
		log_append(&stage->log, stage->part[side].text);
		stage->part[side].size = 0;
	}
}

void play_phase(struct play *p)
{
	p->phase++;
	if (p->mode == SELF) {
		collect(p->stage);
		return;
	}
	if (pthread_barrier_wait(&p->stage->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		collect(p->stage);
	pthread_barrier_wait(&p->stage->barrier);
	atomic_store(&p->stage->phase[p->actor == 1 ? SIDE_A : SIDE_B], p->phase);
}

bool play_enter(struct play *p, int side, bool fresh)
{
	if (fresh)
		play_phase(p);
	if (!(p->actor & 1u << side))
		return false;
	p->side = side;
	p->fd = p->fds[side];
	return true;
}

bool play_is(const struct play *p, unsigned modes)
{
	return (p->mode & modes) != 0;
}

struct stage *stage_of(struct play *p)
{
	return p->stage;
}

_Atomic long *stage_word(struct play *p, unsigned i)
{
	return &p->stage->words[i];
}

pid_t actor_tid(const struct play *p, int side)
{
	return p->stage->tid[side];
}

pid_t actor_pid(const struct play *p, int side)
{
	return p->stage->pid[side];
}

/* ---- the log --------------------------------------------------------------------------------- */

void say(struct play *p, const char *format, ...)
{
	char line[4096], text[4000];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)snprintf(line, sizeof(line), "%c: %s\n", "ab"[p->side], text);
	log_append(&p->stage->part[p->side], line);
}

const char *errno_name(int error)
{
	const char *name = strerrorname_np(error);

	return name ? name : "?";
}

long say_result(struct play *p, const char *text, long value)
{
	int error = errno;

	if (value == -1)
		say(p, "%s = -1 %s", text, errno_name(error));
	else
		say(p, "%s = %ld%s", text, value,
		    error != ERRNO_UNTOUCHED ? " and errno was touched" : "");
	errno = error;
	return value;
}

static bool is_printable(const unsigned char *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] < ' ' || buf[i] > '~')
			return false;
	return true;
}

void say_bytes(struct play *p, const char *text, const void *buf, size_t len)
{
	const unsigned char *bytes = buf;
	uint64_t sum = 0xcbf29ce484222325;

	if (len <= 64 && is_printable(bytes, len)) {
		say(p, "%s \"%.*s\"", text, (int)len, (const char *)buf);
		return;
	}
	for (size_t i = 0; i < len; i++) sum = (sum ^ bytes[i]) * 0x100000001b3;
	say(p, "%s %zu bytes, sum %016llx", text, len, (unsigned long long)sum);
}

void say_error(struct play *p, int fd)
{
	int error = -1;
	socklen_t size = sizeof(error);

	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
	say(p, "SO_ERROR %s", error ? errno_name(error) : "none");
}

void say_poll(struct play *p, const char *text, int events)
{
	static const struct {
		int bit;
		const char *name;
	} names[] = { { POLLIN, "IN" },		{ POLLPRI, "PRI" },	  { POLLOUT, "OUT" },
		      { POLLERR, "ERR" },	{ POLLHUP, "HUP" },	  { POLLNVAL, "NVAL" },
		      { POLLRDNORM, "RDNORM" }, { POLLRDBAND, "RDBAND" }, { POLLWRNORM, "WRNORM" },
		      { POLLWRBAND, "WRBAND" }, { POLLRDHUP, "RDHUP" } };
	char line[256] = "";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (events & names[i].bit) {
			strcat(line, " ");
			strcat(line, names[i].name);
		}
	say(p, "%s:%s", text, events ? line : " none");
}

ssize_t say_recv(struct play *p, int fd, size_t n, int flags)
{
	char *buf = malloc(n + 1);
	ssize_t got;
	char text[64];
	int error;

	errno = ERRNO_UNTOUCHED;
	got = recv(fd, buf, n, flags);
	error = errno;
	if (got > 0) {
		(void)snprintf(text, sizeof(text), "recv(%zu, 0x%x) = %zd", n, flags, got);
		say_bytes(p, text, buf, (size_t)got < n ? (size_t)got : n);
	} else if (got == 0) {
		say(p, "recv(%zu, 0x%x) = 0", n, flags);
	} else {
		say(p, "recv(%zu, 0x%x) = -1 %s", n, flags, errno_name(error));
	}
	if (got >= 0 && error != ERRNO_UNTOUCHED)
		say(p, "recv touched errno");
	free(buf);
	errno = error;
	return got;
}

ssize_t say_send(struct play *p, int fd, const char *text, int flags)
{
	char line[128];

	(void)snprintf(line, sizeof(line), "send(\"%.64s\", 0x%x)", text, flags);
	errno = ERRNO_UNTOUCHED;
	return say_result(p, line, send(fd, text, strlen(text), flags));
}

/* ---- children and signals -------------------------------------------------------------------- */

pid_t fork_logged(struct play *p)
{
	pid_t pid = fork();

	if (pid < 0)
		say(p, "fork: %s", errno_name(errno));
	return pid;
}

/* In a namespace whose first process has ended there are no others. False: this process may not
 * make one. */
static bool begin_without_others(void)
{
	pid_t first;

	if (unshare(CLONE_NEWPID) < 0)
		return false;
	first = vfork();
	if (first == 0)
		_exit(0);
	return waitpid(first, NULL, 0) == first;
}

void fork_in_vain(struct play *p, pid_t (*by)(void))
{
	int before = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	struct rlimit limit, none;
	pid_t pid;

	getrlimit(RLIMIT_NPROC, &limit);
	none = (struct rlimit){ 0, limit.rlim_max };
	if (!begin_without_others())
		setrlimit(RLIMIT_NPROC, &none);
	pid = by();
	if (pid == 0)
		_exit(0);
	T(pid < 0 && (errno == EAGAIN || errno == ENOMEM));
	setrlimit(RLIMIT_NPROC, &limit);
	(void)setns(before, CLONE_NEWPID);
	close(before);
}

void reap(struct play *p, const char *who, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			say(p, "%s: waitpid: %s", who, errno_name(errno));
			return;
		}
	if (WIFEXITED(status))
		say(p, "%s exited with %d", who, WEXITSTATUS(status));
	else
		say(p, "%s killed by SIG%s", who, sigabbrev_np(WTERMSIG(status)));
}

static void on_signal(int signal __attribute__((unused)))
{
	n_signals++;
}

void count_signal(int signal, int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

	n_signals = 0;
	sigaction(signal, &action, NULL);
}

void leave_to_other(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void interrupt_other(struct play *p, int signal)
{
	until_other_sleeps(p);
	if (p->mode == THREAD)
		tgkill(getpid(), actor_tid(p, !p->side), signal);
	else
		kill(actor_pid(p, !p->side), signal);
}

void answer_and_end(struct play *p)
{
	B {
		RECV_FLAGS(11, MSG_WAITALL);
		SEND("reply");
	}
	A {
		RECV_FLAGS(5, MSG_WAITALL);
		close(FD);
	}
	B { RECV(1); }
}
