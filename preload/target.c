/*
 * Will the program that is about to be executed load the shim?
 *
 * Only then can it take upgraded connections up. It must be a dynamically linked program of this
 * machine's kind whose loader is glibc's, run without change of privileges (a loader ignores
 * LD_PRELOAD otherwise), with the shim in its environment or in /etc/ld.so.preload. For a script
 * that is asked of its interpreter. In doubt the answer is no: a connection on the kernel is right
 * for everybody.
 */
#include "target.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "rawsys.h"
#include "symbols.h"

#define SIZE_HEAD 4096
/* Interpreters of interpreters: as many as the kernel goes through. */
#define N_SCRIPTS 5
#define LOADER "ld-linux"

/* ---- the environment ------------------------------------------------------------------------- */

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The file name of this very library. */
static const char *own_name(void)
{
	static const char *name;
	Dl_info info;

	if (!name && dladdr((const void *)&own_name, &info))
		name = name_of(info.dli_fname);
	return name;
}

/* Is the shim in a list of libraries, as ld.so(8) reads it? */
static bool lists_us(const char *list)
{
	const char *own = own_name(), *end;
	size_t len;

	for (; own && *list; list = end) {
		list += strspn(list, " :\n\t");
		end = list + strcspn(list, " :\n\t");
		len = strlen(own);
		if ((size_t)(end - list) >= len && memcmp(end - len, own, len) == 0 &&
		    ((size_t)(end - list) == len || end[-(ptrdiff_t)len - 1] == '/'))
			return true;
	}
	return false;
}

static const char *value_of(char *const env[], const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

static long read_head(int fd, char buf[SIZE_HEAD])
{
	long n = raw_syscall(SYS_pread64, fd, buf, SIZE_HEAD - 1, 0);

	if (n >= 0)
		buf[n] = '\0';
	return n;
}

static bool everybody_loads_us(void)
{
	int fd = (int)raw_syscall(SYS_openat, AT_FDCWD, "/etc/ld.so.preload", O_RDONLY | O_CLOEXEC);
	char buf[SIZE_HEAD];
	long n;

	if (fd < 0)
		return false;
	n = read_head(fd, buf);
	(void)raw_syscall(SYS_close, fd);
	return n > 0 && lists_us(buf);
}

static bool env_loads_us(char *const env[])
{
	const char *preload = value_of(env, "LD_PRELOAD"), *disable = value_of(env, "PULC_DISABLE");

	if (disable && strcmp(disable, "") != 0 && strcmp(disable, "0") != 0)
		return false;
	return (preload && lists_us(preload)) || everybody_loads_us();
}

/* ---- the file -------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

/* The path of an ELF program's loader, in buf; NULL: it has none, or is for another machine. */
static const char *loader_of(int fd, const char *buf, long n, char path[SIZE_HEAD])
{
	const ElfW(Ehdr) *elf = (const void *)buf;
	const ElfW(Phdr) * part;
	long len;

	if (n < (long)sizeof(*elf) || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_machine != MACHINE ||
	    elf->e_phentsize != sizeof(*part) ||
	    elf->e_phoff + (uint64_t)elf->e_phnum * sizeof(*part) > (uint64_t)n)
		return NULL;
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		part = (const void *)(buf + elf->e_phoff + i * sizeof(*part));
		if (part->p_type != PT_INTERP || part->p_filesz >= SIZE_HEAD)
			continue;
		len = raw_syscall(SYS_pread64, fd, path, part->p_filesz, part->p_offset);
		path[len > 0 ? len : 0] = '\0';
		return path;
	}
	return NULL;
}

static bool is_privileged(int fd, const struct stat *st)
{
	return (st->st_mode & (S_ISUID | S_ISGID)) ||
	       raw_syscall(SYS_fgetxattr, fd, "security.capability", NULL, 0) > 0;
}

