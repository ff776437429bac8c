/*
 * Where a psid is found: the one place that knows.
 *
 * A run directory holds one psid's socket. A process looks for a psid at up to WIRE_N_CANDIDATES
 * places, what the user named first, his own before the system's, and believes a socket only if
 * it is his own or root's: by the owner of the file before connecting, and by SO_PEERCRED
 * afterwards. The folder under /tmp, where anybody may make any name, counts only if it is a real
 * directory, ours, and closed to others.
 *
 * Runs inside preloaded programs: the kernel is asked directly, nothing is allocated, nothing
 * blocks. Variables of a set-user-id program's environment are not read. There, a place that is
 * none is passed over, for nobody could be told; commands say so (wire_places_check).
 */
#include "paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "cleanup.h"
#include "macros.h"
#include "rawsys.h"

static uid_t own_uid(void)
{
	return (uid_t)raw_syscall(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

/* Sets buf to the concatenation of three strings. */
static int join(char *buf, size_t size, const char *a, const char *b, const char *c)
{
	size_t la = strlen(a), lb = strlen(b), lc = strlen(c);

	if (la + lb + lc >= size)
		return -ENAMETOOLONG;
	memcpy(buf, a, la);
	memcpy(buf + la, b, lb);
	memcpy(buf + la + lb, c, lc + 1);
	return 0;
}

/* "/tmp/pulc-<uid>" */
static int tmp_dir(char *buf, size_t size)
{
	char digits[12];
	char *p = digits + sizeof(digits) - 1;
	uid_t uid = own_uid();

	*p = '\0';
	do
		*--p = (char)('0' + uid % 10);
	while ((uid /= 10) != 0);
	return join(buf, size, "/tmp/pulc-", p, "");
}

static const char *variable(const char *name)
{
	const char *value = secure_getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

static int status_of(int dirfd, const char *path, int flags, struct statx *st)
{
	return (int)raw_syscall(SYS_statx, dirfd, path, flags, STATX_TYPE | STATX_MODE | STATX_UID,
				st, 0);
}

/* Returns 0 if st is a directory of ours that nobody else can write to. */
static int check_dir(const struct statx *st)
{
	if ((st->stx_mode & S_IFMT) != S_IFDIR)
		return -ENOTDIR;
	if (st->stx_uid != own_uid() || (st->stx_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

/* The session's folder for such things. After su(1), or sudo -E, the variable may name another
 * user's, and one that nobody has logged in to has none. */
static const char *session_dir(void)
{
	const char *dir = variable("XDG_RUNTIME_DIR");
	struct statx st;

	if (!dir || status_of(AT_FDCWD, dir, 0, &st) < 0)
		return NULL;
	return (st.stx_mode & S_IFMT) == S_IFDIR && st.stx_uid == own_uid() ? dir : NULL;
}

int wire_runtime_dir(bool system, char *buf, size_t size)
{
	const char *dir;

	if ((dir = variable("PULC_RUNTIME_DIR")))
		return join(buf, size, dir, "", "");
	if (system)
		return join(buf, size, WIRE_SYSTEM_DIR, "", "");
	if ((dir = session_dir()))
		return join(buf, size, dir, "/pulc", "");
	return tmp_dir(buf, size);
}

int wire_runtime_dir_make(const char *dir, bool system)
{
	mode_t mode = system ? 0755 : 0700;
	struct statx st;
	CLEANUP_FD int fd = -EBADF;
	int made, r;

	made = (int)raw_syscall(SYS_mkdirat, AT_FDCWD, dir, mode, 0, 0, 0);
	if (made < 0 && made != -EEXIST)
		return made;
	fd = (int)raw_syscall(SYS_openat, AT_FDCWD, dir,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return fd == -ELOOP ? -ENOTDIR : fd == -EACCES ? -EPERM : fd;
	r = status_of(fd, "", AT_EMPTY_PATH, &st);
	if (r < 0)
		return r;
	r = check_dir(&st);
	if (r < 0 || made < 0)
		return r;
	return (int)raw_syscall(SYS_fchmod, fd, mode, 0, 0, 0, 0); /* past the umask */
}

/* The socket in our folder under /tmp, if that folder deserves trust. */
static int tmp_candidate(char *buf, size_t size)
{
	char dir[32];
	struct statx st;
	int r;

	r = tmp_dir(dir, sizeof(dir));
	if (r < 0)
		return r;
	r = status_of(AT_FDCWD, dir, AT_SYMLINK_NOFOLLOW, &st);
	if (r < 0 || check_dir(&st) < 0 || (st.stx_mode & 0077))
		return -ENOENT;
	return join(buf, size, dir, "/", WIRE_SOCKET_NAME);
}

static int candidate(unsigned i, char *buf, size_t size)
{
	const char *dir;

	switch (i) {
	case 0:
		dir = variable("PULC_SOCKET");
		return dir ? join(buf, size, dir, "", "") : -ENOENT;
	case 1:
		dir = variable("PULC_RUNTIME_DIR");
		return dir ? join(buf, size, dir, "/", WIRE_SOCKET_NAME) : -ENOENT;
	case 2:
		dir = variable("XDG_RUNTIME_DIR");
		return dir ? join(buf, size, dir, "/pulc/", WIRE_SOCKET_NAME) : -ENOENT;
	case 3:
		return tmp_candidate(buf, size);
	case 4:
		return join(buf, size, WIRE_SYSTEM_DIR, "/", WIRE_SOCKET_NAME);
	default:
		return -ENOENT;
	}
}

/*
 * A program may wipe its environment, or change its user, before it first needs a psid: what the
 * environment said at the start counts.
 */
#define N_FROM_ENVIRONMENT 3
static char kept[N_FROM_ENVIRONMENT][108];
static bool remembered;

void wire_remember(void)
{
	for (unsigned i = 0; i < N_FROM_ENVIRONMENT; i++)
		if (candidate(i, kept[i], sizeof(kept[i])) < 0)
			kept[i][0] = '\0';
	remembered = true;
}

int wire_candidate(unsigned i, char *buf, size_t size)
{
	if (remembered && i < N_FROM_ENVIRONMENT)
		return *kept[i] ? join(buf, size, kept[i], "", "") : -ENOENT;
	return candidate(i, buf, size);
}

int wire_places_check(const char **ret_name)
{
	static const char *const names[] = { "PULC_SOCKET", "PULC_RUNTIME_DIR" };
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const char *value;

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		int r = candidate(i, path, sizeof(path));

		if (r == 0 || !(value = secure_getenv(names[i])) || !*value)
			continue;
		*ret_name = names[i];
		return r == -ENAMETOOLONG ? r : -EINVAL;
	}
	return 0;
}

static bool trusted(uid_t uid)
{
	return uid == 0 || uid == own_uid();
}

/*
 * Connects fd to path. Returns 0; -EAGAIN; -EPERM: another user's; -EISCONN: another user's, and
 * fd is used up; -ENOENT: nobody lives there.
 */
static int connect_to(int fd, const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct statx st;
	int r;

	if (join(addr.sun_path, sizeof(addr.sun_path), path, "", "") < 0)
		return -ENOENT;
	if (status_of(AT_FDCWD, path, 0, &st) < 0)
		return -ENOENT;
	if (!trusted(st.stx_uid))
		return -EPERM;
	r = (int)raw_syscall(SYS_connect, fd, &addr, sizeof(addr), 0, 0, 0);
	if (r < 0)
		return r == -EAGAIN || r == -EINTR ? -EAGAIN : -ENOENT;
	r = raw_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	return r < 0 || !trusted(cred.uid) ? -EISCONN : 0;
}

int wire_connect(int fd, char *buf, size_t size)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	bool busy = false, foreign = false;
	int flags = raw_fcntl(fd, F_GETFL, 0);

	if (flags < 0)
		return flags;
	(void)raw_fcntl(fd, F_SETFL, flags | O_NONBLOCK); /* a full backlog would block connect() */
	for (unsigned i = 0; i < WIRE_N_CANDIDATES; i++) {
		int r;

		if (wire_candidate(i, path, sizeof(path)) < 0)
			continue;
		r = connect_to(fd, path);
		if (r == 0)
			return buf ? join(buf, size, path, "", "") : 0;
		if (r == -EISCONN)
			return -EPERM;
		busy |= r == -EAGAIN;
		foreign |= r == -EPERM;
	}
	return busy ? -EAGAIN : foreign ? -EPERM : -ENOENT;
}
