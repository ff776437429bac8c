/*
 * libc's own functions, found by name. This is the only file that looks symbols up.
 *
 * pre_real holds a pointer for each row of symbols.def. It starts out with stand-ins, so that no
 * caller ever asks whether the lookup was done: a stand-in starts the lookup and then calls what
 * was found. Three callers come too early for that and get the bare system call instead: dlsym
 * itself, the memory allocator that dlsym calls (a preloaded one may open and read files), and
 * another thread meanwhile, which may hold that allocator's lock. Other libraries' constructors run
 * before ours and are served like everybody else.
 *
 * A function that this libc lacks keeps its stand-in: the system call, or ENOSYS.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <pulc/stream.h>

#include "inherit.h"
#include "process.h"
#include "rawsys.h"
#include "symbols.h"

enum { UNKNOWN, LOOKING, READY };
static _Atomic int state = UNKNOWN;

bool pre_enabled;

static long raw_result(long ret)
{
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

/* No function that answers with a pointer is a system call: it fails, with NULL. */
#define IS_POINTER(type)                                                                           \
	(__builtin_types_compatible_p(type, void *) || __builtin_types_compatible_p(type, FILE *))

#define PRE_FD(served, ret, name, sys, n, ...)                                                     \
	static ret early_##name(PRE_PARAMS_##n(__VA_ARGS__))                                       \
	{                                                                                          \
		if (pre_start() && pre_real.name != early_##name)                                  \
			return pre_real.name(PRE_ARGS_##n(__VA_ARGS__));                           \
		return (ret)(raw_result(raw_syscall6((sys), PRE_WORDS_##n(__VA_ARGS__))) +         \
			     IS_POINTER(ret));                                                     \
	}
#define PRE_CHECKED(ret, name, of, args, fits, n, ...)                                             \
	static ret early_##name(PRE_PARAMS_##n(__VA_ARGS__))                                       \
	{                                                                                          \
		if (pre_start() && pre_real.name != early_##name)                                  \
			return pre_real.name(PRE_ARGS_##n(__VA_ARGS__));                           \
		abort();                                                                           \
	}
#include "symbols.def"

struct pre_real pre_real = {
#define PRE_FD(served, ret, name, sys, n, ...) .name = early_##name,
#define PRE_CHECKED(ret, name, of, args, fits, n, ...) .name = early_##name,
#include "symbols.def"
};

/* dlsym answers with an object pointer; POSIX promises that the bits are the function's. */
static void look(const char *name, void *slot)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (found)
		memcpy(slot, &found, sizeof(found));
}

void pre_look_in(const char *library, const char *name, void *slot)
{
	void *handle = pre_real.dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	void *found = handle ? dlsym(handle, name) : NULL;

	if (found)
		memcpy(slot, &found, sizeof(found));
	else
		look(name, slot);
}

/* What is found under that name, if it lies in the library, or program, that this code is part
 * of. */
static void *found_beside(const void *code, void *handle, const char *name)
{
	Dl_info of_code, of_found;
	void *found = dlsym(handle, name);

	return found && dladdr(code, &of_code) && dladdr(found, &of_found) &&
			       of_found.dli_fbase == of_code.dli_fbase
		       ? found
		       : NULL;
}

void *pre_look_here(const char *name)
{
	return found_beside(&pre_real, RTLD_DEFAULT, name);
}

bool pre_is_beside(const void *code, const char *name)
{
	Dl_info of_code;
	void *handle;
	bool is;

	if (!dladdr(code, &of_code))
		return false;
	/* The program itself goes by no name here. */
	handle = pre_real.dlopen(of_code.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	is = found_beside(code, handle ? handle : RTLD_DEFAULT, name) != NULL;
	if (handle)
		(void)dlclose(handle);
	return is;
}

static void look_all(void)
{
#define PRE_LATE(served, ret, name, sys, n, ...)
#define PRE_FD(served, ret, name, sys, n, ...) look(#name, &pre_real.name);
#define PRE_CHECKED(ret, name, of, args, fits, n, ...) look(#name, &pre_real.name);
#include "symbols.def"
}

static void set_up(void)
{
	static struct pulc_sys sys;
	const char *disable = getenv("PULC_DISABLE");

	look_all();
	pre_enabled = !(disable && strcmp(disable, "") != 0 && strcmp(disable, "0") != 0);
	if (!pre_enabled)
		return;
	sys.ppoll = pre_thread_sleep;
	pulc_sys_set(&sys);
	pre_process_start();
}

bool pre_start(void)
{
	int now = UNKNOWN;

	if (atomic_load_explicit(&state, memory_order_acquire) == READY)
		return true;
	if (!atomic_compare_exchange_strong(&state, &now, LOOKING))
		return now == READY;
	set_up();
	atomic_store_explicit(&state, READY, memory_order_release);
	return true;
}

__attribute__((constructor)) static void start(void)
{
	if (pre_start())
		pre_inherit_start();
}
