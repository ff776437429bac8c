/* The page that all processes of a scene map is a file, because a psid is started by exec. */
#include "steps/walk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "macros.h"

static const char *const names[] = {
#define STEP_NAME(name) #name,
	STEPS(STEP_NAME)
#undef STEP_NAME
};

static bool reached[N_STEPS];
static char path[64];

static void begin(void)
{
	int fd;

	(void)snprintf(path, sizeof(path), "/tmp/pulc-steps.XXXXXX");
	fd = mkstemp(path);
	REQUIRE(fd >= 0 && ftruncate(fd, sizeof(*step_page)) == 0);
	step_page = mmap(NULL, sizeof(*step_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(step_page != MAP_FAILED);
	(void)close(fd);
	(void)setenv("PULC_STEPS", path, 1);
}

static void run(void (*run_scene)(void), unsigned step, unsigned n_before)
{
	*step_page = (struct step_page){ .step = step, .n_before = n_before };
	run_scene();
}

/* At the first time that it comes past, and at the last. */
static void kill_at(const char *who, void (*run_scene)(void), unsigned step, unsigned n_times)
{
	const unsigned times[] = { 0, n_times - 1 };

	for (unsigned i = 0; i < (n_times > 1 ? 2 : 1); i++) {
		printf("# %s at %s, after %u\n", who, names[step], times[i]);
		(void)fflush(stdout);
		run(run_scene, step, times[i]);
		reached[step] |= step_is_killed();
	}
}

void steps_walk(const char *who, void (*run_scene)(void), unsigned first, unsigned end)
{
	uint32_t n_times[N_STEPS];

	if (!step_page)
		begin();
	run(run_scene, N_STEPS, 0);
	for (unsigned i = 0; i < N_STEPS; i++)
		n_times[i] = step_page->n_by_victim[i];
	for (unsigned i = first; i < end; i++)
		if (n_times[i])
			kill_at(who, run_scene, i, n_times[i]);
}

void steps_end(unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++)
		TEST_HOLDS_(reached[i], false, "nobody was killed at %s", names[i]);
	(void)unsetenv("PULC_STEPS");
	(void)unlink(path);
	(void)munmap(step_page, sizeof(*step_page));
	step_page = NULL;
}

void step_victim(pid_t pid)
{
	atomic_store(&step_page->victim, (uint32_t)pid);
}

bool step_is_killed(void)
{
	return atomic_load(&step_page->is_killed) != 0;
}

static void await(const _Atomic uint32_t *n)
{
	const struct timespec turn = { .tv_nsec = 1000000 };

	while (atomic_load(n) == 0 && !step_is_killed())
		(void)nanosleep(&turn, NULL);
}

void step_await_victim(enum step step)
{
	await(&step_page->n_by_victim[step]);
}

void step_await_others(enum step step)
{
	await(&step_page->n_by_others[step]);
}

bool step_has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	REQUIRE(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0);
	return info.si_pid == pid;
}
