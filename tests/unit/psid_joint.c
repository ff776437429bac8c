/*
 * psid/joint.c: what another node's psid is told of the ports of a client of ours, also when there
 * is no room to tell it at once.
 */
#include "channel.h"
#include "cluster_bed.h"
#include "joint.h"
#include "links.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"
#include "user.h"

static struct psid psid;
static struct psid_user user;
static struct psid_client client;
static struct psid_joint joint;
static struct psid_port port;
static unsigned n_told, n_asked;

static int on_ports_of(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
{
	(void)data, (void)from, (void)life;
	CHECK_INT(msg->ports_of->client, ==, 5);
	if (msg->ports_of->again) {
		n_asked++;
		return 0;
	}
	CHECK_INT(msg->ports_of->n_opened, ==, 1);
	CHECK_INT(msg->ports_of->opened[0], ==, 80);
	n_told++;
	return 0;
}

/* A client of node 0 is joined with one of node 1, and has opened a port. */
static void join(void)
{
	psid = (struct psid){ .cluster = nodes[0], .config = &configs[0] };
	client = (struct psid_client){ .psid = &psid, .user = &user, .id = 3, .fd = -EBADF };
	port = (struct psid_port){ .client = &client, .number = 80 };
	joint = (struct psid_joint){ .client = &client,
				     .node = nodes[1]->self->id,
				     .life = nodes[1]->self->life,
				     .other = 5,
				     .is_joined = true,
				     .fd = -EBADF };
	user = (struct psid_user){ .psid = &psid, .n_refs = 1 };
	TAILQ_INIT(&user.closings);
	n_told = n_asked = 0;
	REQUIRE_INT(uv_loop_init(&psid.loop), ==, 0);
	REQUIRE_INT(psid_closer_start(&psid.closer, &psid.loop), ==, 0);
	REQUIRE_INT(psid_remote_start(&psid), ==, 0);
	psid_peer_on(nodes[1], PULC__PEER__MESSAGE__BODY_PORTS_OF, on_ports_of, NULL);
	psid_outbox_init(&client.outbox, NULL);
	LIST_INIT(&client.ports);
	LIST_INIT(&client.joints);
	LIST_INSERT_HEAD(&client.ports, &port, by_client);
	LIST_INSERT_HEAD(&client.joints, &joint, by_client);
	LIST_INSERT_HEAD(&psid.remote->joints, &joint, all);
}

static void part(void)
{
	while (psid_closer_pending(&psid.closer) > 0)
		(void)uv_run(&psid.loop, UV_RUN_ONCE);
	REQUIRE(psid_closer_stop(&psid.closer));
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

/* More is not taken for node 1. */
static void fill(void)
{
	char *text = malloc((1 << 20) + 1);
	unsigned n = 0;
	int r;

	REQUIRE(text != NULL);
	memset(text, 'x', 1 << 20);
	text[1 << 20] = '\0';
	while ((r = say(0, 1, n, text)) == 0)
		n++;
	CHECK_INT(r, ==, -ENOBUFS);
	while ((r = say(0, 1, n, text + (1 << 20) - 8)) == 0)
		n++;
	CHECK_INT(r, ==, -ENOBUFS);
	free(text);
}

static void or_when_there_is_room_again(void)
{
	set_up(2);
	join();
	fill();
	psid_remote_tell(&client, 80, true);
	RUN_UNTIL(n_told == 1);
	CHECK(!joint.is_untold);
	part();
}

static bool is_told_by_turns_of_psid(void)
{
	(void)uv_run(&psid.loop, UV_RUN_NOWAIT);
	return n_told == 1;
}

/* As for want of memory. */
static void or_after_a_while_if_nothing_tells_of_room(void)
{
	set_up(2);
	join();
	psid.remote->joints_due.msec = 10;
	fill();
	psid_remote_tell(&client, 80, true);
	peer_of(0, 1)->was_full = false;
	RUN_UNTIL(is_told_by_turns_of_psid());
	CHECK(!joint.is_untold);
	part();
}

/* The client is told of ports, and whether these are all. */
static bool hears_all(int fd)
{
	static uint8_t bytes[WIRE_SIZE_MAX];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	Pulc__Wire__ToClient *msg;
	bool all;

	REQUIRE(n > 0);
	msg = pulc__wire__to_client__unpack(NULL, (size_t)n, bytes);
	REQUIRE(msg && msg->body_case == PULC__WIRE__TO_CLIENT__BODY_PORT_NEWS);
	all = msg->port_news->all;
	pulc__wire__to_client__free_unpacked(msg, NULL);
	return all;
}

static void serve(const Pulc__Peer__Message *msg)
{
	const struct psid_node *from = nodes[1]->self;

	REQUIRE_INT(psid_peers_serve(nodes[0], from->id, from->life, msg), ==, 0);
}

/* There is no room while the two are brought together, and room again before they are. */
static void or_when_they_are_joined(void)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	Pulc__Peer__PortsOf ports = PULC__PEER__PORTS_OF__INIT;
	char joined;
	int heard[2];

	set_up(2);
	join();
	REQUIRE_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, heard), ==, 0);
	REQUIRE_INT(psid_map_insert(&psid.clients, &client.node, client.id), ==, 0);
	client.fd = heard[0];
	joint.is_joined = false;
	psid.remote->n_meeting = user.n_meeting = 1;
	joint.fd = dup(heard[1]);
	REQUIRE_INT(psid_closer_promise(&psid.closer), ==, 0);
	fill();
	psid_remote_tell(&client, 80, true);
	CHECK(joint.is_untold);
	RUN_UNTIL(!psid_peer_is_full(nodes[0], nodes[1]->self->id));
	CHECK_INT(n_told, ==, 0);
	ports.client = 3;
	ports.other = 5;
	ports.all = true;
	msg.body_case = PULC__PEER__MESSAGE__BODY_PORTS_OF;
	msg.ports_of = &ports;
	serve(&msg);
	CHECK(joint.is_joined);
	CHECK(hears_all(heard[1]));
	CHECK_INT(recv(heard[1], &joined, 1, MSG_DONTWAIT), ==, 1);
	serve(&msg);
	CHECK(hears_all(heard[1]));
	ports.all = false;
	serve(&msg);
	CHECK(!hears_all(heard[1]));
	RUN_UNTIL(n_told == 1);
	CHECK(!joint.is_untold);
	psid_map_remove(&psid.clients, &client.node);
	psid_map_deinit(&psid.clients);
	(void)close(heard[0]);
	(void)close(heard[1]);
	part();
}