/* The interpreter of a script, cut out of its first line. */
static char *interpreter_of(char *line)
{
	char *name = line + 2 + strspn(line + 2, " \t");

	name[strcspn(name, " \t\n")] = '\0';
	return name;
}

static enum pre_target judge(int fd, const struct stat *st, char path[SIZE_HEAD])
{
	char buf[SIZE_HEAD] __attribute__((aligned(8)));
	const char *loader;
	long n;

	if (is_privileged(fd, st))
		return PRE_TARGET_FOREIGN;
	n = read_head(fd, buf);
	path[0] = '\0';
	if (n > 2 && buf[0] == '#' && buf[1] == '!') {
		strcpy(path, interpreter_of(buf));
		return PRE_TARGET_OURS;
	}
	loader = loader_of(fd, buf, n, path);
	n = loader && strncmp(name_of(loader), LOADER, strlen(LOADER)) == 0;
	path[0] = '\0';
	return n ? PRE_TARGET_OURS : PRE_TARGET_FOREIGN;
}

/* Is there a file that can be executed? That takes no descriptor. */
static enum pre_target look_for(int dir, const char *name, struct stat *ret)
{
	switch (raw_syscall(SYS_newfstatat, dir, name, ret, *name ? 0 : AT_EMPTY_PATH)) {
	case 0:
		return S_ISREG(ret->st_mode) && (ret->st_mode & 0111) ? PRE_TARGET_FOREIGN
								      : PRE_TARGET_NONE;
	case -ENOENT:
	case -ENOTDIR:
	case -ENAMETOOLONG:
	case -ELOOP:
	case -EACCES: /* in a folder that nothing can be found in */
	case -EBADF:
		return PRE_TARGET_NONE;
	default:
		return PRE_TARGET_FOREIGN;
	}
}

/* A path in `path` on return: the same is to be asked of that file. One that can't be read, perhaps
 * for there is no descriptor left, may be executed all the same. */
static enum pre_target judge_at(int dir, const char *name, char path[SIZE_HEAD])
{
	struct stat st = { 0 };
	enum pre_target target = look_for(dir, name, &st);
	int fd;

	if (target == PRE_TARGET_NONE || !S_ISREG(st.st_mode))
		return target;
	fd = *name ? (int)raw_syscall(SYS_openat, dir, name, O_RDONLY | O_CLOEXEC) : dir;
	if (fd < 0)
		return PRE_TARGET_FOREIGN;
	target = judge(fd, &st, path);
	if (*name)
		(void)raw_syscall(SYS_close, fd);
	return target;
}

enum pre_target pre_target(int dir, const char *path, char *const env[])
{
	char next[SIZE_HEAD] = "", name[SIZE_HEAD];
	enum pre_target target = pre_enabled ? judge_at(dir, path, next) : PRE_TARGET_NONE;

	for (unsigned i = 0; target == PRE_TARGET_OURS && next[0]; i++) {
		strcpy(name, next);
		target = i < N_SCRIPTS ? judge_at(AT_FDCWD, name, next) : PRE_TARGET_NONE;
	}
	return target == PRE_TARGET_OURS && !env_loads_us(env) ? PRE_TARGET_FOREIGN : target;
}

enum pre_target pre_target_search(const char *name, char *const env[])
{
	const char *list = getenv("PATH"), *end;
	enum pre_target target;
	char path[SIZE_HEAD];

	if (strchr(name, '/') || !pre_enabled)
		return pre_target(AT_FDCWD, name, env);
	for (list = list ? list : "/bin:/usr/bin"; *name; list = end + 1) {
		end = list + strcspn(list, ":");
		if (snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - list), list,
			     end > list ? "/" : "", name) < (int)sizeof(path)) {
			target = pre_target(AT_FDCWD, path, env);
			if (target != PRE_TARGET_NONE)
				return target;
		}
		if (!*end)
			break;
	}
	return PRE_TARGET_NONE;
}
