/* What a program does with pulc/job.h. A psid is there; spawn.sh has started it. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "pulc/job.h"

#define N_TRIES 600 /* of 50 ms */

struct heard {
	char text[4][256];
	size_t n[4];
	size_t n_all;
};

static void hear(void *data, unsigned rank, int stream, const void *bytes, size_t len)
{
	struct heard *heard = data;

	CHECK_INT(stream, ==, 1);
	REQUIRE_INT(rank, <, 4);
	heard->n_all += len;
	if (heard->n[rank] + len >= sizeof(heard->text[rank]))
		return;
	memcpy(heard->text[rank] + heard->n[rank], bytes, len);
	heard->n[rank] += len;
}

static pulc_job *spawn(const char *script, struct pulc_spawn *how)
{
	char *const arguments[] = { "sh", "-c", (char *)script, NULL };
	pulc_job *job = NULL;
	char why[PULC_SIZE_WHY] = "";

	how->oversubscribe = true;
	how->why = why;
	REQUIRE_INT(pulc_spawn(arguments, how, &job), ==, 0);
	CHECK_STR(why, "");
	return job;
}

static int code_of(const pulc_job *job, unsigned rank)
{
	struct pulc_end end = { 0 };

	CHECK_INT(pulc_job_end_of(job, rank, &end), ==, 0);
	return end.has_ended ? end.code : -1;
}

static void output_and_ends_come(void)
{
	struct heard heard = { 0 };
	struct pulc_spawn how = {
		.n_tasks = 4, .output = hear, .data = &heard, .keep_going = true
	};
	pulc_job *job = spawn("echo $PULC_RANK of $PULC_SIZE of $PULC_JOB; exit $PULC_RANK", &how);
	struct pulc_end end;
	char text[256];

	CHECK_INT(code_of(job, 0), ==, -1);
	CHECK(strchr(pulc_job_name(job), '@') != NULL);
	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(pulc_wait(job, 0), ==, 1);
	for (unsigned i = 0; i < 4; i++) {
		CHECK_INT(code_of(job, i), ==, i);
		(void)snprintf(text, sizeof(text), "%u of 4 of %s\n", i, pulc_job_name(job));
		CHECK_STR(heard.text[i], text);
	}
	CHECK_INT(pulc_job_end_of(job, 4, &end), ==, -EINVAL);
	pulc_job_free(job);
}

static void much_output_is_complete(void)
{
	struct heard heard = { 0 };
	struct pulc_spawn how = { .n_tasks = 3, .output = hear, .data = &heard };
	pulc_job *job = spawn("head -c 5000000 /dev/zero", &how);

	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(heard.n_all, ==, 15000000);
	pulc_job_free(job);
}

static void the_first_failure_ends_all(void)
{
	struct pulc_spawn how = { .n_tasks = 2 };
	pulc_job *job = spawn("[ $PULC_RANK = 0 ] || exit 3; exec sleep 1000", &how);

	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(code_of(job, 1), ==, 3);
	CHECK_INT(code_of(job, 0), ==, 128 + SIGKILL);
	pulc_job_free(job);
}

static void what_is_not_there_is_said(void)
{
	char *const arguments[] = { "/nonexistent/program", NULL };
	const struct pulc_place nowhere = { .node = "nowhere-at-all" };
	char why[PULC_SIZE_WHY] = "";
	struct pulc_spawn how = { .places = &nowhere, .n_places = 1, .why = why };
	pulc_job *job = NULL;

	REQUIRE_INT(pulc_spawn(arguments, NULL, &job), ==, 0);
	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(code_of(job, 0), ==, 127);
	pulc_job_free(job);
	job = NULL;
	CHECK_INT(pulc_spawn(arguments, &how, &job), ==, -ECONNREFUSED);
	CHECK(strstr(why, "nowhere-at-all") != NULL);
	CHECK(job == NULL);
	CHECK_INT(pulc_spawn(NULL, NULL, &job), ==, -EINVAL);
	pulc_job_free(NULL);
}

