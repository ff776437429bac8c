/*
 * Clients that ask psid for ports they may not have, close what isn't theirs, and ask without end.
 * psid is neither fooled nor used up; honest clients get theirs.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "psid/scene.h"

#define N_PORTS_CLIENT 1024u

static struct fake_client hostile;

static void begin(void)
{
	scene_begin(false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
}

static void end(void)
{
	fake_close(&hostile);
	scene_end();
}

static void ask_open(struct fake_client *c, unsigned kind, uint32_t number, const char *name)
{
	Pulc__Wire__PortOpen open = PULC__WIRE__PORT_OPEN__INIT;
	FROM_CLIENT(msg, PORT_OPEN, port_open) = &open;

	open.request = 5;
	open.kind = (Pulc__Wire__PortKind)kind;
	open.number = number;
	open.name = (char *)name;
	fake_send(c, &msg, NULL, 0);
}

static uint32_t open_port(struct fake_client *c, uint32_t number, const char *name)
{
	const Pulc__Wire__PortReply *reply;

	ask_open(c, PULC__WIRE__PORT_KIND__PORT_D, number, name);
	reply = EXPECT(c, PORT_REPLY)->port_reply;
	CHECK_INT(reply->request, ==, 5);
	CHECK_INT(reply->client, ==, reply->error ? 0 : c->id);
	return reply->error ? 0 : reply->port;
}

static void close_port(struct fake_client *c, uint32_t port)
{
	Pulc__Wire__PortClose close = PULC__WIRE__PORT_CLOSE__INIT;
	FROM_CLIENT(msg, PORT_CLOSE, port_close) = &close;

	close.port = port;
	fake_send(c, &msg, NULL, 0);
}

static void find_port(struct fake_client *c, const char *name)
{
	Pulc__Wire__PortFind find = PULC__WIRE__PORT_FIND__INIT;
	FROM_CLIENT(msg, PORT_FIND, port_find) = &find;

	find.name = (char *)name;
	fake_send(c, &msg, NULL, 0);
}

static void link_to(struct fake_client *c, uint32_t port)
{
	Pulc__Wire__PortLink link = PULC__WIRE__PORT_LINK__INIT;
	FROM_CLIENT(msg, PORT_LINK, port_link) = &link;

	link.port = port;
	fake_send(c, &msg, NULL, 0);
}

static void name_task(struct fake_client *c, uint32_t port, const char *job)
{
	Pulc__Wire__PortOfTask of_task = PULC__WIRE__PORT_OF_TASK__INIT;
	FROM_CLIENT(msg, PORT_OF_TASK, port_of_task) = &of_task;

	of_task.port = port;
	of_task.job = (char *)job;
	fake_send(c, &msg, NULL, 0);
}

/* Tasks that there are none of. */
static void tasks_are_not_invented(void)
{
	char long_name[200];
	uint32_t port;

	memset(long_name, 'n', sizeof(long_name));
	long_name[199] = '\0';
	begin();
	port = open_port(&hostile, 0, "");
	for (unsigned i = 0; i < 3; i++) {
		name_task(&hostile, port, (const char *[]){ "", "1@here", long_name }[i]);
		CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->error, ==,
			  PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT);
	}
	end();
}

static void numbers_belong_to_one(void)
{
	begin();
	CHECK_INT(open_port(&a, 80, "web"), ==, 80);
	CHECK_INT(open_port(&hostile, 80, ""), ==, 0);
	CHECK_INT(open_port(&hostile, 0, "web"), ==, 0);
	CHECK_INT(open_port(&b, 0, ""), >, 65535);
	/* It has died: its port is free. */
	fake_close(&a);
	fake_wait_counts(&psid, 2, 0);
	CHECK_INT(open_port(&b, 80, "web"), ==, 80);
	fake_attach(&a, &psid, FAKE_SELF);
	end();
}

static void nonsense_ends_the_client(void)
{
	char long_name[100];

	memset(long_name, 'n', sizeof(long_name));
	long_name[99] = '\0';
	begin();
	for (unsigned i = 0; i < 9; i++) {
		switch (i) {
		case 0:
			ask_open(&hostile, 0, 0, "");
			break;
		case 1:
			ask_open(&hostile, 9, 0, "");
			break;
		case 2:
			ask_open(&hostile, 3, 65536, "");
			break;
		case 3:
			ask_open(&hostile, 3, 0, long_name);
			break;
		case 4:
			find_port(&hostile, long_name);
			break;
		case 5:
			find_port(&hostile, "");
			break;
		case 6:
			close_port(&hostile, 12345);
			break;
		case 7: /* somebody else's */
			CHECK_INT(open_port(&a, 81, ""), ==, 81);
			close_port(&hostile, 81);
			break;
		case 8:
			name_task(&hostile, 81, "1@here");
			break;
		}
		fake_expect_end(&hostile);
		fake_close(&hostile);
		fake_attach(&hostile, &psid, FAKE_SELF);
	}
	CHECK_INT(open_port(&b, 81, ""), ==, 0);
	end();
}

