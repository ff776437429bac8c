/*
 * A user with many clients, each of which has as many ports as it may. What he makes psid remember
 * has an end.
 */
#include <unistd.h>

#include "macros.h"
#include "psid/scene.h"

#define UID_HOSTILE 65532u
#define N_PORTS_CLIENT 1024u
#define N_PORTS_USER (64 * N_PORTS_CLIENT)

static struct fake_client crowd[70];

static Pulc__Wire__PortError open_one(struct fake_client *c, uint32_t number)
{
	Pulc__Wire__PortOpen open = PULC__WIRE__PORT_OPEN__INIT;
	FROM_CLIENT(msg, PORT_OPEN, port_open) = &open;

	open.kind = PULC__WIRE__PORT_KIND__PORT_D;
	open.number = number;
	fake_send(c, &msg, NULL, 0);
	return EXPECT(c, PORT_REPLY)->port_reply->error;
}

static unsigned open_many(struct fake_client *c)
{
	unsigned n = 0;

	while (open_one(c, 0) == PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE)
		n++;
	return n;
}

static void close_one(struct fake_client *c, uint32_t port)
{
	Pulc__Wire__PortClose close = PULC__WIRE__PORT_CLOSE__INIT;
	FROM_CLIENT(msg, PORT_CLOSE, port_close) = &close;

	close.port = port;
	fake_send(c, &msg, NULL, 0);
}

static void gather(unsigned n, uid_t uid)
{
	for (unsigned i = 0; i < n; i++)
		fake_attach(&crowd[i], &psid, uid);
}

static void disperse(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fake_close(&crowd[i]);
}

static void a_user_has_so_many(void)
{
	unsigned n = 0;

	if (geteuid() != 0) {
		test_skip("needs root to have a client of another user");
		return;
	}
	scene_begin(true, NULL);
	gather(ARRAY_SIZE(crowd), UID_HOSTILE);
	REQUIRE_INT(open_one(&crowd[0], 7), ==, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++)
		n += open_many(&crowd[i]);
	CHECK_INT(n, ==, N_PORTS_USER - 1);
	CHECK_INT(open_one(&a, 0), ==, 0);
	/* One that is given back, and those of a client that is gone. */
	close_one(&crowd[0], 7);
	CHECK_INT(open_one(&crowd[69], 0), ==, 0);
	CHECK_INT(open_one(&crowd[69], 0), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT);
	fake_close(&crowd[1]);
	fake_wait_counts(&psid, ARRAY_SIZE(crowd) + 1, 0);
	fake_attach(&crowd[1], &psid, UID_HOSTILE);
	CHECK_INT(open_many(&crowd[69]) + open_many(&crowd[1]), ==, N_PORTS_CLIENT);
	disperse(ARRAY_SIZE(crowd));
	scene_end();
}

static const struct test tests[] = {
	TEST(a_user_has_so_many),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
