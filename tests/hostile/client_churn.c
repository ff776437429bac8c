/*
 * Clients that come, have psid keep something for them, and go without a word, or die, by the ten
 * thousands. psid has afterwards what it had before: as many descriptors, mappings and things that
 * are counted, and as much memory.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "macros.h"
#include "psid/fake_return.h"
#include "psid/scene.h"

#define N_ROUNDS 20000u
#define N_WARM_UP 2000u
#define N_AT_ONCE 4u
#define NSEC_MOST (10 * NSEC_PER_SEC) /* where all is slower, as under sanitizers, fewer will do */
#define N_STILL 20u		      /* looks between which nothing changes */
#define N_MAPPINGS_MORE 64u /* stacks of helper threads, of which some are kept for the next */
#define N_OPEN_MORE 2u	    /* of who has asked for psid's view just now */
#define N_PAGES_MORE 64u    /* what a heap in pieces may come to, once and for all */

static struct fake_client x, y;
static char name[32]; /* that nobody else has at the same time */

/* ---- what they do ---------------------------------------------------------------------------- */

/* A client of this very process. */
static void come(struct fake_client *c, Pulc__Wire__Role role)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*c = (struct fake_client){ .pid = -1 };
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", psid.socket);
	REQUIRE(connect(c->fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	fake_hello(c, role);
	c->id = EXPECT(c, WELCOME)->welcome->client;
}

static void ports(void)
{
	Pulc__Wire__PortOpen open = PULC__WIRE__PORT_OPEN__INIT;
	FROM_CLIENT(msg, PORT_OPEN, port_open) = &open;
	Pulc__Wire__PortTake take = PULC__WIRE__PORT_TAKE__INIT;
	FROM_CLIENT(wish, PORT_TAKE, port_take) = &take;

	open.kind = PULC__WIRE__PORT_KIND__PORT_D;
	fake_send(&x, &msg, NULL, 0);
	open.name = name;
	fake_send(&x, &msg, NULL, 0);
	take.step = PULC__WIRE__TAKE_STEP__TAKE_WANT;
	fake_send(&y, &wish, NULL, 0);
	(void)EXPECT(&x, PORT_REPLY);
	CHECK_INT(EXPECT(&x, PORT_REPLY)->port_reply->error, ==, 0);
}

static void bells(void)
{
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	FROM_CLIENT(msg, BELL, bell) = &bell;
	int event = eventfd(0, EFD_CLOEXEC);

	for (bell.board = 0; bell.board < 3; bell.board++)
		fake_send(&x, &msg, &event, 1);
	(void)close(event);
}

static void semaphores(void)
{
	Pulc__Wire__SemOpen open = PULC__WIRE__SEM_OPEN__INIT;
	FROM_CLIENT(msg, SEM_OPEN, sem_open) = &open;

	open.count = 1;
	fake_send(&y, &msg, NULL, 0);
	open.name = name;
	fake_send(&x, &msg, NULL, 0);
	fake_send(&y, &msg, NULL, 0);
	CHECK_INT(EXPECT(&x, PORT_REPLY)->port_reply->error, ==, 0);
}

static void messages(void)
{
	Pulc__Wire__MessageArea area = PULC__WIRE__MESSAGE_AREA__INIT;
	FROM_CLIENT(msg, MESSAGE_AREA, message_area) = &area;
	Pulc__Wire__WantCredit credit = PULC__WIRE__WANT_CREDIT__INIT;
	FROM_CLIENT(more, WANT_CREDIT, want_credit) = &credit;

	credit.size = 1 << 20;
	fake_send(&x, &msg, NULL, 0);
	fake_send(&x, &more, NULL, 0);
}

/* One side's socket is on its way, or psid's, the other one's never comes. */
static void half_a_hand_over(void)
{
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	fake_hint(&x, fds[0], 1, true);
	fake_hint(&y, fds[1], 1, false);
	(void)EXPECT(&x, WANT);
	fake_socket(&x, fds[0], 1);
	tcp_close_pair(fds);
}

static void sockets_nobody_wants(void)
{
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	fake_socket(&x, fds[0], 1);
	fake_ask_attach(&y, fds[1], 2);
	fake_hint(&y, fds[1], 3, true);
	tcp_close_pair(fds);
}

static void nonsense(void)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	int event = eventfd(0, EFD_CLOEXEC);

	fake_send(&x, &msg, (int[]){ event, event, event }, 3);
	fake_expect_end(&x);
	(void)close(event);
}

static void lists(void)
{
	Pulc__Wire__StatusRequest status = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(question, STATUS, status) = &status;
	Pulc__Wire__ClientsRequest clients = PULC__WIRE__CLIENTS_REQUEST__INIT;
	FROM_CLIENT(msg, CLIENTS, clients) = &clients;
	struct fake_client asks;

	come(&asks, PULC__WIRE__ROLE__ROLE_CONTROL);
	fake_send(&asks, &msg, NULL, 0);
	fake_send(&asks, &question, NULL, 0);
	(void)EXPECT(&asks, CLIENTS);
	fake_close(&asks);
}

static void a_delivery(void)
{
	Pulc__Wire__Deliver body = PULC__WIRE__DELIVER__INIT;
	FROM_CLIENT(msg, DELIVER, deliver) = &body;
	int fds[2], memory = memfd_create("rest", MFD_CLOEXEC);
	struct fake_client sender;

	tcp_connect_pair(fds, AF_INET);
	REQUIRE(ftruncate(memory, 100) == 0);
	body.size = 100;
	come(&sender, PULC__WIRE__ROLE__ROLE_CONTROL);
	fake_send(&sender, &msg, (int[]){ fds[0], memory }, 2);
	(void)EXPECT(&sender, DELIVERING);
	(void)close(memory);
	tcp_close_pair(fds);
	fake_close(&sender);
}

