/*
 * exec, and programs that are started beside us.
 *
 * The new program gets the sockets whose descriptors stay open. If it loads the shim it takes
 * upgraded connections up by itself (inherit.c); if not, or if the socket becomes one of its
 * descriptors 0 to 2, the connection goes back to the kernel before. Connections that are not
 * upgraded yet, and UDP sockets, have one holder more, which libpulc is told.
 *
 * Whoever calls exec may be a forked child, this very process, or a child in its parent's memory
 * (vfork): that one has descriptors of its own, so the kernel is asked what is open, and sockets
 * are known by their identity. If exec fails everything is as it was, but for connections that have
 * gone back to the kernel.
 *
 * posix_spawn does its work inside libc. What its actions duplicate into the child is noted when
 * they are made.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <paths.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

#include <pulc/process.h>

#include "inherit.h"
#include "process.h"
#include "rawsys.h"
#include "symbols.h"
#include "target.h"

#define N_STDIO 3
/* A process that lives for longer than the call, and whose number we are not told. */
#define SOMEBODY (-1)

struct start {
	bool concerned; /* there are streams, and something will be executed */
	bool foreign;	/* it can't take connections up ... */
	bool outside;	/* ... not even later */
	bool owner;	/* the caller's descriptors are those of the shim's table */
	bool begun;	/* the new program runs already */
	bool unknown;	/* it gets a socket that the table does not know */
	int pid;	/* of the new program, 0: not known yet */
	int caller;	/* the caller's */
};

/* ---- what goes along ------------------------------------------------------------------------- */

static bool is_ours(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return raw_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP);
}

static bool stays_open(int fd)
{
	long flags = raw_syscall(SYS_fcntl, fd, F_GETFD);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* The stream of an open TCP or UDP socket, a reference; NULL: none that we know. */
static pulc_stream *stream_at(const struct start *start, int fd)
{
	struct pre_use use;
	pulc_stream *s;

	if (pulc_socket_is_upgraded(fd)) {
		s = pulc_stream_of(fd);
		if (s || !start->owner || !start->foreign || !pre_inherit(fd))
			return s;
	}
	/* A child in its parent's memory may have given it another number. */
	if (!pre_use_file(&use, fd))
		return start->owner ? NULL : pulc_stream_of(fd);
	s = use.stream ? pulc_stream_ref(use.stream) : NULL;
	pre_use_end(&use);
	return s;
}

/* s goes along on descriptor fd, which the child may see under the number `as`. */
static void take_along(const struct start *start, pulc_stream *s, int fd, int as)
{
	bool other = !start->owner || start->pid != start->caller;
	bool is_datagram = pulc_stream_is_datagram(s);

	if (is_datagram) /* nobody takes its flows up */
		pulc_stream_passes(s);
	if (is_datagram || !pulc_stream_attached(s)) {
		if (start->pid == SOMEBODY)
			pulc_stream_keep_on_kernel(s, fd, PULC_REASON_SHARED);
		else if (start->pid && other)
			pulc_stream_shared_with(s, start->pid);
	} else if (start->foreign || as < N_STDIO) {
		pulc_stream_keep_on_kernel(s, fd, PULC_REASON_SHARED);
		if (start->outside || as < N_STDIO)
			pulc_stream_bypassed(s, fd);
		if (start->outside)
			pulc_stream_goes_outside(s, fd, start->pid && !other && !start->begun);
	} else if (other && !start->begun) {
		pulc_stream_passes(s);
	}
}

static void visit_open(int fd, void *arg)
{
	struct start *start = arg;
	pulc_stream *s;

	if (!stays_open(fd) || !is_ours(fd))
		return;
	s = stream_at(start, fd);
	if (s)
		take_along(start, s, fd, fd);
	else
		start->unknown = true;
	pulc_stream_unref(s);
}

/* ---- exec ------------------------------------------------------------------------------------ */

static void mark(int fd, struct pre_file *f, void *arg)
{
	bool stays = *(bool *)arg;

	if (!pre_file_is_standin(f) && (!stays || stays_open(fd)))
		f->stays = stays;
}

static void leave(int fd, struct pre_file *f, void *arg)
{
	pulc_stream *s = pre_file_is_standin(f) ? NULL : atomic_load(&f->stream);

	(void)fd;
	(void)arg;
	if (s && f->stays)
		pulc_stream_changes_hands(s);
	else if (s)
		pulc_stream_leaves(s);
}

static void stay(int fd, struct pre_file *f, void *arg)
{
	pulc_stream *s = pre_file_is_standin(f) ? NULL : atomic_load(&f->stream);

	(void)fd;
	(void)arg;
	if (s)
		pulc_stream_stays(s);
}

/* The files that have no descriptor left after exec are left now. */
static void leave_others(void)
{
	bool stays = false;

	pre_file_each(0, UINT32_MAX, mark, &stays);
	stays = true;
	pre_file_each(0, UINT32_MAX, mark, &stays);
	pre_file_each(0, UINT32_MAX, leave, NULL);
}

static bool matters(enum pre_target target)
{
	return target != PRE_TARGET_NONE && pre_enabled && pulc_any_stream();
}

static void begin(struct start *start, enum pre_target target)
{
	*start = (struct start){ .concerned = matters(target) };
	if (!start->concerned)
		return;
	start->outside = target == PRE_TARGET_FOREIGN;
	start->foreign = start->outside || !pulc_can_be_inherited();
	start->owner = pre_process_owns_table();
	start->pid = start->caller = (int)raw_syscall(SYS_getpid);
	/* In the parent's memory and another pid namespace: its number says nothing there. */
	if (!start->owner && raw_syscall(SYS_getppid) == 0)
		start->pid = PULC_ANYBODY;
	pre_each_open(visit_open, start);
	if (start->unknown)
		pulc_streams_shared_with(start->pid);
	if (start->owner) {
		leave_others();
		pulc_exec_begins();
	}
}

/* exec has come back: an error. */
static int failed(const struct start *start, int e)
{
	if (start->concerned && start->owner) {
		pre_file_each(0, UINT32_MAX, stay, NULL);
		pulc_exec_failed();
	}
	return e;
}

int pre_execve(const char *path, char *const argv[], char *const env[])
{
	struct start start;

	begin(&start, pre_target(AT_FDCWD, path, env));
	return failed(&start, (int)pre_sys(pre_real.execve(path, argv, env)));
}

int pre_execv(const char *path, char *const argv[])
{
	struct start start;

	begin(&start, pre_target(AT_FDCWD, path, environ));
	return failed(&start, (int)pre_sys(pre_real.execv(path, argv)));
}

int pre_execvp(const char *name, char *const argv[])
{
	struct start start;

	begin(&start, pre_target_search(name, environ));
	return failed(&start, (int)pre_sys(pre_real.execvp(name, argv)));
}

int pre_execvpe(const char *name, char *const argv[], char *const env[])
{
	struct start start;

	begin(&start, pre_target_search(name, env));
	return failed(&start, (int)pre_sys(pre_real.execvpe(name, argv, env)));
}

int pre_execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
	struct start start;

	begin(&start, pre_target(dir, path, env));
	return failed(&start, (int)pre_sys(pre_real.execveat(dir, path, argv, env, flags)));
}

