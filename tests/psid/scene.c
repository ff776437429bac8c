/* What most tests of psid begin and end with; see the header. */
#include "psid/scene.h"

#include <sys/socket.h>

struct daemon psid;
struct fake_client a, b;

void scene_begin(bool system, const char *const settings[])
{
	daemon_start(&psid, system, settings);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, FAKE_SELF);
}

void scene_restart(bool system, const char *const settings[])
{
	daemon_kill(&psid);
	daemon_run(&psid, system, settings);
	fake_close(&a);
	fake_close(&b);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, FAKE_SELF);
}

void scene_close(void)
{
	fake_wait_counts(&psid, 0, 0);
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

void scene_end(void)
{
	fake_close(&a);
	fake_close(&b);
	scene_close();
}

void scene_check_upgrade(uint64_t token)
{
	struct fake_upgrade u;
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, token, &u);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
}

void scene_check_refusal(uid_t uid, Pulc__Wire__Reason reason)
{
	struct fake_client c;

	fake_open(&c, &psid, uid);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_PROCESS);
	fake_expect_refusal(&c, reason);
}