static void ports_are_limited(void)
{
	unsigned n = 0;

	begin();
	while (n <= N_PORTS_CLIENT && open_port(&hostile, 0, ""))
		n++;
	CHECK_INT(n, ==, N_PORTS_CLIENT);
	CHECK_INT(open_port(&a, 0, ""), >, 0);
	end();
}

static void expect_link(struct fake_client *c, const struct fake_client *other, uint32_t port)
{
	const Pulc__Wire__ToClient *msg = EXPECT(c, PORT_NEWS);

	CHECK_INT(msg->port_news->client, ==, other->id);
	CHECK_INT(msg->port_news->n_opened, ==, port ? 1 : 0);
	if (port)
		CHECK_INT(msg->port_news->opened[0], ==, port);
	msg = EXPECT(c, UPGRADE);
	CHECK_INT(msg->upgrade->peer_client, ==, other->id);
	CHECK_INT(c->n_fds, ==, 2);
}

/* The news of a port goes to those who are joined with its owner, before its owner hears of it;
 * nobody is joined twice. */
static void links_are_made_once(void)
{
	const Pulc__Wire__ToClient *msg;
	uint32_t port, another;

	begin();
	port = open_port(&b, 0, "");
	link_to(&a, port + 1);
	CHECK_INT(EXPECT(&a, PORT_REPLY)->port_reply->error, ==,
		  PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT);
	link_to(&a, port);
	expect_link(&a, &b, port);
	CHECK_INT(EXPECT(&a, PORT_REPLY)->port_reply->client, ==, b.id);
	expect_link(&b, &a, 0);
	link_to(&a, port);
	CHECK_INT(EXPECT(&a, PORT_REPLY)->port_reply->client, ==, b.id);
	another = open_port(&a, 0, "");
	msg = EXPECT(&b, PORT_NEWS);
	CHECK_INT(msg->port_news->opened[0], ==, another);
	close_port(&a, another);
	msg = EXPECT(&b, PORT_NEWS);
	CHECK_INT(msg->port_news->closed[0], ==, another);
	/* To oneself nothing is made. */
	link_to(&b, port);
	CHECK_INT(EXPECT(&b, PORT_REPLY)->port_reply->client, ==, b.id);
	CHECK(fake_is_quiet(&a));
	end();
}

/* The memory that a link takes is counted, and comes back with its holders. */
static void links_are_paid_for(void)
{
	Pulc__Wire__StatusReply before, after;
	uint32_t port;

	begin();
	port = open_port(&b, 0, "");
	fake_status(&psid, &before);
	link_to(&hostile, port);
	expect_link(&hostile, &b, port);
	fake_status(&psid, &after);
	CHECK_INT(after.n_areas, ==, before.n_areas + 2);
	CHECK_INT(after.size_bytes, >, before.size_bytes);
	fake_close(&hostile);
	fake_attach(&hostile, &psid, FAKE_SELF);
	end();
	CHECK_INT(after.n_connections, ==, before.n_connections + 1);
}

static Pulc__Wire__PortError ask_area(struct fake_client *c, uint32_t client)
{
	Pulc__Wire__MessageArea area = PULC__WIRE__MESSAGE_AREA__INIT;
	FROM_CLIENT(msg, MESSAGE_AREA, message_area) = &area;

	area.request = 5;
	area.client = client;
	fake_send(c, &msg, NULL, 0);
	if (client == 0) {
		const Pulc__Wire__ToClient *got = EXPECT(c, MESSAGE_AREA);

		CHECK_INT(got->message_area->client, ==, c->id);
		CHECK(got->message_area->own);
		CHECK_INT(c->n_fds, ==, 1);
		CHECK_INT(fcntl(c->fds[0], F_GETFL) & O_ACCMODE, ==, O_RDWR);
	}
	return EXPECT(c, PORT_REPLY)->port_reply->error;
}