int pre_fexecve(int fd, char *const argv[], char *const env[])
{
	struct start start;

	begin(&start, pre_target(fd, "", env));
	return failed(&start, (int)pre_sys(pre_real.fexecve(fd, argv, env)));
}

/* ---- programs started beside us -------------------------------------------------------------- */

int pre_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int as)
{
	struct pre_file *f = pre_file_own(fd);

	if (f && !pre_file_is_standin(f))
		atomic_store(&f->spawned, as < N_STDIO ? PRE_SPAWNED_STDIO : PRE_SPAWNED);
	return pre_real.posix_spawn_file_actions_adddup2(actions, fd, as);
}

/* Named in some action: whether in this one's nobody knows, so it goes along. */
static void visit_named(int fd, struct pre_file *f, void *arg)
{
	struct start *start = arg;
	pulc_stream *s = pre_file_is_standin(f) ? NULL : atomic_load(&f->stream);
	int named = s ? atomic_load(&f->spawned) : 0;

	if (named && !stays_open(fd))
		take_along(start, s, fd, named == PRE_SPAWNED_STDIO ? 0 : fd);
}

static void walk(struct start *start)
{
	pre_each_open(visit_open, start);
	pre_file_each(0, UINT32_MAX, visit_named, start);
}

static void begin_beside(struct start *start, enum pre_target target)
{
	*start = (struct start){ .concerned = matters(target),
				 .owner = true,
				 .caller = (int)raw_syscall(SYS_getpid) };
	if (!start->concerned)
		return;
	start->outside = target == PRE_TARGET_FOREIGN;
	start->foreign = start->outside || !pulc_can_be_inherited();
	pulc_spawn_begins();
	walk(start);
}

/* pid: of the new program; 0: there is none, or none any more. */
static void begun(struct start *start, int pid)
{
	if (!start->concerned)
		return;
	start->begun = true;
	start->pid = pid;
	if (pid)
		walk(start);
	if (pid > 0 && start->unknown)
		pulc_streams_shared_with(pid);
	pulc_spawn_done();
}

/* libc tells the program of its child before a handler of SIGCHLD can run. */
int pre_posix_spawn(pid_t *ret_pid, const char *path, const posix_spawn_file_actions_t *actions,
		    const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
	struct start start;
	pid_t pid = -1, *told = ret_pid ? ret_pid : &pid;
	int e;

	begin_beside(&start, pre_target(AT_FDCWD, path, env));
	e = pre_real.posix_spawn(told, path, actions, attributes, argv, env);
	begun(&start, e ? 0 : *told);
	return e;
}

int pre_posix_spawnp(pid_t *ret_pid, const char *name, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
	struct start start;
	pid_t pid = -1, *told = ret_pid ? ret_pid : &pid;
	int e;

	begin_beside(&start, pre_target_search(name, env));
	e = pre_real.posix_spawnp(told, name, actions, attributes, argv, env);
	begun(&start, e ? 0 : *told);
	return e;
}

/* The shell of system() and popen(). Nobody tells its process number. */
int pre_system(const char *command)
{
	struct start start;
	int status;

	if (!command)
		return pre_real.system(NULL);
	begin_beside(&start, pre_target(AT_FDCWD, _PATH_BSHELL, environ));
	status = pre_real.system(command);
	begun(&start, 0);
	return status;
}

FILE *pre_popen(const char *command, const char *mode)
{
	struct start start;
	FILE *file;

	begin_beside(&start, pre_target(AT_FDCWD, _PATH_BSHELL, environ));
	file = pre_real.popen(command, mode);
	begun(&start, file ? SOMEBODY : 0);
	return file;
}
