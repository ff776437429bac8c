/*
 * System calls without libc, for the time before libc's functions are found and for what must not touch errno.
 * Results are the kernel's: a negative errno on failure.
 */
#ifndef PULC_PRELOAD_RAW_H
#define PULC_PRELOAD_RAW_H

#include <sys/syscall.h>

static inline long pre_raw6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
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
#else
#error "the system call conventions of this machine are not known here"
#endif
}

/* pre_raw(SYS_close, fd): up to six arguments, the rest are 0. */
#define PRE_RAW_(number, a, b, c, d, e, f, ...)                                                    \
	pre_raw6((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define pre_raw(number, ...) PRE_RAW_(number, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)

#endif