/* Memory for messages is shown to those who are joined with its owner, to read, and once. */
static void areas_are_shown_to_the_joined(void)
{
	const Pulc__Wire__ToClient *msg;
	Pulc__Wire__StatusReply before, after;
	uint32_t port;

	begin();
	port = open_port(&b, 0, "");
	link_to(&a, port);
	expect_link(&a, &b, port);
	CHECK_INT(EXPECT(&a, PORT_REPLY)->port_reply->client, ==, b.id);
	expect_link(&b, &a, 0);
	CHECK_INT(ask_area(&a, b.id), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT);
	fake_status(&psid, &before);
	CHECK_INT(ask_area(&a, 0), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	CHECK_INT(ask_area(&a, 0), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	fake_status(&psid, &after);
	CHECK_INT(after.n_areas, ==, before.n_areas + 1);
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(ask_area(&a, (const uint32_t[]){ a.id, hostile.id, 4000000 }[i]), ==,
			  PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT);
	CHECK_INT(ask_area(&a, b.id), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	msg = EXPECT(&b, MESSAGE_AREA);
	CHECK_INT(msg->message_area->client, ==, a.id);
	CHECK(!msg->message_area->own);
	CHECK_INT(b.n_fds, ==, 1);
	CHECK_INT(fcntl(b.fds[0], F_GETFL) & O_ACCMODE, ==, O_RDONLY);
	CHECK_INT(ask_area(&a, b.id), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	CHECK(fake_is_quiet(&b));
	CHECK(fake_is_quiet(&hostile));
	end();
}

/* ---- ports that pass from one to another ----------------------------------------------------- */

static Pulc__Wire__PortError give_port(struct fake_client *c, uint32_t port, uint32_t pid)
{
	Pulc__Wire__PortGive give = PULC__WIRE__PORT_GIVE__INIT;
	FROM_CLIENT(msg, PORT_GIVE, port_give) = &give;

	give.request = 5;
	give.port = port;
	give.pid = pid;
	fake_send(c, &msg, NULL, 0);
	return EXPECT(c, PORT_REPLY)->port_reply->error;
}

static void say_take(struct fake_client *c, unsigned step, uint32_t port, uint64_t move)
{
	Pulc__Wire__PortTake take = PULC__WIRE__PORT_TAKE__INIT;
	FROM_CLIENT(msg, PORT_TAKE, port_take) = &take;

	take.request = 5;
	take.step = (Pulc__Wire__TakeStep)step;
	take.port = port;
	take.move = move;
	fake_send(c, &msg, NULL, 0);
}

static Pulc__Wire__PortError ask_take(struct fake_client *c, unsigned step, uint32_t port,
				      uint64_t move)
{
	say_take(c, step, port, move);
	return EXPECT(c, PORT_REPLY)->port_reply->error;
}

#define ERROR(name) PULC__WIRE__PORT_ERROR__PORT_ERROR_##name
#define STEP(name) PULC__WIRE__TAKE_STEP__TAKE_##name

static uint64_t expect_move(struct fake_client *c, unsigned step, uint32_t port)
{
	const Pulc__Wire__PortMove *move = EXPECT(c, PORT_MOVE)->port_move;

	CHECK_INT(move->step, ==, step);
	CHECK_INT(move->port, ==, port);
	return move->move;
}

/* From a to b, up to the point where b is ready. */
static uint64_t begin_move(uint32_t port)
{
	uint64_t move;

	CHECK_INT(give_port(&a, port, (uint32_t)b.pid), ==, ERROR(NONE));
	CHECK_INT(ask_take(&b, STEP(WANT), port, 0), ==, ERROR(NONE));
	expect_link(&b, &a, port);
	move = expect_move(&b, PULC__WIRE__MOVE_STEP__MOVE_TAKE, port);
	CHECK_INT(ask_take(&b, STEP(READY), port, move), ==, ERROR(NONE));
	expect_link(&a, &b, 0);
	CHECK_INT(expect_move(&a, PULC__WIRE__MOVE_STEP__MOVE_GIVE, port), ==, move);
	return move;
}

/* Nobody takes what it was not given, nor says that it has it before it could have. */
static void nothing_is_taken(void)
{
	uint32_t port;

	begin();
	port = open_port(&a, 0, "");
	CHECK_INT(give_port(&hostile, port, (uint32_t)b.pid), ==, ERROR(ABSENT));
	CHECK_INT(give_port(&a, port + 1, (uint32_t)b.pid), ==, ERROR(ABSENT));
	CHECK_INT(ask_take(&a, STEP(WANT), port, 0), ==, ERROR(TAKEN));
	CHECK_INT(ask_take(&hostile, STEP(WANT), port + 1, 0), ==, ERROR(ABSENT));
	CHECK_INT(ask_take(&hostile, STEP(WANT), port, 0), ==, ERROR(NONE));
	for (uint64_t move = 0; move < 3; move++) {
		CHECK_INT(ask_take(&hostile, STEP(READY), port, move), ==, ERROR(ABSENT));
		CHECK_INT(ask_take(&hostile, STEP(DONE), port, move), ==, ERROR(ABSENT));
	}
	CHECK_INT(ask_take(&hostile, STEP(OFF), 0, 0), ==, ERROR(NONE));
	CHECK_INT(give_port(&a, port, 1), ==, ERROR(NONE));
	CHECK_INT(ask_take(&hostile, STEP(WANT), 0, 0), ==, ERROR(NONE));
	CHECK(fake_is_quiet(&hostile));
	/* Whoever waits for this one hears that it is gone. */
	CHECK_INT(ask_take(&hostile, STEP(WANT), port, 0), ==, ERROR(NONE));
	close_port(&a, port);
	(void)expect_move(&hostile, PULC__WIRE__MOVE_STEP__MOVE_OFF, port);
	say_take(&hostile, 77, 0, 0);
	fake_expect_end(&hostile);
	fake_close(&hostile);
	fake_attach(&hostile, &psid, FAKE_SELF);
	end();
}

/* While a port passes nobody is joined with its owner for it; then it is the other one's. */
static void ports_pass_once(void)
{
	const Pulc__Wire__PortReply *reply;
	uint32_t port;
	uint64_t move;

	begin();
	port = open_port(&a, 0, "passes");
	move = begin_move(port);
	link_to(&hostile, port);
	CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->error, ==, ERROR(MOVING));
	CHECK_INT(ask_take(&hostile, STEP(DONE), port, move), ==, ERROR(ABSENT));
	CHECK_INT(ask_take(&b, STEP(DONE), port, move + 1), ==, ERROR(ABSENT));
	say_take(&b, STEP(DONE), port, move);
	reply = EXPECT(&b, PORT_REPLY)->port_reply;
	CHECK_INT(reply->error, ==, ERROR(NONE));
	CHECK_INT(reply->client, ==, b.id);
	CHECK_INT(EXPECT(&b, PORT_NEWS)->port_news->closed[0], ==, port);
	CHECK_INT(EXPECT(&a, PORT_NEWS)->port_news->opened[0], ==, port);
	CHECK_INT(expect_move(&a, PULC__WIRE__MOVE_STEP__MOVE_DONE, port), ==, move);
	/* Said again, by who has not heard. */
	CHECK_INT(ask_take(&b, STEP(DONE), port, move), ==, ERROR(NONE));
	CHECK_INT(give_port(&a, port, 0), ==, ERROR(ABSENT));
	find_port(&hostile, "passes");
	CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->client, ==, b.id);
	end();
}

/* Each of the two can call it off, and ends it by its own end. */
static void ports_stay(void)
{
	uint32_t port;
	uint64_t move;

	for (unsigned i = 0; i < 4; i++) {
		begin();
		port = open_port(&a, 0, "stays");
		move = begin_move(port);
		if (i == 0) {
			say_take(&b, STEP(OFF), 0, 0);
			CHECK_INT(expect_move(&b, PULC__WIRE__MOVE_STEP__MOVE_OFF, port), ==, move);
			CHECK_INT(EXPECT(&b, PORT_REPLY)->port_reply->error, ==, ERROR(NONE));
		}
		if (i == 1)
			fake_close(&b);
		if (i < 2)
			CHECK_INT(expect_move(&a, PULC__WIRE__MOVE_STEP__MOVE_OFF, port), ==, move);
		if (i == 2) {
			say_take(&b, STEP(READY), port, move);
			CHECK_INT(EXPECT(&b, PORT_REPLY)->port_reply->error, ==, ERROR(NONE));
			fake_close(&a);
		}
		if (i == 3)
			close_port(&a, port);
		if (i >= 2)
			CHECK_INT(expect_move(&b, PULC__WIRE__MOVE_STEP__MOVE_OFF, port), ==, move);
		find_port(&hostile, "stays");
		CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->client, ==, i < 2 ? a.id : 0);
		if (i == 1)
			fake_attach(&b, &psid, FAKE_SELF);
		if (i == 2)
			fake_attach(&a, &psid, FAKE_SELF);
		end();
	}
}

/* Nothing passes from one user to another. */
static void users_keep_their_ports(void)
{
	static const char *const settings[] = { "PULC_ALLOW_USERS=root, 65534", NULL };
	uint32_t port;

	if (geteuid() != 0) {
		test_skip("needs root");
		return;
	}
	scene_begin(true, settings);
	fake_attach(&hostile, &psid, 65534);
	port = open_port(&a, 0, "");
	CHECK_INT(ask_take(&hostile, STEP(WANT), port, 0), ==, ERROR(PERMISSION));
	CHECK_INT(ask_take(&hostile, STEP(WANT), 0, 0), ==, ERROR(NONE));
	CHECK_INT(give_port(&a, port, (uint32_t)hostile.pid), ==, ERROR(PERMISSION));
	CHECK(fake_is_quiet(&hostile));
	end();
}

/* A link that can't be made: nobody but who asks hears of it. */
static void links_in_vain(void)
{
	/* Three board areas. */
	static const char *const settings[] = { "PULC_MAX_AREAS_PER_USER=3", NULL };
	uint32_t port;

	scene_begin(false, settings);
	fake_attach(&hostile, &psid, FAKE_SELF);
	port = open_port(&a, 0, "");
	for (unsigned i = 0; i < 50; i++) {
		link_to(&hostile, port);
		CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->error, ==,
			  PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT);
	}
	CHECK(fake_is_quiet(&a));
	end();
}

