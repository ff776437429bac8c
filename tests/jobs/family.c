/*
 * How parent and child find each other's ports. A psid is there; spawn.sh has started it. The tasks
 * are this program as well: `family task NAME`. `family across NODE` is for cluster/jobs.sh: parent
 * and child on two nodes; `family room N` for spawn.sh: N tasks in a reservation.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "pulc/job.h"

#define N_TRIES 600 /* of 50 ms */
#define MSEC_WAIT 60000

static const struct timespec pause_msec = { .tv_nsec = 50000000 };

/* Tasks make no assertions: they end with a status. */
static pulc_job *spawn(const char *task, struct pulc_spawn *how)
{
	static char self[PATH_MAX];
	char *const arguments[] = { self, "task", (char *)task, NULL };
	pulc_job *job = NULL;

	how->oversubscribe = true;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
	    pulc_spawn(arguments, how, &job) < 0)
		exit(94);
	return job;
}

static int code_of(const pulc_job *job, unsigned rank)
{
	struct pulc_end end;

	return pulc_job_end_of(job, rank, &end) == 0 && end.has_ended ? end.code : -1;
}

/* The port of rank 0, once it is as wanted: there, or gone. Returns whether it has become so. */
static bool find_port(const char *job, bool there, struct pulc_address *ret_port)
{
	struct pulc_task *tasks;
	bool is_so = false;
	size_t n;

	for (int i = 0; i < N_TRIES && !is_so; i++) {
		if (i > 0)
			(void)nanosleep(&pause_msec, NULL);
		if (pulc_lookup(job, &tasks, &n) < 0)
			return false;
		if (n > 0)
			*ret_port = tasks[0].port;
		is_so = n > 0 && (tasks[0].port.port != 0) == there;
		free(tasks);
	}
	return is_so;
}

static struct pulc_address await_port(const char *job, bool there)
{
	struct pulc_address port = { 0 };

	CHECK(find_port(job, there, &port));
	return port;
}

/* ---- tasks: what they return is their exit status -------------------------------------------- */

static pulc_port *open_port(void)
{
	pulc_port *port;

	if (pulc_port_open(PULC_D, 0, NULL, &port) < 0)
		exit(99);
	return port;
}

static int receive(pulc_port *port, struct pulc_address *ret_from)
{
	struct pulc_wait wait = { .port = port };
	char byte;

	if (pulc_select(&wait, 1, NULL, 0, MSEC_WAIT) != 1)
		return 93;
	return pulc_receive(port, &byte, 1, ret_from, 0) == 1 ? byte : 98;
}

/* Says its rank to its parent, and ends with the answer. */
static int task_greets(void)
{
	pulc_port *port = open_port();
	const char *text = getenv("PULC_RANK");
	char rank = (char)(text ? atoi(text) : 90);
	struct pulc_address parent;

	if (pulc_parent(&parent) < 0 || pulc_send(port, &parent, &rank, 1, 0) != 1)
		return 97;
	return receive(port, NULL);
}

/* Shows its port, closes it when it is told to, shows another one and ends with what comes
 * there. */
static int task_listens(void)
{
	pulc_port *first = open_port(), *second = open_port();
	struct pulc_address from;

	if (pulc_port_announce(first) < 0 || receive(first, &from) != 1 ||
	    pulc_port_close(first) < 0)
		return 97;
	if (receive(second, NULL) != 2 || pulc_port_announce(second) < 0)
		return 96;
	return receive(second, NULL);
}

/* Spawns a child that is given no port, and ends with what the child has said and how it has
 * ended. */
static int task_is_a_parent(void)
{
	pulc_port *port = open_port();
	struct pulc_spawn how = { 0 };
	struct pulc_address from;
	char answer = 3;
	pulc_job *job;
	int said;

	if (pulc_port_announce(port) < 0)
		return 97;
	job = spawn("greets", &how);
	said = receive(port, &from);
	if (pulc_send(port, &from, &answer, 1, 0) != 1 || pulc_wait(job, -1) != 1)
		return 96;
	return said * 10 + code_of(job, 0);
}

/* Shows its port, tells its parent what is 7, and ends with what comes to the port: for
 * `across`. */
static int task_tells(void)
{
	pulc_port *port = open_port();
	struct pulc_address parent;
	char byte = 7;

	if (pulc_port_announce(port) < 0 || pulc_parent(&parent) < 0)
		return 97;
	(void)printf("%s %s\n", getenv("PULC_NODE"), parent.node == 0 ? "here" : "elsewhere");
	(void)fflush(stdout);
	if (pulc_send(port, &parent, &byte, 1, 0) != 1)
		return 96;
	return receive(port, NULL);
}

static int run_task(const char *name)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} tasks[] = {
		{ "greets", task_greets },
		{ "listens", task_listens },
		{ "is a parent", task_is_a_parent },
		{ "tells", task_tells },
	};

	for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
		if (strcmp(tasks[i].name, name) == 0)
			return tasks[i].run();
	return 100;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void children_find_the_port_they_were_given(void)
{
	pulc_port *port = open_port();
	struct pulc_spawn how = { .n_tasks = 2, .keep_going = true, .port = port };
	pulc_job *job = spawn("greets", &how);

	for (int i = 0; i < 2; i++) {
		struct pulc_address from;
		char answer = (char)(10 + receive(port, &from));

		CHECK_INT(pulc_send(port, &from, &answer, 1, 0), ==, 1);
	}
	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(code_of(job, 0), ==, 10);
	CHECK_INT(code_of(job, 1), ==, 11);
	pulc_job_free(job);
	CHECK_INT(pulc_port_close(port), ==, 0);
}

