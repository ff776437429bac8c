/*
 * What a process still owes when it ends a stream, handed to psid (psid/deliver.c).
 *
 * The conversation is one of its own (psid_talk.c): the channel would need the client lock, and a
 * forked child may have none yet. No answer is waited for. From before the message is sent until
 * psid has delivered everything, the socket resets its connection when its last descriptor goes,
 * so whatever becomes of the message the receiver gets all bytes or an error.
 */
#include "deliver.h"

#include "cleanup.h"
#include "client.h"
#include "psid_talk.h"

static bool send_message(int fd, int memory, const Pulc__Wire__Deliver *deliver)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	CLEANUP_FD int psid = -EBADF;
	const int fds[] = { fd, memory };

	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_DELIVER;
	msg.deliver = (Pulc__Wire__Deliver *)deliver;
	return psid_talk_open(PULC__WIRE__ROLE__ROLE_CONTROL, &psid) == 0 &&
	       wire_send_from_client(psid, &msg, fds, 2) == 0;
}

static int set_linger(int fd, const struct linger *linger)
{
	return (int)raw_syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER, linger, sizeof(*linger));
}

bool deliver_rest(int fd, int memory, uint64_t size, bool shut)
{
	Pulc__Wire__Deliver deliver = PULC__WIRE__DELIVER__INIT;
	struct linger before = { 0, 0 }, by_reset = { .l_onoff = 1 };
	socklen_t len = sizeof(before);

	if (client_is_confined() || raw_getsockopt(fd, SOL_SOCKET, SO_LINGER, &before, &len) < 0)
		return false;
	deliver.size = size;
	deliver.shut = shut;
	deliver.lingers = before.l_onoff;
	deliver.sec_linger = (uint32_t)before.l_linger;
	(void)set_linger(fd, &by_reset);
	if (send_message(fd, memory, &deliver))
		return true;
	(void)set_linger(fd, &before);
	return false;
}