/* Until the answer; leaves the link. The error. */
static Pulc__Wire__PortError link_and_leave(struct fake_client *c, uint32_t port)
{
	const Pulc__Wire__ToClient *msg;
	uint64_t conn = 0;

	link_to(c, port);
	do {
		msg = fake_receive(c);
		REQUIRE(msg != NULL);
		if (msg->body_case == PULC__WIRE__TO_CLIENT__BODY_UPGRADE)
			conn = msg->upgrade->conn;
	} while (msg->body_case != PULC__WIRE__TO_CLIENT__BODY_PORT_REPLY);
	if (conn)
		fake_closed(c, conn);
	return msg->port_reply->error;
}

/* It links and leaves, again and again, while the other one does not read: that takes little of the
 * other one's memory. */
static void links_left_behind(void)
{
	Pulc__Wire__StatusReply before, after;
	const Pulc__Wire__ToClient *msg;
	unsigned n = 0;
	uint32_t port;

	begin();
	port = open_port(&a, 0, "");
	fake_status(&psid, &before);
	for (unsigned i = 0; i < 200; i++)
		n += link_and_leave(&hostile, port) == PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE;
	CHECK_INT(n, <, 20);
	fake_status(&psid, &after);
	CHECK_INT(after.n_connections, ==, before.n_connections + n);
	CHECK_INT(after.size_bytes - before.size_bytes, <, 1 << 20);
	CHECK_INT(link_and_leave(&b, port), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	/* It reads, and leaves them, too. */
	for (n++; n > 0;) {
		msg = fake_receive(&a);
		REQUIRE(msg != NULL);
		if (msg->body_case != PULC__WIRE__TO_CLIENT__BODY_UPGRADE)
			continue;
		fake_closed(&a, msg->upgrade->conn);
		n--;
	}
	CHECK_INT(link_and_leave(&hostile, port), ==, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	end();
}

/* News without end do not end the one who is stopped: it hears what there is when it goes on. */
static void news_do_not_pile_up(void)
{
	enum { N = 100000 };
	const Pulc__Wire__PortNews *news;
	uint32_t port;

	begin();
	port = open_port(&hostile, 0, "");
	link_to(&a, port);
	expect_link(&a, &hostile, port);
	(void)EXPECT(&a, PORT_REPLY);
	expect_link(&hostile, &a, 0);
	for (unsigned i = 0; i < N; i++) {
		REQUIRE_INT(open_port(&hostile, 7, ""), ==, 7);
		close_port(&hostile, 7);
	}
	CHECK_INT(open_port(&hostile, 8, ""), ==, 8);
	do
		news = EXPECT(&a, PORT_NEWS)->port_news;
	while (!news->all);
	CHECK_INT(news->client, ==, hostile.id);
	CHECK_INT(news->n_opened, ==, 2);
	CHECK_INT(news->opened[0] + news->opened[1], ==, port + 8);
	close_port(&hostile, 8);
	CHECK_INT(EXPECT(&a, PORT_NEWS)->port_news->closed[0], ==, 8);
	CHECK(fake_is_quiet(&a));
	end();
}

static const struct test tests[] = {
	TEST(numbers_belong_to_one),
	TEST(nonsense_ends_the_client),
	TEST(ports_are_limited),
	TEST(links_are_made_once),
	TEST(links_are_paid_for),
	TEST(links_in_vain),
	TEST(links_left_behind),
	TEST(news_do_not_pile_up),
	TEST(tasks_are_not_invented),
	TEST(areas_are_shown_to_the_joined),
	TEST(nothing_is_taken),
	TEST(ports_pass_once),
	TEST(ports_stay),
	TEST(users_keep_their_ports),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
