/*
 * Allocations: what a scheduler's variables say, and what pulcrun's options become by that.
 */
#include "pulcrun/allocation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

static const char *counts(const char *text, size_t n)
{
	static char buf[256];
	uint32_t list[8] = { 0 };
	size_t len = 0;

	if (allocation_counts(text, list, n) < 0)
		return "wrong";
	buf[0] = '\0';
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(buf + len, sizeof(buf) - len, "%s%u", i ? " " : "",
					list[i]);
	return buf;
}

static void counts_of_nodes(void)
{
	CHECK_STR(counts("4", 1), "4");
	CHECK_STR(counts("2(x3),1", 4), "2 2 2 1");
	CHECK_STR(counts("1,72(x2),1(x1)", 4), "1 72 72 1");
}

static void wrong_counts(void)
{
	static const char *const wrong[] = { "",
					     "x",
					     "1,2",
					     "1(x2)",
					     "1(x0)",
					     "1(x3",
					     "1(x)",
					     "-1(x3)",
					     "1(x4)",
					     "1 1 1",
					     "1(x3)1",
					     ",1(x3)",
					     "1(x18446744073709551615)" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK_STR(counts(wrong[i], 3), "wrong");
}

static void set_slurm(const char *nodes, const char *cpus, const char *tasks)
{
	(void)setenv("SLURM_JOB_ID", "4711", 1);
	(void)setenv("SLURM_JOB_NODELIST", nodes, 1);
	(void)setenv("SLURM_JOB_CPUS_PER_NODE", cpus, 1);
	(void)setenv("SLURM_TASKS_PER_NODE", tasks, 1);
	(void)unsetenv("SLURM_CPUS_PER_TASK");
	(void)unsetenv("PULC_JOB");
}

/* The options in an allocation of n1 with four processors and two tasks, n2 and n3 with one and
 * one: "tasks: host:slots ...". */
static const char *applied(struct run_options *o)
{
	static char buf[256];
	struct allocation a = { 0 };
	size_t n;

	set_slurm("n[1-3]", "4,1(x2)", "2,1(x2)");
	CHECK_INT(allocation_read(&scheduler_slurm, &a), ==, 0);
	CHECK_STR(a.name, "slurm.4711");
	CHECK_INT(allocation_apply(&a, o), ==, 0);
	n = (size_t)snprintf(buf, sizeof(buf), "%u:", o->n_tasks);
	for (size_t i = 0; i < o->hosts.n; i++)
		n += (size_t)snprintf(buf + n, sizeof(buf) - n, " %s:%u", o->hosts.items[i].name,
				      o->hosts.items[i].slots);
	hosts_deinit(&o->hosts);
	allocation_deinit(&a);
	return buf;
}

static void options_that_say_nothing(void)
{
	struct run_options o = { .n_tasks = 1 };

	CHECK_STR(applied(&o), "4: n1:2 n2:1 n3:1");
	CHECK_INT(o.strategy, ==, PULC__WIRE__STRATEGY__STRATEGY_NODE);
}

static void options_win(void)
{
	struct run_options tasks = { .n_tasks = 3, .tasks_chosen = true };
	struct run_options cpus = { .n_tasks = 1, .tasks_chosen = true, .cpus_per_task = 2 };
	struct run_options more = { .n_tasks = 9, .tasks_chosen = true, .oversubscribe = true };
	struct run_options named = { .n_tasks = 1 };

	CHECK_STR(applied(&tasks), "3: n1:4 n2:1 n3:1");
	CHECK_INT(tasks.strategy, ==, PULC__WIRE__STRATEGY__STRATEGY_LEAST_LOADED);
	CHECK_STR(applied(&cpus), "1: n1:2");
	CHECK_STR(applied(&more), "9: n1:0 n2:0 n3:0");
	CHECK_INT(hosts_parse(&named.hosts, "n1,n3:1", 7), ==, 0);
	CHECK_STR(applied(&named), "3: n1:4 n3:1");
}

static void a_node_of_others(void)
{
	struct allocation a = { 0 };
	struct run_options o = { .n_tasks = 1 };

	set_slurm("n[1-3]", "1(x3)", "1(x3)");
	CHECK_INT(allocation_read(&scheduler_slurm, &a), ==, 0);
	CHECK_INT(hosts_parse(&o.hosts, "n4", 2), ==, 0);
	CHECK_INT(allocation_apply(&a, &o), ==, -EINVAL);
	hosts_deinit(&o.hosts);
	allocation_deinit(&a);
}

static void variables_that_do_not_fit(void)
{
	struct allocation a = { 0 };

	set_slurm("n[1-3]", "1(x2)", "1(x3)");
	CHECK_INT(allocation_read(&scheduler_slurm, &a), ==, -EBADMSG);
	allocation_deinit(&a);
	set_slurm("n[1-", "1", "1");
	CHECK_INT(allocation_read(&scheduler_slurm, &a), ==, -EBADMSG);
	allocation_deinit(&a);
	set_slurm("", "", "");
	CHECK_INT(allocation_read(&scheduler_slurm, &a), ==, -EBADMSG);
	allocation_deinit(&a);
}

static void which_one(void)
{
	struct run_options o = { 0 };
	const struct scheduler *found;

	set_slurm("n1", "1", "1");
	CHECK_INT(allocation_find(&o, &found), ==, 0);
	CHECK(found == &scheduler_slurm);
	o.scheduler = "none";
	CHECK_INT(allocation_find(&o, &found), ==, 0);
	CHECK(!found);
	o.scheduler = "slurm";
	CHECK_INT(allocation_find(&o, &found), ==, 0);
	CHECK(found == &scheduler_slurm);
	(void)setenv("PULC_JOB", "1@n1", 1); /* a task */
	CHECK_INT(allocation_find(&o, &found), ==, -EINVAL);
	o.scheduler = NULL;
	CHECK_INT(allocation_find(&o, &found), ==, 0);
	CHECK(!found);
	(void)unsetenv("PULC_JOB");
	(void)unsetenv("SLURM_JOB_ID");
	CHECK_INT(allocation_find(&o, &found), ==, 0);
	CHECK(!found);
}

static const struct test tests[] = {
	TEST(counts_of_nodes), TEST(wrong_counts),     TEST(options_that_say_nothing),
	TEST(options_win),     TEST(a_node_of_others), TEST(variables_that_do_not_fit),
	TEST(which_one),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
