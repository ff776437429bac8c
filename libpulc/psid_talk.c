/*
 * Conversations with psid for the calls of pulc/job.h. They have nothing to do with the channel
 * that carries upgrades (client.c): each is a socket of its own, opened for one question, so that
 * they may come from any thread and wait for their answer.
 */
#include "psid_talk.h"

#include <errno.h>
#include <stdio.h>

#include "cleanup.h"
#include "clock.h"
#include "pulc/job.h"
#include "talk.h"

#define SEC_PATIENCE 10
#define N_TRIES 250

int psid_talk_open(Pulc__Wire__Role role, int *ret_fd)
{
	CLEANUP_FD int fd = -EBADF;
	int r = wire_talk_call(N_TRIES, NULL, 0, &fd);

	if (r == 0)
		r = wire_talk_hello(fd, role, "libpulc");
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int psid_talk_receive(int fd, char *why, Pulc__Wire__ToClient **ret_msg)
{
	uint64_t nsec_end = nsec_now() + SEC_PATIENCE * NSEC_PER_SEC;
	Pulc__Wire__ToClient *msg;
	int r;

	while ((r = wire_talk_receive(fd, nsec_end, &msg)) == 0 &&
	       msg->body_case == PULC__WIRE__TO_CLIENT__BODY_WELCOME)
		pulc__wire__to_client__free_unpacked(msg, NULL);
	if (r < 0)
		return r;
	if (msg->body_case == PULC__WIRE__TO_CLIENT__BODY_REFUSE) {
		if (why)
			(void)snprintf(why, PULC_SIZE_WHY, "%s", msg->refuse->text);
		pulc__wire__to_client__free_unpacked(msg, NULL);
		return -ECONNREFUSED;
	}
	*ret_msg = msg;
	return 0;
}
