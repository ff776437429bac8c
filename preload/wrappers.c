/*
 * The functions that programs call in libc's place, all made from symbols.def.
 *
 * A wrapper for a descriptor looks it up and, when the shim does not track it, jumps to libc: two
 * loads and a branch more than without the shim. Everything else goes to the handler of its topic.
 * Handlers answer with negative errno values; this file is where errno is set, and only on failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#include "file.h"
#include "symbols.h"

#define EXPORT USUAL __attribute__((visibility("default")))

static inline long result(long ret)
{
	if (__builtin_expect(ret >= 0, 1))
		return ret;
	errno = (int)-ret;
	return -1;
}

/* What libc answers of itself. */
#define STIRRED(call)                                                                              \
	({                                                                                         \
		__typeof__(call) answer_ = (call);                                                 \
		pre_stir();                                                                        \
		answer_;                                                                           \
	})

/* The C name differs from the exported one, so that libc's own declarations don't interfere. */
#define ENTRY(ret, name, params)                                                                   \
	EXPORT ret entry_##name params __asm__(#name);                                             \
	EXPORT ret entry_##name params

#define PRE_FD(served, ret, name, sys, n, ...)                                                     \
	ENTRY(ret, name, (PRE_PARAMS_##n(__VA_ARGS__)))                                            \
	{                                                                                          \
		if (__builtin_expect(!pre_file_at(fd), 1))                                         \
			return STIRRED(pre_real.name(PRE_ARGS_##n(__VA_ARGS__)));                  \
		return (ret)result(pre_##name(PRE_ARGS_##n(__VA_ARGS__)));                         \
	}
#define PRE_ALL(served, ret, name, sys, n, ...)                                                    \
	ENTRY(ret, name, (PRE_PARAMS_##n(__VA_ARGS__)))                                            \
	{                                                                                          \
		return (ret)result(pre_##name(PRE_ARGS_##n(__VA_ARGS__)));                         \
	}
#define PRE_PLAIN(served, ret, name, sys, n, ...)                                                  \
	ENTRY(ret, name, (PRE_PARAMS_##n(__VA_ARGS__)))                                            \
	{                                                                                          \
		return pre_##name(PRE_ARGS_##n(__VA_ARGS__));                                      \
	}
#define PRE_CHECKED(ret, name, of, args, fits, n, ...)                                             \
	ENTRY(ret, name, (PRE_PARAMS_##n(__VA_ARGS__)))                                            \
	{                                                                                          \
		if (__builtin_expect(fits, 1))                                                     \
			return entry_##of args;                                                    \
		return pre_real.name(PRE_ARGS_##n(__VA_ARGS__));                                   \
	}
#define PRE_VARIADIC(served, ret, name, sys, n, ...)
#include "symbols.def"

ENTRY(int, ioctl, (int fd, unsigned long command, ...))
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (__builtin_expect(!pre_file_at(fd), 1))
		return STIRRED(pre_real.ioctl(fd, command, arg));
	return (int)result(pre_ioctl(fd, command, arg));
}

ENTRY(int, fcntl, (int fd, int command, ...))
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	/* The owner of a descriptor's signals may be a negative number that is no error. */
	if (__builtin_expect(!pre_file_at(fd), 1) || command == F_GETOWN)
		return pre_real.fcntl(fd, command, arg);
	return (int)result(pre_fcntl(fd, command, arg));
}

ENTRY(int, prctl, (int option, ...))
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	return (int)result(pre_prctl(option, a[0], a[1], a[2], a[3]));
}

ENTRY(int, clone, (pre_clone_main * run, void *stack, int flags, void *arg, ...))
{
	pid_t *parent_tid, *child_tid;
	va_list ap;
	void *tls;

	va_start(ap, arg);
	parent_tid = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	child_tid = va_arg(ap, pid_t *);
	va_end(ap);
	return (int)result(pre_clone(run, stack, flags, arg, parent_tid, tls, child_tid));
}

ENTRY(int, vdprintf, (int fd, const char *format, va_list ap))
{
	return (int)result(pre_vdprintf(fd, format, ap));
}

ENTRY(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list ap))
{
	return (int)result(pre___vdprintf_chk(fd, flag, format, ap));
}

ENTRY(int, dprintf, (int fd, const char *format, ...))
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = (int)result(pre_vdprintf(fd, format, ap));
	va_end(ap);
	return n;
}

ENTRY(int, __dprintf_chk, (int fd, int flag, const char *format, ...))
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = (int)result(pre___vdprintf_chk(fd, flag, format, ap));
	va_end(ap);
	return n;
}

/* The arguments of an execl as a vector, on the caller's stack; `last` behind them, if the call has
 * one. */
#define N_ARGS_MAX 65536

static size_t count_args(va_list *ap)
{
	size_t n = 1;

	while (n < N_ARGS_MAX && va_arg(*ap, const char *))
		n++;
	return n;
}

#define EXEC_LIST(call, ...)                                                                       \
	({                                                                                         \
		va_list ap_;                                                                       \
		size_t n_;                                                                         \
		va_start(ap_, first);                                                              \
		n_ = first ? count_args(&ap_) : 0;                                                 \
		va_end(ap_);                                                                       \
		char *argv_[n_ + 1];                                                               \
		argv_[0] = (char *)first;                                                          \
		va_start(ap_, first);                                                              \
		for (size_t i_ = 1; i_ <= n_; i_++)                                                \
			argv_[i_] = va_arg(ap_, char *);                                           \
		char *const *env_ = va_arg(ap_, char *const *);                                    \
		va_end(ap_);                                                                       \
		(void)env_;                                                                        \
		(int)result(call);                                                                 \
	})

ENTRY(int, execl, (const char *path, const char *first, ...))
{
	return EXEC_LIST(pre_execv(path, argv_));
}

ENTRY(int, execlp, (const char *name, const char *first, ...))
{
	return EXEC_LIST(pre_execvp(name, argv_));
}

ENTRY(int, execle, (const char *path, const char *first, ...))
{
	return EXEC_LIST(pre_execve(path, argv_, env_));
}

ENTRY(long, syscall, (long number, ...))
{
	va_list ap;
	long a[6], answer;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (__builtin_expect(number == SYS_io_uring_setup, 0) &&
	    pre_denies_ring(__builtin_return_address(0)))
		return result(-ENOSYS);
	if (pre_route(number, a, &answer))
		return result(answer);
	return STIRRED(pre_real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

#define PRE_FD(served, ret, name, sys, n, ...)
#define PRE_SAME(name, of)                                                                         \
	EXPORT extern __typeof__(entry_##of) entry_##name __asm__(#name)                           \
		__attribute__((alias(#of)));
#include "symbols.def"
