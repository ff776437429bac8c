/*
 * Operators are root, the owner of a psid, and for the system's the members of a group
 * (OperatorGroup). They see everything, and steer: drain, partitions, the log's level, a reload.
 * What would be acting for another user is not theirs: his jobs are ended, and his partitions
 * changed, by himself and by root. Nor is psid's end.
 *
 * Who is a member is what the kernel says of the process that connected, at that moment
 * (SO_PEERGROUPS): so no name service is asked in the loop, and a message claims nothing.
 *
 * The group that counts if nobody names one is made with the package. It is looked for in
 * /etc/group only: where it is not, asking a name service for it could keep psid from starting.
 */
#include "operator.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "psid.h"
#include "user.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

#define DEFAULT_GROUP "pulc:"
#define N_GROUPS_MAX 65536u /* the kernel's */

/* "pulc:x:989:alice,bob" */
static bool parse_line(const char *line, uint32_t *ret_gid)
{
	const char *password = line + strlen(DEFAULT_GROUP), *number;
	unsigned long gid;
	char *end;

	if (strncmp(line, DEFAULT_GROUP, strlen(DEFAULT_GROUP)) != 0)
		return false;
	number = strchr(password, ':');
	if (!number || !isdigit((unsigned char)number[1]))
		return false;
	gid = strtoul(number + 1, &end, 10);
	if (*end != ':' || gid >= PSID_GID_DEFAULT)
		return false;
	*ret_gid = (uint32_t)gid;
	return true;
}

void psid_operators_default(struct psid_config *config)
{
	CLEANUP_FREE char *line = NULL;
	size_t size = 0;
	FILE *file;

	if (config->gid_operators != PSID_GID_DEFAULT)
		return;
	config->gid_operators = PSID_GID_NONE;
	file = config->system ? fopen("/etc/group", "re") : NULL;
	if (!file)
		return;
	while (getline(&line, &size, file) > 0 && !parse_line(line, &config->gid_operators))
		;
	(void)fclose(file);
}

static bool has_group(int fd, gid_t gid)
{
	socklen_t size = N_GROUPS_MAX * sizeof(gid_t);
	CLEANUP_FREE gid_t *groups = malloc(size);

	if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return false;
	for (size_t i = 0; i < size / sizeof(gid_t); i++)
		if (groups[i] == gid)
			return true;
	return false;
}

void psid_operator_look(struct psid_client *client)
{
	gid_t gid = client->psid->config->gid_operators;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (gid == PSID_GID_NONE ||
	    getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return;
	client->in_group = cred.gid == gid || has_group(client->fd, gid);
}

bool psid_is_operator(const struct psid_client *client)
{
	return client->user->uid == 0 || client->user->uid == geteuid() || client->in_group;
}
