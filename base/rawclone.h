/*
 * A process that shares our memory and begins in a function, on a stack of its own: what clone() of
 * libc does, with the flags that only clone3 knows.
 *
 * The child has our thread's storage, errno among it, and runs beside us: it makes raw system calls
 * only (rawsys.h), and touches no memory that we may touch at the same time.
 */
#ifndef PULC_BASE_RAWCLONE_H
#define PULC_BASE_RAWCLONE_H

#include <linux/sched.h>
#include <stddef.h>
#include <sys/syscall.h>

/*
 * Returns the child's number, negative errno. args: with CLONE_VM and a stack, aligned to 16 at its
 * end; run: does not return.
 */
#if defined(__x86_64__)
static inline long raw_clone3(struct clone_args *args, void (*run)(void *), void *data)
{
	register void (*r8)(void *) __asm__("r8") = run;
	register void *r9 __asm__("r9") = data;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xorl %%ebp, %%ebp\n\t" /* the first frame of all */
			 "movq %%r9, %%rdi\n\t"
			 "callq *%%r8\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return ret;
}
#elif defined(__aarch64__)
static inline long raw_clone3(struct clone_args *args, void (*run)(void *), void *data)
{
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = (long)sizeof(*args);
	register void (*x2)(void *) __asm__("x2") = run;
	register void *x3 __asm__("x3") = data;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t" /* the first frame of all */
			 "mov x0, x3\n\t"
			 "blr x2\n\t"
			 "brk 0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory", "cc");
	return x0;
}
#endif

/* For what runs in such a child: sanitizers know no stack but those of threads. */
#define RAW_CLONE_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

#endif
