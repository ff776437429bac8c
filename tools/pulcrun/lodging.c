/*
 * Lodging: how a pulcrun comes to psids of its own on the nodes of an allocation
 * (docs/allocations.md).
 *
 * The scheduler starts an agent on each node. The first that speaks says by which address the nodes
 * see the machine that we are on: there the front psid listens, a member of the cluster that takes
 * no tasks, whom we ask for the job and which has the head keeper. Then all agents are told the
 * front's port and a key, drawn for this run, and their psids come to it. All of them end with the
 * sockets that we hold, that is, with us.
 */
#include "lodging.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "key.h"
#include "library.h"

#define AGENT "../libexec/pulc/agent"
#define SEC_SCHEDULER 120
#define SEC_FRONT 40
#define SIZE_SETTINGS 1024

static int fail(const char *what, int r)
{
	fprintf(stderr, "pulcrun: %s: %s\n", what, strerror(-r));
	return r;
}

/* What agents are told: settings, a line each. where: "NAME=value" of the one that differs. */
static void settings(char *buf, size_t size, const struct allocation *allocation,
		     const uint8_t key[WIRE_SIZE_KEY], const char *where)
{
	size_t n = (size_t)snprintf(buf, size,
				    "PULC_CLUSTER_NAME=%s\nPULC_JOB_SCOPE=no\n"
				    "PULC_LOG_LEVEL=error\n%s\nkey=",
				    allocation->name, where);

	for (size_t i = 0; i < WIRE_SIZE_KEY; i++)
		n += (size_t)snprintf(buf + n, size - n, "%02x", key[i]);
	(void)snprintf(buf + n, size - n, "\n\n");
}

static int start_nodes(struct lodging *lodging, const struct scheduler *scheduler,
		       const struct allocation *allocation, char *agent)
{
	struct command command = { 0 };

	scheduler->command(allocation, &command);
	command_add(&command, agent);
	command_add(&command, scheduler->node_variable);
	command_add(&command, scheduler->launcher_variable);
	return helper_start(&lodging->nodes, command.words);
}

/* The address that an agent has named. */
static int hear_address(struct lodging *lodging, char *buf, size_t size)
{
	uint64_t end = nsec_now() + SEC_SCHEDULER * NSEC_PER_SEC;
	char line[256];
	int r;

	do
		r = helper_hear(&lodging->nodes, end, line, sizeof(line));
	while (r == 0 && strncmp(line, "at ", 3) != 0);
	if (r < 0)
		return r;
	(void)snprintf(buf, size, strchr(line + 3, ':') ? "[%s]" : "%s", line + 3);
	return 0;
}

static int start_front(struct lodging *lodging, const struct allocation *allocation,
		       const uint8_t key[WIRE_SIZE_KEY], char *agent, const char *address)
{
	uint64_t end = nsec_now() + SEC_FRONT * NSEC_PER_SEC;
	char *words[] = { agent, NULL };
	char text[SIZE_SETTINGS], where[400], line[256];
	int r = helper_start(&lodging->front, words);

	(void)snprintf(where, sizeof(where), "PULC_CLUSTER_ADDRESS=%s:0\nPULC_NODE_NAME=%s",
		       address, allocation->name);
	settings(text, sizeof(text), allocation, key, where);
	if (r == 0)
		r = helper_tell(&lodging->front, text);
	explicit_bzero(text, sizeof(text));
	if (r == 0)
		r = helper_hear(&lodging->front, end, line, sizeof(line));
	if (r == 0 && strncmp(line, "ready ", 6) != 0)
		r = -EBADMSG;
	if (r == 0 && setenv("PULC_SOCKET", line + 6, 1) < 0)
		r = -errno;
	return r;
}

static int tell_nodes(struct lodging *lodging, const struct allocation *allocation,
		      const uint8_t key[WIRE_SIZE_KEY])
{
	char text[SIZE_SETTINGS], where[400], seed[128];
	int r = muster_front(seed, sizeof(seed));

	if (r < 0)
		return r;
	(void)snprintf(where, sizeof(where),
		       "PULC_CLUSTER_ADDRESS=0.0.0.0:0\nPULC_CLUSTER_SEEDS=%s", seed);
	settings(text, sizeof(text), allocation, key, where);
	r = helper_tell(&lodging->nodes, text);
	explicit_bzero(text, sizeof(text));
	return r;
}

static int open_all(struct lodging *lodging, const struct scheduler *scheduler,
		    const struct allocation *allocation, const uint8_t key[WIRE_SIZE_KEY])
{
	char agent[PATH_MAX], address[300];
	int r = run_beside(AGENT, agent, sizeof(agent));

	if (r < 0) {
		fprintf(stderr, "pulcrun: no psids can be started in the allocation: " AGENT
				" is not beside pulcrun's folder (is all of PULC installed?)\n");
		return r;
	}
	r = start_nodes(lodging, scheduler, allocation, agent);
	if (r == 0)
		r = hear_address(lodging, address, sizeof(address));
	if (r < 0)
		return fail("the scheduler has not started our agents", r);
	r = start_front(lodging, allocation, key, agent, address);
	if (r == 0)
		r = tell_nodes(lodging, allocation, key);
	if (r < 0)
		return fail("a psid for this allocation can't be started", r);
	r = muster_nodes(&allocation->nodes, &lodging->nodes);
	return r < 0 && r != -ETIMEDOUT ? fail("the nodes of the allocation can't be used", r) : r;
}

int lodging_open(struct lodging *lodging, const struct scheduler *scheduler,
		 const struct allocation *allocation)
{
	uint8_t key[WIRE_SIZE_KEY];
	int r = wire_key_draw(key);

	lodging->front.fd = lodging->nodes.fd = -EBADF;
	if (r == 0)
		r = open_all(lodging, scheduler, allocation, key);
	explicit_bzero(key, sizeof(key));
	if (r < 0)
		lodging_close(lodging);
	return r;
}

void lodging_close(struct lodging *lodging)
{
	helper_hang_up(&lodging->nodes);
	helper_hang_up(&lodging->front);
	helper_wait(&lodging->nodes);
	helper_wait(&lodging->front);
}