/* psid keeps these for a process that lives. */
static void connections(void)
{
	struct fake_upgrade u;
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&x, &y, fds, 2, &u);
	fake_ask_attach(&y, fds[1], 7);
	tcp_close_pair(fds);
	tcp_connect_pair(fds, AF_INET);
	fake_hint(&x, fds[0], 5, true);
	fake_hint(&y, fds[1], 5, false);
}

static void links(void)
{
	Pulc__Wire__PortOpen open = PULC__WIRE__PORT_OPEN__INIT;
	FROM_CLIENT(msg, PORT_OPEN, port_open) = &open;
	Pulc__Wire__PortLink body = PULC__WIRE__PORT_LINK__INIT;
	FROM_CLIENT(link, PORT_LINK, port_link) = &body;

	open.kind = PULC__WIRE__PORT_KIND__PORT_S;
	fake_send(&x, &msg, NULL, 0);
	body.port = EXPECT(&x, PORT_REPLY)->port_reply->port;
	fake_send(&y, &link, NULL, 0);
	while (fake_receive(&y)->body_case != PULC__WIRE__TO_CLIENT__BODY_PORT_REPLY)
		;
	CHECK_INT(y.msg->port_reply->error, ==, 0);
}

static void (*const ways[])(void) = {
	ports,	  bells, semaphores, messages, half_a_hand_over, sockets_nobody_wants,
	nonsense, lists, a_delivery
};
static void (*const last_ways[])(void) = { connections, links };

#define N_WAYS ((unsigned)ARRAY_SIZE(ways) + 1) /* of a life */

static void play(void (*way)(void))
{
	come(&x, PULC__WIRE__ROLE__ROLE_PROCESS);
	come(&y, PULC__WIRE__ROLE__ROLE_PROCESS);
	way();
}

/* Each of them in its life, and at its end one that psid ends with it. */
static void live(unsigned number)
{
	(void)snprintf(name, sizeof(name), "churn-%u", number);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		play(ways[i]);
		fake_close(&x);
		fake_close(&y);
	}
	play(last_ways[number % ARRAY_SIZE(last_ways)]);
	_exit(0);
}

static void start_one(unsigned number)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0)
		live(number);
}

static void wait_for_one(void)
{
	int status = -1;

	REQUIRE(wait(&status) > 0);
	REQUIRE_INT(status, ==, 0);
}

/* Returns how many. */
static unsigned play_rounds(unsigned n_max)
{
	uint64_t until = nsec_now() + NSEC_MOST;
	unsigned n_lives = 0, n_over = 0;

	while (n_lives * N_WAYS < n_max && nsec_now() < until) {
		start_one(n_lives++);
		if (n_lives - n_over == N_AT_ONCE) {
			wait_for_one();
			n_over++;
		}
	}
	for (; n_over < n_lives; n_over++)
		wait_for_one();
	return n_lives * N_WAYS;
}

/* ---- what psid has --------------------------------------------------------------------------- */

struct holdings {
	unsigned n_open, n_mappings, n_pages;
	Pulc__Wire__StatusReply status;
};

static unsigned count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned n = 0;
	int c;

	REQUIRE(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	(void)fclose(f);
	return n;
}

static struct holdings look(void)
{
	struct holdings h = { .n_open = daemon_n_open(&psid) };
	char path[64];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", psid.pid);
	h.n_mappings = count_lines(path);
	(void)snprintf(path, sizeof(path), "/proc/%d/statm", psid.pid);
	f = fopen(path, "re");
	REQUIRE(f);
	REQUIRE_INT(fscanf(f, "%*u %u", &h.n_pages), ==, 1);
	(void)fclose(f);
	return h;
}

static bool is_same(const struct holdings *left, const struct holdings *right)
{
	return left->n_open == right->n_open && left->n_mappings == right->n_mappings &&
	       left->n_pages == right->n_pages;
}

/* When all that has ended has been seen to, and every helper thread that is to go has gone. */
static struct holdings look_when_still(void)
{
	static const struct timespec moment = { .tv_nsec = 20000000 };
	struct holdings before = look(), h;

	fake_wait_counts(&psid, 2, 0);
	for (unsigned i = 0, n_still = 0; i < 500 && n_still < N_STILL; i++) {
		(void)nanosleep(&moment, NULL);
		h = look();
		n_still = is_same(&h, &before) ? n_still + 1 : 0;
		before = h;
	}
	fake_status(&psid, &before.status);
	return before;
}

static void everything_is_given_back(void)
{
	struct holdings before, after;
	unsigned n;

	scene_begin(false, NULL);
	(void)play_rounds(N_WARM_UP);
	before = look_when_still();
	n = play_rounds(N_ROUNDS);
	after = look_when_still();
	CHECK_INT(n, >, 100);
	CHECK_INT(after.n_open, <=, before.n_open + N_OPEN_MORE);
#ifndef __SANITIZE_ADDRESS__ /* whose allocator keeps what is freed, and tells of leaks at the end */
	CHECK_INT(after.n_mappings, <=, before.n_mappings + N_MAPPINGS_MORE);
	CHECK_INT(after.n_pages, <=, before.n_pages + N_PAGES_MORE);
#endif
	CHECK_INT(after.status.n_hints, ==, before.status.n_hints);
	CHECK_INT(after.status.n_areas, ==, before.status.n_areas);
	CHECK_INT(after.status.size_bytes, ==, before.status.size_bytes);
	scene_end();
}

static const struct test tests[] = {
	TEST(everything_is_given_back),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
