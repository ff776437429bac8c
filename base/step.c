/*
 * Killed at a named point (step.h): only in builds for tests.
 *
 * The test and all processes that take part map one page. It says who is to be killed, where, and
 * how many times he may come past before; and counts who comes past what. A process that the test
 * has forked has the page from it; one that was started by exec finds its name in PULC_STEPS.
 */
#include "step.h"

#ifdef PULC_STEPS

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "macros.h"
#include "rawsys.h"
#include "step_page.h"

struct step_page *step_page;

static __attribute__((constructor)) void start(void)
{
	const char *path = getenv("PULC_STEPS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, sizeof(*step_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		step_page = p;
	(void)close(fd);
}

void step_reached(enum step step)
{
	struct step_page *page = step_page;
	uint32_t self;

	if (LIKELY(!page))
		return;
	self = (uint32_t)raw_getpid();
	if (atomic_load(&page->victim) != self) {
		(void)atomic_fetch_add(&page->n_by_others[step], 1);
		return;
	}
	if (atomic_fetch_add(&page->n_by_victim[step], 1) != atomic_load(&page->n_before) ||
	    atomic_load(&page->step) != (uint32_t)step)
		return;
	atomic_store(&page->is_killed, 1);
	(void)raw_syscall(SYS_kill, self, SIGKILL, 0, 0, 0, 0);
}

#endif