/* Who opens and closes ports without end while our client does not read. */
static void news_are_not_kept_without_bound(void)
{
	Pulc__Peer__Message msg = PULC__PEER__MESSAGE__INIT;
	Pulc__Peer__PortsOf ports = PULC__PEER__PORTS_OF__INIT;
	struct psid_config config = { .max_descriptors_user = 100 };
	char text[WIRE_SIZE_MAX];
	uint32_t opened = 7;
	int heard[2];

	set_up(2);
	join();
	psid.config = &config;
	REQUIRE_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, heard), ==, 0);
	REQUIRE_INT(psid_map_insert(&psid.clients, &client.node, client.id), ==, 0);
	client.fd = heard[0];
	client.again.set = true; /* nothing of it is looked at here */
	client.paused = true;
	REQUIRE_INT(uv_poll_init(&psid.loop, &client.poll, client.fd), ==, 0);
	ports.client = 3;
	ports.other = 5;
	ports.opened = &opened;
	ports.n_opened = 1;
	msg.body_case = PULC__PEER__MESSAGE__BODY_PORTS_OF;
	msg.ports_of = &ports;
	for (unsigned i = 0; i < 100000; i++)
		serve(&msg);
	CHECK(client.n_rounds == 0);
	CHECK_INT(client.outbox.size, <=, 128 << 10);
	CHECK(joint.is_behind);
	while (!psid_outbox_is_empty(&client.outbox)) {
		while (recv(heard[1], text, sizeof(text), MSG_DONTWAIT) > 0)
			;
		REQUIRE_INT(psid_outbox_flush(&client.outbox, client.fd), ==, 0);
	}
	while (recv(heard[1], text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	psid_links_catch_up(&client);
	RUN_UNTIL(n_asked == 1);
	ports.all = true;
	serve(&msg);
	CHECK(hears_all(heard[1]));
	CHECK(!joint.is_behind);
	/* And who is asked says all of its own. */
	ports.again = true;
	ports.all = false;
	ports.n_opened = 0;
	serve(&msg);
	RUN_UNTIL(n_told == 1);
	psid_map_remove(&psid.clients, &client.node);
	psid_map_deinit(&psid.clients);
	uv_close((uv_handle_t *)&client.poll, NULL);
	(void)close(heard[0]);
	(void)close(heard[1]);
	part();
}

/* Returns how many questions wait that were asked by n clients of that user. */
static unsigned ask_as(struct psid_client *crowd, unsigned n, struct psid_user *of)
{
	Pulc__Wire__PortFind msg = PULC__WIRE__PORT_FIND__INIT;

	msg.name = (char *)"somebody";
	msg.node = nodes[1]->self->name;
	for (unsigned i = 0; i < n; i++) {
		crowd[i] = (struct psid_client){ .psid = &psid, .user = of, .fd = -EBADF };
		for (unsigned k = 0; k < 8; k++)
			CHECK_INT(psid_remote_find(&crowd[i], &msg), ==, 0);
	}
	return psid.remote->n_asks;
}

/* However many processes one has. */
static void a_user_has_not_all_questions(void)
{
	static struct psid_client crowd[140], another;
	struct psid_user other = { .psid = &psid, .n_refs = 1 };
	unsigned n;

	set_up(2);
	join();
	n = ask_as(crowd, 140, &user);
	CHECK_INT(n, >=, 500);
	CHECK_INT(ask_as(&another, 1, &other), ==, n + 8);
	for (unsigned i = 0; i < 140; i++)
		psid_remote_forget(&crowd[i]);
	psid_remote_forget(&another);
	CHECK_INT(psid.remote->n_asks + user.n_asks + other.n_asks, ==, 0);
	part();
}

static const struct test tests[] = {
	TEST(a_user_has_not_all_questions),
	TEST(news_are_not_kept_without_bound),
	TEST(a_port_is_told_at_once),
	TEST(or_when_there_is_room_again),
	TEST(or_after_a_while_if_nothing_tells_of_room),
	TEST(or_when_they_are_joined),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
