/*
 * What one user can make one turn of psid's loop cost, which everybody else waits for: what psid
 * has to look through for a message, a list or an end has a bound, or is done in parts.
 */
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "macros.h"
#include "psid/scene.h"

#define N_CROWD 300u

static struct fake_client crowd[N_CROWD], asks;

static void gather(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fake_attach(&crowd[i], &psid, FAKE_SELF);
}

static void disperse(unsigned first, unsigned n)
{
	for (unsigned i = first; i < n; i++)
		fake_close(&crowd[i]);
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* Invented ones for the same end of one connection, each with a cookie of its own. */
static void invent(struct fake_hint *h, unsigned n)
{
	Pulc__Wire__StatusRequest request = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(question, STATUS, status) = &request;

	for (unsigned i = 0; i < n; i++) {
		h->hint.token++;
		h->hint.cookie++;
		fake_hint_send(&crowd[i % 4], h);
	}
	for (unsigned i = 0; i < 4; i++) {
		fake_send(&crowd[i], &question, NULL, 0);
		while (fake_receive(&crowd[i])->body_case == PULC__WIRE__TO_CLIENT__BODY_DENY)
			;
	}
}

/* For a true hint of the other end psid looks at the best of all: there are few. */
static void hints_for_one_end(void)
{
	Pulc__Wire__StatusReply status;
	struct fake_hint h;
	int fds[2];

	scene_begin(false, NULL);
	gather(4);
	tcp_connect_pair(fds, AF_INET);
	fake_hint_fill(&h, fds[1], 1, false);
	invent(&h, 5000);
	fake_status(&psid, &status);
	CHECK_INT(status.n_hints, >, 0);
	CHECK_INT(status.n_hints, <=, 64);
	/* The true ones come last, and find each other. */
	fake_hint(&a, fds[0], 1, true);
	fake_hint(&b, fds[1], 1, false);
	(void)EXPECT(&b, WANT);
	tcp_close_pair(fds);
	disperse(0, 4);
	scene_end();
}

/* ---- what a message names -------------------------------------------------------------------- */

static void ends_without_end(void)
{
	static uint64_t ends[WIRE_ADOPT_MAX + 1];
	Pulc__Wire__Adopt body = PULC__WIRE__ADOPT__INIT;
	FROM_CLIENT(msg, ADOPT, adopt) = &body;

	scene_begin(false, NULL);
	gather(1);
	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++)
		ends[i] = 2;
	body.conns = ends;
	body.n_conns = WIRE_ADOPT_MAX;
	fake_send(&crowd[0], &msg, NULL, 0);
	CHECK(fake_is_quiet(&crowd[0]));
	body.n_conns++;
	fake_send(&crowd[0], &msg, NULL, 0);
	fake_expect_end(&crowd[0]);
	disperse(0, 1);
	scene_end();
}

/* ---- semaphores ------------------------------------------------------------------------------ */

static void take_parts(struct fake_client *c, unsigned n)
{
	Pulc__Wire__SemOpen body = PULC__WIRE__SEM_OPEN__INIT;
	FROM_CLIENT(msg, SEM_OPEN, sem_open) = &body;

	body.name = (char *)"crowded";
	body.count = 1;
	while (n-- > 0) {
		fake_send(c, &msg, NULL, 0);
		CHECK_INT(EXPECT(c, PORT_REPLY)->port_reply->error, ==, 0);
	}
}

/* All of them in one, which are on their user's account. */
static void parts_in_a_semaphore(void)
{
	enum { N = 60, N_PARTS = 256 };
	Pulc__Wire__StatusReply before, after;

	scene_begin(false, NULL);
	gather(N);
	take_parts(&crowd[0], N_PARTS);
	fake_status(&psid, &before);
	for (unsigned i = 1; i < N; i++)
		take_parts(&crowd[i], N_PARTS);
	fake_status(&psid, &after);
	CHECK_INT(after.size_bytes, >=, before.size_bytes + (N - 1) * N_PARTS * sizeof(void *));
	disperse(0, N);
	scene_end();
}

/* ---- many who are joined with one ------------------------------------------------------------ */

static uint32_t open_port(struct fake_client *c)
{
	Pulc__Wire__PortOpen body = PULC__WIRE__PORT_OPEN__INIT;
	FROM_CLIENT(msg, PORT_OPEN, port_open) = &body;

	body.kind = PULC__WIRE__PORT_KIND__PORT_D;
	fake_send(c, &msg, NULL, 0);
	while (fake_receive(c)->body_case != PULC__WIRE__TO_CLIENT__BODY_PORT_REPLY)
		;
	CHECK_INT(c->msg->port_reply->error, ==, 0);
	return c->msg->port_reply->port;
}

/* The first of the crowd has n_ports, and all others a link with it. */
static void join_all(unsigned n, unsigned n_ports)
{
	Pulc__Wire__PortLink body = PULC__WIRE__PORT_LINK__INIT;
	FROM_CLIENT(msg, PORT_LINK, port_link) = &body;

	gather(n);
	while (n_ports-- > 0)
		body.port = open_port(&crowd[0]);
	for (unsigned i = 1; i < n; i++) {
		fake_send(&crowd[i], &msg, NULL, 0);
		while (fake_receive(&crowd[i])->body_case != PULC__WIRE__TO_CLIENT__BODY_PORT_REPLY)
			;
		CHECK_INT(crowd[i].msg->port_reply->error, ==, 0);
		(void)EXPECT(&crowd[0], PORT_NEWS);
		(void)EXPECT(&crowd[0], UPGRADE);
	}
}

