/*
 * What psid says of another process's ports: one by one, and all that there are, when news may have
 * been lost.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "native.h"
#include "private.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define CLIENT 7u
#define N_PORTS 1024u

static int other;
static struct peer *peer;

static void begin(void)
{
	struct hal_link *link;
	int fd[2];

	tcp_connect_pair(fd, AF_INET);
	other = fd[1];
	REQUIRE_INT(hal_tcp_open(fd[0], HAL_TCP_PLAIN, &link), ==, 0);
	/* Nothing of what it has sent is on its way: psid's word is enough. */
	link->caps.flags |= HAL_PRESENT;
	REQUIRE(native_lock());
	peer = peer_new(link, CLIENT);
	REQUIRE(peer != NULL);
	native_peer_join(peer);
}

static void end(void)
{
	native_peer_leave(peer);
	peer_break(peer, -ECONNRESET);
	peer_unref(peer);
	native_unlock();
	(void)close(other);
}

static void hear(Pulc__Wire__PortNews *news)
{
	Pulc__Wire__ToClient msg = PULC__WIRE__TO_CLIENT__INIT;
	struct received nothing = { .socket = -EBADF };

	news->client = CLIENT;
	msg.body_case = PULC__WIRE__TO_CLIENT__BODY_PORT_NEWS;
	msg.port_news = news;
	REQUIRE(client_lock());
	CHECK(native_dispatch(&msg, &nothing));
	client_unlock();
	native_take_news();
	/* Closed ones are forgotten once all is read that was sent before. */
	CHECK(!peer_serve(peer, 1));
}

static void hear_of(uint32_t port, bool opened)
{
	Pulc__Wire__PortNews news = PULC__WIRE__PORT_NEWS__INIT;

	if (opened) {
		news.opened = &port;
		news.n_opened = 1;
	} else {
		news.closed = &port;
		news.n_closed = 1;
	}
	hear(&news);
}

static void hear_of_all(uint32_t *ports, size_t n)
{
	Pulc__Wire__PortNews news = PULC__WIRE__PORT_NEWS__INIT;

	news.all = true;
	news.opened = ports;
	news.n_opened = n;
	hear(&news);
}

static void ports_one_by_one(void)
{
	begin();
	hear_of(80, true);
	hear_of(81, true);
	hear_of(80, false);
	CHECK(!peer_has(peer, 80));
	CHECK(peer_has(peer, 81));
	end();
}

/* Whatever was missed: what is not among all is closed, what is new among them is open. */
static void all_are_all(void)
{
	uint32_t all[] = { 81, 83 };

	begin();
	for (uint32_t port = 80; port < 83; port++)
		hear_of(port, true);
	hear_of_all(all, 2);
	for (uint32_t port = 80; port < 84; port++)
		CHECK_INT(peer_has(peer, port), ==, (port == 81 || port == 83));
	hear_of_all(NULL, 0);
	for (uint32_t port = 80; port < 84; port++)
		CHECK(!peer_has(peer, port));
	end();
}

static void as_many_as_there_may_be(void)
{
	static uint32_t all[N_PORTS];

	begin();
	for (uint32_t i = 0; i < N_PORTS; i++)
		all[i] = 70000 + i;
	hear_of_all(all, N_PORTS);
	CHECK(peer_has(peer, 70000) && peer_has(peer, 70000 + N_PORTS - 1));
	for (uint32_t i = 0; i < N_PORTS; i++)
		all[i] += N_PORTS / 2;
	hear_of_all(all, N_PORTS);
	CHECK(!peer_has(peer, 70000));
	CHECK(peer_has(peer, 70000 + N_PORTS / 2));
	CHECK(peer_has(peer, 70000 + N_PORTS + N_PORTS / 2 - 1));
	end();
}

static const struct test tests[] = {
	TEST(ports_one_by_one),
	TEST(all_are_all),
	TEST(as_many_as_there_may_be),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
