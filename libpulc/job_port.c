/*
 * How parent and child find each other's ports.
 *
 * Downwards: who spawns a job may name one of its ports; the keeper puts its number and its node's
 * into the tasks' environment. Upwards, and between any two tasks of a user: a process tells psid
 * which of its ports its task is found by, and whoever looks the task up is told. A child whose
 * parent is a task asks for its parent's port in this way if it was given none.
 *
 * A port of another node has that node's number in its address, as everywhere; on its own node the
 * same port has 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"
#include "pulc/job.h"

static int number(const char *text, char end, uint32_t *ret_number)
{
	unsigned long n;
	char *rest;

	if (!text || *text < '0' || *text > '9')
		return -ESRCH;
	n = strtoul(text, &rest, 10);
	if (*rest != end || n > UINT32_MAX)
		return -ESRCH;
	*ret_number = (uint32_t)n;
	return 0;
}

static int announce(uint32_t port, const char *job, uint32_t rank)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__PortOfTask of_task = PULC__WIRE__PORT_OF_TASK__INIT;
	struct native_reply reply;
	int e;

	of_task.request = native_request();
	of_task.port = port;
	of_task.job = (char *)job;
	of_task.rank = rank;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_PORT_OF_TASK;
	msg.port_of_task = &of_task;
	e = native_ask(&msg, of_task.request, &reply);
	return e == -ENOENT ? -ESRCH : e;
}

PULC_EXPORT int pulc_port_announce(pulc_port *p)
{
	const char *job = getenv("PULC_JOB");
	uint32_t rank;
	int e = job ? number(getenv("PULC_RANK"), '\0', &rank) : -ESRCH;

	if (e < 0)
		return e;
	e = native_enter(p);
	if (e < 0)
		return e;
	e = announce(p->number, job, rank);
	native_leave(p);
	return e;
}

/* "65536@n1" */
static int parse(const char *text, struct pulc_address *ret_address)
{
	const char *here = getenv("PULC_NODE"), *at = strchr(text, '@');
	struct pulc_address address = { 0 };

	if (!at || number(text, '@', &address.port) < 0)
		return -ENOENT;
	if ((!here || strcmp(here, at + 1) != 0) &&
	    number(getenv("PULC_PARENT_NODE"), '\0', &address.node) < 0)
		return -ENOENT;
	*ret_address = address;
	return 0;
}

static int look_up(const char *task, struct pulc_address *ret_address)
{
	struct pulc_task *tasks;
	size_t n;
	int e = pulc_lookup(task, &tasks, &n);

	if (e < 0)
		return e == -EINVAL ? -ENOENT : e;
	e = n == 1 && tasks[0].port.port ? 0 : -ENOENT;
	if (e == 0)
		*ret_address = tasks[0].port;
	free(tasks);
	return e;
}

PULC_EXPORT int pulc_parent(struct pulc_address *ret_address)
{
	const char *port = getenv("PULC_PARENT_PORT"), *task = getenv("PULC_PARENT");

	if (port)
		return parse(port, ret_address);
	return task ? look_up(task, ret_address) : -ENOENT;
}