/* Where others use the machine, psid may come to the end between two looks: some attempts. */
#define N_ATTEMPTS 6

static size_t take_list(void)
{
	size_t n = EXPECT(&asks, PORTS)->ports->n_ports;

	CHECK(n > 0 || !asks.msg->ports->more);
	return n;
}

/* Somebody asks while another one's list begins: is he answered long before that ends? */
static bool is_answered_before_the_list(void)
{
	Pulc__Wire__StatusRequest request = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(question, STATUS, status) = &request;
	Pulc__Wire__PortsRequest body = PULC__WIRE__PORTS_REQUEST__INIT;
	FROM_CLIENT(msg, PORTS, ports) = &body;
	struct pollfd readable = { .fd = asks.fd, .events = POLLIN };
	bool more = true;
	size_t n = 0, n_before;

	(void)kill(psid.pid, SIGSTOP);
	fake_send(&asks, &msg, NULL, 0);
	fake_send(&a, &question, NULL, 0);
	(void)kill(psid.pid, SIGCONT);
	(void)EXPECT(&a, STATUS);
	while (more && poll(&readable, 1, 0) > 0) {
		n += take_list();
		more = asks.msg->ports->more;
	}
	n_before = n;
	while (more) {
		n += take_list();
		more = asks.msg->ports->more;
	}
	CHECK_INT(n, ==, 1024);
	return n_before < 512;
}

static void a_list_of_ports(void)
{
	unsigned n = 0;

	scene_begin(false, NULL);
	join_all(100, 1024);
	fake_open(&asks, &psid, FAKE_SELF);
	fake_hello(&asks, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&asks, WELCOME);
	while (n < N_ATTEMPTS && !is_answered_before_the_list())
		n++;
	CHECK_INT(n, <, N_ATTEMPTS);
	fake_close(&asks);
	disperse(0, 100);
	scene_end();
}

/* How many of the crowd have something to read. */
static unsigned n_told(void)
{
	static struct pollfd p[N_CROWD];

	for (unsigned i = 1; i < N_CROWD; i++)
		p[i] = (struct pollfd){ .fd = crowd[i].fd, .events = POLLIN };
	return (unsigned)poll(p + 1, N_CROWD - 1, 0);
}

/* One who was joined with all of them dies: is somebody else answered in between? */
static bool is_ended_in_parts(void)
{
	unsigned n_parts = 0, n, last;

	join_all(N_CROWD, 1);
	(void)kill(psid.pid, SIGSTOP);
	fake_close(&crowd[0]);
	last = n_told();
	(void)kill(psid.pid, SIGCONT);
	for (unsigned i = 0; i < 10000 && last < N_CROWD - 1; i++) {
		CHECK(fake_is_quiet(&a));
		n = n_told();
		n_parts += n > last;
		last = n;
	}
	CHECK_INT(last, ==, N_CROWD - 1);
	fake_wait_counts(&psid, N_CROWD + 1, N_CROWD - 1);
	disperse(1, N_CROWD);
	return n_parts > 1;
}

static void an_end_of_many(void)
{
	unsigned n = 0;

	scene_begin(false, NULL);
	while (n < N_ATTEMPTS && !is_ended_in_parts())
		n++;
	CHECK_INT(n, <, N_ATTEMPTS);
	scene_end();
}

/* ---- what psid is not sure of ---------------------------------------------------------------- */

/* Both ends' processes live without their channels: the kernel is asked about each connection, some
 * at a time, and says that they are gone. */
static void a_doubt_of_many(void)
{
	enum { N = 800 };
	static int sockets[N];
	Pulc__Wire__StatusReply status = { .n_connections = N };
	struct fake_upgrade u;
	unsigned n_parts = 0, last;
	int fds[2];

	scene_begin(false, NULL);
	for (unsigned i = 0; i < N; i++) {
		tcp_connect_pair(fds, AF_INET);
		fake_upgrade(&a, &b, fds, 2 + i, &u);
		fake_upgrade_done(&u);
		sockets[i] = fds[0];
		(void)close(fds[1]);
	}
	(void)close(a.fd);
	(void)close(b.fd);
	a.fd = b.fd = -1;
	for (unsigned i = 0; i < N; i++)
		(void)close(sockets[i]);
	for (unsigned i = 0; i < 10000 && status.n_connections > 0; i++) {
		last = status.n_connections;
		fake_status(&psid, &status);
		n_parts += status.n_connections < last;
		(void)poll(NULL, 0, 1);
	}
	CHECK_INT(status.n_connections, ==, 0);
	CHECK_INT(n_parts, >, 2);
	scene_end();
}

static const struct test tests[] = {
	TEST(hints_for_one_end), TEST(ends_without_end), TEST(parts_in_a_semaphore),
	TEST(a_list_of_ports),	 TEST(an_end_of_many),	 TEST(a_doubt_of_many),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
