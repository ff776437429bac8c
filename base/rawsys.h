/*
 * System calls made without libc.
 *
 * The library runs inside programs whose libc entry points are interposed, by us and by
 * others: what it asks of the kernel for itself must reach the kernel and nobody else, must
 * not touch errno, and must be callable from a signal handler and from a half-made child.
 * Results are the kernel's own: a negative errno on failure.
 */
#ifndef PULC_BASE_RAWSYS_H
#define PULC_BASE_RAWSYS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#if defined(__x86_64__)
static inline long raw_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long raw_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}
#else
#error "PULC knows the system call conventions of x86-64 and aarch64 only"
#endif

/* raw_syscall(SYS_close, fd): up to six arguments, the rest are 0. */
#define RAW_SYSCALL_(nr, a, b, c, d, e, f, ...)                                                    \
	raw_syscall6((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define raw_syscall(nr, ...) RAW_SYSCALL_(nr, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)

static inline int raw_close(int fd)
{
	return (int)raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline ssize_t raw_read(int fd, void *buf, size_t len)
{
	return raw_syscall(SYS_read, fd, buf, len, 0, 0, 0);
}

static inline ssize_t raw_write(int fd, const void *buf, size_t len)
{
	return raw_syscall(SYS_write, fd, buf, len, 0, 0, 0);
}

static inline ssize_t raw_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return raw_syscall(SYS_sendmsg, fd, msg, flags, 0, 0, 0);
}

static inline ssize_t raw_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return raw_syscall(SYS_recvmsg, fd, msg, flags, 0, 0, 0);
}

static inline ssize_t raw_send(int fd, const void *buf, size_t len, int flags)
{
	return raw_syscall(SYS_sendto, fd, buf, len, flags, 0, 0);
}

static inline ssize_t raw_recv(int fd, void *buf, size_t len, int flags)
{
	return raw_syscall(SYS_recvfrom, fd, buf, len, flags, 0, 0);
}

static inline int raw_ppoll(struct pollfd *fds, size_t n, const struct timespec *timeout)
{
	struct timespec left; /* the kernel writes the rest of the time back */

	if (timeout)
		left = *timeout;
	return (int)raw_syscall(SYS_ppoll, fds, n, timeout ? &left : NULL, NULL, 8, 0);
}

/* The kernel's own, which are not libc's: a set of signals, in bytes, and struct sigaction. */
#define RAW_SIZE_SIGSET 8u
struct raw_sigaction {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* Has the signal (1 to 64) a handler? Then *ret_action says which. */
static inline bool raw_is_handled(int signal, struct raw_sigaction *ret_action)
{
	return raw_syscall(SYS_rt_sigaction, signal, NULL, ret_action, RAW_SIZE_SIGSET) == 0 &&
	       ret_action->handler != SIG_DFL && ret_action->handler != SIG_IGN;
}

static inline int raw_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	return (int)raw_syscall(SYS_getsockopt, fd, level, name, val, len, 0);
}

static inline int raw_ioctl(int fd, unsigned long cmd, void *arg)
{
	return (int)raw_syscall(SYS_ioctl, fd, cmd, arg, 0, 0, 0);
}

static inline int raw_fcntl(int fd, int cmd, long arg)
{
	return (int)raw_syscall(SYS_fcntl, fd, cmd, arg, 0, 0, 0);
}

static inline int raw_shutdown(int fd, int how)
{
	return (int)raw_syscall(SYS_shutdown, fd, how, 0, 0, 0, 0);
}

static inline int raw_futex(void *word, int op, uint32_t val, const struct timespec *timeout)
{
	return (int)raw_syscall(SYS_futex, word, op, val, timeout, 0, 0);
}

static inline int raw_gettid(void)
{
	return (int)raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static inline int raw_getpid(void)
{
	return (int)raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline int raw_geteuid(void)
{
	return (int)raw_syscall(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

#endif