/* The tasks that run and have a process, once there are so many. */
static size_t await_tasks(const char *name, size_t n_wanted, struct pulc_task **ret_tasks)
{
	static const struct timespec pause = { .tv_nsec = 50000000 };
	struct pulc_task *tasks = NULL;
	size_t n = 0, n_running = n_wanted + 1;

	for (int i = 0; i < N_TRIES && n_running != n_wanted; i++) {
		free(tasks);
		tasks = NULL;
		REQUIRE_INT(pulc_lookup(name, &tasks, &n), ==, 0);
		n_running = 0;
		for (size_t k = 0; k < n; k++)
			n_running += tasks[k].pid > 0 && !tasks[k].end.has_ended;
		if (n_running != n_wanted)
			(void)nanosleep(&pause, NULL);
	}
	*ret_tasks = tasks;
	return n_running;
}

static void names_serve_from_anywhere(void)
{
	struct pulc_spawn how = { .n_tasks = 2, .keep_going = true };
	pulc_job *job = spawn("exec sleep 1000", &how);
	struct pulc_task *tasks, *one;
	size_t n;

	REQUIRE_INT(await_tasks(pulc_job_name(job), 2, &tasks), ==, 2);
	CHECK_INT(tasks[1].rank, ==, 1);
	CHECK_INT(kill(tasks[1].pid, 0), ==, 0);
	REQUIRE_INT(pulc_lookup(tasks[1].name, &one, &n), ==, 0);
	CHECK_INT(n, ==, 1);
	CHECK_INT(one[0].pid, ==, tasks[1].pid);
	free(one);
	CHECK_INT(pulc_signal(tasks[1].name, SIGUSR1), ==, 0);
	while (code_of(job, 1) < 0 && pulc_wait(job, 1000) == 0)
		;
	CHECK_INT(code_of(job, 1), ==, 128 + SIGUSR1);
	CHECK_INT(code_of(job, 0), ==, -1);
	CHECK_INT(pulc_kill(tasks[0].name), ==, 0);
	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(code_of(job, 0), ==, 128 + SIGKILL);
	free(tasks);
	pulc_job_free(job);
}

static void a_job_is_killed_by_name(void)
{
	struct pulc_spawn how = { .n_tasks = 2, .keep_going = true };
	pulc_job *job = spawn("trap '' TERM; sleep 1000 & wait", &how);

	CHECK_INT(pulc_kill(pulc_job_name(job)), ==, 0);
	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(pulc_kill("77777@nowhere-at-all"), ==, -ESRCH);
	CHECK_INT(pulc_kill("x"), ==, -EINVAL);
	CHECK_INT(pulc_signal(pulc_job_name(job), 0), ==, -EINVAL);
	pulc_job_free(job);
}

static void freeing_it_ends_it(void)
{
	struct pulc_spawn how = { .n_tasks = 2 };
	pulc_job *job = spawn("exec sleep 1000", &how);
	char name[PULC_SIZE_JOB_NAME];
	struct pulc_task *tasks;

	(void)strcpy(name, pulc_job_name(job));
	CHECK_INT(await_tasks(name, 2, &tasks), ==, 2);
	free(tasks);
	pulc_job_free(job);
	CHECK_INT(await_tasks(name, 0, &tasks), ==, 0);
	free(tasks);
}

/* This program, as a task, runs a test of its own. */
static void a_task_spawns(void)
{
	struct heard heard = { 0 };
	struct pulc_spawn how = { .output = hear, .data = &heard };
	char self[PATH_MAX] = "";
	char *const arguments[] = { self, "output_and_ends_come", NULL };
	pulc_job *job = NULL;

	REQUIRE(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	REQUIRE_INT(pulc_spawn(arguments, &how, &job), ==, 0);
	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(code_of(job, 0), ==, 0);
	CHECK(strstr(heard.text[0], "ok spawn.output_and_ends_come") != NULL);
	pulc_job_free(job);
}

static const struct test tests[] = {
	TEST(output_and_ends_come),	  TEST(much_output_is_complete),
	TEST(the_first_failure_ends_all), TEST(what_is_not_there_is_said),
	TEST(names_serve_from_anywhere),  TEST(a_job_is_killed_by_name),
	TEST(freeing_it_ends_it),	  TEST(a_task_spawns),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
