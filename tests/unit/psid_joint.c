/*
 * psid/joint.c: what another node's psid is told of the ports of a client of ours, also when there
 * is no room to tell it at once.
 */
#include "cluster_bed.h"
#include "joint.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"

static struct psid psid;
static struct psid_client client;
static struct psid_joint joint;
static struct psid_port port;
static unsigned n_told;

static int on_ports_of(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	(void)data, (void)from, (void)life;
	CHECK_INT(msg->ports_of->client, ==, 5);
	CHECK_INT(msg->ports_of->n_opened, ==, 1);
	CHECK_INT(msg->ports_of->opened[0], ==, 80);
	n_told++;
	return 0;
}

/* A client of node 0 is joined with one of node 1, and has opened a port. */
static void join(void)
{
	psid = (struct psid){ .cluster = nodes[0] };
	client = (struct psid_client){ .psid = &psid, .id = 3, .fd = -EBADF };
	port = (struct psid_port){ .client = &client, .number = 80 };
	joint = (struct psid_joint){ .client = &client,
				     .node = nodes[1]->self->id,
				     .life = nodes[1]->self->life,
				     .other = 5,
				     .is_joined = true,
				     .fd = -EBADF };
	n_told = 0;
	REQUIRE_INT(uv_loop_init(&psid.loop), ==, 0);
	REQUIRE_INT(psid_remote_start(&psid), ==, 0);
	psid_peer_on(nodes[1], PULC__PEER__MESSAGE__BODY_PORTS_OF, on_ports_of, NULL);
	LIST_INIT(&client.ports);
	LIST_INIT(&client.joints);
	LIST_INSERT_HEAD(&client.ports, &port, by_client);
	LIST_INSERT_HEAD(&client.joints, &joint, by_client);
	LIST_INSERT_HEAD(&psid.remote->joints, &joint, all);
}

static void part(void)
{
	psid_remote_close(&psid);
	(void)uv_run(&psid.loop, UV_RUN_DEFAULT);
	REQUIRE_INT(uv_loop_close(&psid.loop), ==, 0);
	psid_remote_free(&psid);
	tear_down();
}

static void a_port_is_told_at_once(void)
{
	set_up(2);
	join();
	psid_remote_tell(&client, 80, true);
	RUN_UNTIL(n_told == 1);
	part();
}

static void or_when_there_is_room_again(void)
{
	char *text = malloc((1 << 20) + 1);
	unsigned n = 0;
	int r;

	REQUIRE(text != NULL);
	set_up(2);
	join();
	memset(text, 'x', 1 << 20);
	text[1 << 20] = '\0';
	while ((r = say(0, 1, n, text)) == 0)
		n++;
	while (*text && (r = say(0, 1, n, text + (1 << 20) - 8)) == 0)
		n++;
	CHECK_INT(r, ==, -ENOBUFS);
	psid_remote_tell(&client, 80, true);
	RUN_UNTIL(n_told == 1);
	CHECK(!joint.is_untold);
	free(text);
	part();
}

static const struct test tests[] = {
	TEST(a_port_is_told_at_once),
	TEST(or_when_there_is_room_again),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
