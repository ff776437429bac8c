/*
 * Who may come in. At accept: which process and user is it, is the user allowed, are there too many
 * sockets of it already. At Hello: how many processes may there be, of this user and in all; then a
 * number, a board area and some credit, and Welcome.
 */
#include "admit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bells.h"
#include "cleanup.h"
#include "lifecycle.h"
#include "operator.h"
#include "psid.h"
#include "reaper.h"
#include "remote.h"
#include "user.h"
#include "utf8.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Who is at the other end, and a descriptor that tells when it exits. */
int psid_identify(int fd, struct ucred *ret_cred, int *ret_pidfd)
{
	socklen_t len = sizeof(*ret_cred);
	char byte;
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_cred, &len) < 0)
		return -errno;
	len = sizeof(pidfd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0) {
		*ret_pidfd = pidfd;
		return 0;
	}
	if (errno != ENOPROTOOPT)
		return -errno;
	/* A kernel before 6.5. If the peer has died, its number may be somebody else's by now, but
	 * then its end of the socket is closed. */
	pidfd = (int)syscall(SYS_pidfd_open, ret_cred->pid, 0);
	if (pidfd < 0)
		return -errno;
	if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
		(void)close_own(pidfd);
		return -ESRCH;
	}
	*ret_pidfd = pidfd;
	return 0;
}

/* Those who take their time to leave keep descriptors of ours, too. */
static void refuse_at_once(struct psid_client *client)
{
	psid_client_refuse(client, PULC__WIRE__REASON__REASON_DESCRIPTORS,
			   "too many descriptors of this user (MaxDescriptorsPerUser)");
	psid_doom(client);
}

/* What can be said before it has said anything. */
void psid_admit(struct psid_client *client)
{
	struct psid_user *user = client->user;
	const struct psid_config *config = client->psid->config;

	if (!psid_config_allows(config, user->uid))
		psid_client_refuse(client, PULC__WIRE__REASON__REASON_USER,
				   "this user may not use this psid (AllowUsers)");
	else if (user->n_sockets > config->max_clients_user + PSID_N_CONTROLS_USER)
		psid_client_refuse(client, PULC__WIRE__REASON__REASON_LIMIT_CLIENTS,
				   "too many clients of this user (MaxClientsPerUser)");
	else if (!psid_user_has_descriptors(user, 0))
		refuse_at_once(client);
	else
		psid_deadline_set(&client->psid->hellos, &client->deadline);
}

/* ---- attaching ------------------------------------------------------------------------------- */

/* A client that is gone by now does not get it; what it has sent is heard all the same. */
static void welcome(struct psid_client *client)
{
	const struct psid_config *config = client->psid->config;
	Pulc__Wire__Welcome welcome = PULC__WIRE__WELCOME__INIT;
	PSID_MESSAGE(msg, WELCOME, welcome) = &welcome;

	welcome.version = WIRE_VERSION;
	welcome.client = client->id;
	welcome.credit = client->size_credit;
	welcome.n_calls_before_hint = config->hint_after;
	welcome.psid_version = PULC_VERSION;
	welcome.instance = client->psid->instance;
	welcome.node = psid_remote_self(client->psid);
	(void)psid_client_send(client, &msg, &client->boards_fd, client->boards_fd >= 0 ? 1 : 0);
}

/* Room for one more process of this user, of whatever kind. Returns 0, or the Reason (positive). */
static int check_room(struct psid_client *client)
{
	struct psid *psid = client->psid;
	struct psid_user *user = client->user;

	if (psid->n_processes >= psid->config->max_processes)
		return PULC__WIRE__REASON__REASON_PROCESSES;
	if (user->n_clients >= psid->config->max_clients_user)
		return PULC__WIRE__REASON__REASON_LIMIT_CLIENTS;
	return 0;
}

/* From now on it is one of this node's processes. */
static void take_room(struct psid_client *client, Pulc__Wire__Role role)
{
	client->role = role;
	client->user->n_clients++;
	client->psid->n_processes++;
	psid_lifecycle_busy(client->psid);
}

static int attach_process(struct psid_client *client)
{
	int r = check_room(client);

	if (r == 0)
		r = psid_boards_make(client);
	if (r != 0)
		return r;
	client->size_credit = psid_user_take_credit(client->user,
						    client->psid->config->size_credit);
	take_room(client, PULC__WIRE__ROLE__ROLE_PROCESS);
	return 0;
}

/* Keepers and owners of jobs: processes without connections. */
static int attach_job(struct psid_client *client, Pulc__Wire__Role role)
{
	int r = check_room(client);

	if (r == 0)
		take_room(client, role);
	return r;
}

static int attach_control(struct psid_client *client)
{
	if (client->user->n_controls >= PSID_N_CONTROLS_USER)
		return PULC__WIRE__REASON__REASON_LIMIT_CLIENTS;
	client->user->n_controls++;
	psid_operator_look(client);
	return 0;
}

int psid_client_attach(struct psid_client *client, const Pulc__Wire__Hello *hello)
{
	int r = 0;

	(void)wire_utf8_plain(hello->program, client->program, sizeof(client->program));
	if (hello->role == PULC__WIRE__ROLE__ROLE_PROCESS)
		r = attach_process(client);
	else if (hello->role == PULC__WIRE__ROLE__ROLE_CONTROL)
		r = attach_control(client);
	else
		r = attach_job(client, hello->role);
	if (r != 0)
		return r;
	client->counted = true;
	client->state = PSID_CLIENT_ATTACHED;
	psid_deadline_clear(&client->psid->hellos, &client->deadline);
	welcome(client);
	return 0;
}