static void a_childs_port_is_looked_up(void)
{
	pulc_port *port = open_port();
	struct pulc_spawn how = { 0 };
	pulc_job *job = spawn("listens", &how);
	struct pulc_address first = await_port(pulc_job_name(job), true), second;
	char byte = 1;

	CHECK_INT(first.node, ==, 0);
	CHECK_INT(pulc_send(port, &first, &byte, 1, 0), ==, 1);
	(void)await_port(pulc_job_name(job), false);
	/* Numbers are not used again: it opened the second one next. */
	second = (struct pulc_address){ .port = first.port + 1 };
	byte = 2;
	CHECK_INT(pulc_send(port, &second, &byte, 1, 0), ==, 1);
	CHECK_INT(await_port(pulc_job_name(job), true).port, ==, second.port);
	byte = 42;
	CHECK_INT(pulc_send(port, &second, &byte, 1, 0), ==, 1);
	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(code_of(job, 0), ==, 42);
	pulc_job_free(job);
	CHECK_INT(pulc_port_close(port), ==, 0);
}

static void a_task_shows_its_port_to_its_children(void)
{
	struct pulc_spawn how = { 0 };
	pulc_job *job = spawn("is a parent", &how);

	CHECK_INT(pulc_wait(job, -1), ==, 1);
	CHECK_INT(code_of(job, 0), ==, 3); /* rank 0, answered with 3 */
	pulc_job_free(job);
}

static void who_is_no_task_has_no_parent(void)
{
	pulc_port *port = open_port();
	struct pulc_address parent;

	CHECK_INT(pulc_parent(&parent), ==, -ENOENT);
	CHECK_INT(pulc_port_announce(port), ==, -ESRCH);
	REQUIRE_INT(setenv("PULC_JOB", "77777@nowhere-at-all", 1), ==, 0);
	REQUIRE_INT(setenv("PULC_RANK", "0", 1), ==, 0);
	CHECK_INT(pulc_port_announce(port), ==, -ESRCH);
	REQUIRE_INT(setenv("PULC_PARENT", "77777.0@nowhere-at-all", 1), ==, 0);
	CHECK_INT(pulc_parent(&parent), ==, -ENOENT);
	for (size_t i = 0; i < 3; i++)
		CHECK_INT(unsetenv((const char *[]){ "PULC_JOB", "PULC_RANK", "PULC_PARENT" }[i]),
			  ==, 0);
	CHECK_INT(pulc_port_close(port), ==, 0);
}

/* ---- for cluster/jobs.sh --------------------------------------------------------------------- */

static void print(void *data, unsigned rank, int stream, const void *bytes, size_t len)
{
	(void)data;
	(void)rank;
	(void)stream;
	(void)fwrite(bytes, 1, len, stdout);
}

/* What its child there says is as it should be, and the port that it looks up is the one that said
 * it. Prints what it says. */
static int across(const char *node)
{
	const struct pulc_place place = { .node = node };
	pulc_port *port = open_port();
	struct pulc_spawn how = { .places = &place, .n_places = 1, .output = print, .port = port };
	pulc_job *job = spawn("tells", &how);
	struct pulc_address from, found;
	char answer = 42;

	if (receive(port, &from) != 7)
		return 94;
	if (!find_port(pulc_job_name(job), true, &found) || found.node != from.node ||
	    found.port != from.port)
		return 92;
	if (pulc_send(port, &found, &answer, 1, 0) != 1)
		return 91;
	return pulc_wait(job, -1) == 1 ? code_of(job, 0) : 95;
}

/* Says how so many tasks end, or why there are none. */
static int room(const char *n_tasks)
{
	char *const arguments[] = { (char *)"true", NULL };
	char why[PULC_SIZE_WHY] = "";
	struct pulc_spawn how = { .n_tasks = (unsigned)strtoul(n_tasks, NULL, 10), .why = why };
	pulc_job *job;
	int r = pulc_spawn(arguments, &how, &job);

	if (r == 0) {
		r = pulc_wait(job, -1) == 1 ? code_of(job, how.n_tasks - 1) : 95;
		(void)printf("ended %d\n", r);
	} else {
		(void)printf("%s\n", why);
	}
	return 0;
}

static const struct test tests[] = {
	TEST(children_find_the_port_they_were_given),
	TEST(a_childs_port_is_looked_up),
	TEST(a_task_shows_its_port_to_its_children),
	TEST(who_is_no_task_has_no_parent),
};

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "task") == 0)
		return run_task(argv[2]);
	if (argc == 3 && strcmp(argv[1], "across") == 0)
		return across(argv[2]);
	if (argc == 3 && strcmp(argv[1], "room") == 0)
		return room(argv[2]);
	return TESTS_RUN(tests, argc, argv);
}
