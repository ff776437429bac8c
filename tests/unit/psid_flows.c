/* psid brings sender and receiver of UDP datagrams together, and nobody else. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psid/scene.h"

#define SENDER PULC__WIRE__TRANSPORT__TRANSPORT_UDP_SENDER
#define RECEIVER PULC__WIRE__TRANSPORT__TRANSPORT_UDP_RECEIVER
#define REASON(name) PULC__WIRE__REASON__REASON_##name

static struct fake_client c;

/* ---- sockets --------------------------------------------------------------------------------- */

struct end {
	int fd;
	uint16_t port;
};

static void address_of(const char *text, uint16_t port, struct sockaddr_in6 *ret,
		       socklen_t *ret_len)
{
	struct sockaddr_in *in4 = (struct sockaddr_in *)ret;

	memset(ret, 0, sizeof(*ret));
	ret->sin6_port = htons(port);
	if (strchr(text, ':')) {
		ret->sin6_family = AF_INET6;
		REQUIRE(inet_pton(AF_INET6, text, &ret->sin6_addr) == 1);
		*ret_len = sizeof(*ret);
	} else {
		ret->sin6_family = AF_INET;
		REQUIRE(inet_pton(AF_INET, text, &in4->sin_addr) == 1);
		*ret_len = sizeof(*in4);
	}
}

static struct end bound(const char *text)
{
	struct sockaddr_in6 at;
	struct end e;
	socklen_t len;

	address_of(text, 0, &at, &len);
	e.fd = socket(at.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	REQUIRE(e.fd >= 0 && bind(e.fd, (struct sockaddr *)&at, len) == 0);
	REQUIRE(getsockname(e.fd, (struct sockaddr *)&at, &len) == 0);
	e.port = ntohs(at.sin6_port);
	return e;
}

static void connect_end(const struct end *e, const char *text, uint16_t port)
{
	struct sockaddr_in6 to;
	socklen_t len;

	address_of(text, port, &to, &len);
	REQUIRE(connect(e->fd, (struct sockaddr *)&to, len) == 0);
}

/* ---- the dialogue ---------------------------------------------------------------------------- */

static void bytes_of(const char *text, uint8_t bytes[16])
{
	struct in6_addr in6;
	char mapped[64];

	(void)snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	REQUIRE(inet_pton(AF_INET6, mapped, &in6) == 1);
	memcpy(bytes, &in6, 16);
}

struct flow_hint {
	int fd; /* whose cookie it names */
	uint64_t token;
	Pulc__Wire__Transport transport;
	const char *local, *remote;
	uint16_t local_port, remote_port;
};

static void hint_with(struct fake_client *client, const struct flow_hint *f, uint64_t cookie)
{
	struct fake_hint h;
	socklen_t len = 8;

	pulc__wire__hint__init(&h.hint);
	pulc__wire__tuple__init(&h.tuple);
	bytes_of(f->local, h.local);
	bytes_of(f->remote, h.remote);
	h.tuple.local_addr = (ProtobufCBinaryData){ 16, h.local };
	h.tuple.remote_addr = (ProtobufCBinaryData){ 16, h.remote };
	h.tuple.local_port = f->local_port;
	h.tuple.remote_port = f->remote_port;
	h.hint.tuple = &h.tuple;
	h.hint.token = f->token;
	h.hint.transport = f->transport;
	h.hint.cookie = cookie;
	REQUIRE(getsockopt(f->fd, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &h.hint.netns_cookie,
			   &len) == 0);
	fake_hint_send(client, &h);
}

static void hint(struct fake_client *client, const struct flow_hint *f)
{
	socklen_t len = 8;
	uint64_t cookie;

	REQUIRE(getsockopt(f->fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0);
	hint_with(client, f, cookie);
}

/* Answers psid's request from this socket; wrong: with other bytes. ipv4: the flow is. */
static void prove(struct fake_client *client, uint64_t token, int fd, bool ipv4, bool wrong)
{
	const Pulc__Wire__Prove *m = EXPECT(client, PROVE)->prove;
	struct sockaddr_in6 to;
	uint8_t nonce[16];
	socklen_t len;
	int domain = 0;

	CHECK_INT(m->token, ==, token);
	REQUIRE_INT(m->nonce.len, ==, 16);
	memcpy(nonce, m->nonce.data, 16);
	nonce[15] ^= wrong;
	len = sizeof(domain);
	REQUIRE(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0);
	address_of(!ipv4	       ? "::1"
		   : domain == AF_INET ? "127.0.0.1"
				       : "::ffff:127.0.0.1",
		   (uint16_t)m->port, &to, &len);
	REQUIRE_INT(sendto(fd, nonce, 16, 0, (struct sockaddr *)&to, len), ==, 16);
}

/* What was sent before is heard: the loop has gone round. */
static void wait_heard(void)
{
	Pulc__Wire__StatusReply status;

	for (unsigned i = 0; i < 3; i++)
		fake_status(&psid, &status);
}

static void expect_deny(struct fake_client *client, uint64_t token, Pulc__Wire__Reason reason)
{
	const Pulc__Wire__Deny *m = EXPECT(client, DENY)->deny;

	CHECK_INT(m->token, ==, token);
	CHECK_INT(m->reason, ==, reason);
}

static uint64_t expect_upgrade(struct fake_client *client, uint64_t token)
{
	const Pulc__Wire__Upgrade *m = EXPECT(client, UPGRADE)->upgrade;

	CHECK_INT(m->token, ==, token);
	return m->conn;
}

/* The whole way of a flow from s to r, which says that it is bound to `local`. */
static void flow(const struct end *s, const char *from, const struct end *r, const char *to,
		 const char *local)
{
	const struct flow_hint of_s = { s->fd, 1, SENDER, from, to, s->port, r->port };
	const struct flow_hint of_r = { r->fd, 2, RECEIVER, local, from, r->port, s->port };
	uint64_t conn;

	hint(&a, &of_s);
	hint(&b, &of_r);
	prove(&a, 1, s->fd, !strchr(from, ':'), false);
	prove(&b, 2, r->fd, !strchr(from, ':'), false);
	conn = expect_upgrade(&a, 1);
	CHECK_INT(expect_upgrade(&b, 2), ==, conn ^ 1);
	fake_wait_counts(&psid, 2, 1);
	fake_closed(&a, conn);
	fake_closed(&b, conn ^ 1);
	fake_wait_counts(&psid, 2, 0);
}

static void close_ends(const struct end *s, const struct end *r)
{
	(void)close(s->fd);
	(void)close(r->fd);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void flows_of_all_kinds(void)
{
	static const struct {
		const char *send, *from, *receive, *to, *local;
	} kinds[] = {
		{ "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1" },
		{ "127.0.0.1", "127.0.0.1", "0.0.0.0", "127.0.0.1", "0.0.0.0" },
		{ "0.0.0.0", "127.0.0.1", "0.0.0.0", "127.0.0.2", "0.0.0.0" },
		{ "127.0.0.3", "127.0.0.3", "127.0.0.2", "127.0.0.2", "127.0.0.2" },
		{ "0.0.0.0", "127.0.0.1", "::", "127.0.0.1", "::" },
		{ "::ffff:127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1" },
		{ "::1", "::1", "::", "::1", "::" },
		{ "::", "::1", "::1", "::1", "::1" },
	};

	scene_begin(false, NULL);
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct end s = bound(kinds[i].send), r = bound(kinds[i].receive);

		flow(&s, kinds[i].from, &r, kinds[i].to, kinds[i].local);
		close_ends(&s, &r);
	}
	scene_end();
}

static void flows_of_connected_sockets(void)
{
	struct end s, r;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	connect_end(&s, "127.0.0.1", r.port);
	flow(&s, "127.0.0.1", &r, "127.0.0.1", "127.0.0.1");
	connect_end(&r, "127.0.0.1", s.port);
	flow(&s, "127.0.0.1", &r, "127.0.0.1", "127.0.0.1");
	flow(&r, "127.0.0.1", &s, "127.0.0.1", "127.0.0.1");
	close_ends(&s, &r);
	scene_end();
}

/* A datagram on that way would not come to the receiver: it is connected to somebody else. */
static void who_would_not_receive_is_refused(void)
{
	struct end s, r;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	connect_end(&r, "127.0.0.1", 9);
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	hint(&b,
	     &(struct flow_hint){ r.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port, s.port });
	expect_deny(&b, 2, REASON(STALE));
	CHECK(fake_is_quiet(&a));
	close_ends(&s, &r);
	scene_end();
}

/* It is so at first, and no longer when both have shown their sockets. */
static void what_changes_meanwhile_counts(void)
{
	struct end s, r;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	hint(&b,
	     &(struct flow_hint){ r.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port, s.port });
	prove(&b, 2, r.fd, true, false);
	wait_heard();
	connect_end(&r, "127.0.0.1", 9);
	prove(&a, 1, s.fd, true, false);
	expect_deny(&a, 1, REASON(WAITING_PEER));
	expect_deny(&b, 2, REASON(STALE));
	close_ends(&s, &r);
	scene_end();
}

static void broadcasts_and_strangers_stay_outside(void)
{
	static const char *const to[] = { "127.255.255.255", "255.255.255.255", "224.0.0.1",
					  "8.8.8.8" };
	struct end s, r;

	scene_begin(false, NULL);
	s = bound("0.0.0.0");
	r = bound("0.0.0.0");
	for (unsigned i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		hint(&a,
		     &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", to[i], s.port, r.port });
		hint(&b, &(struct flow_hint){ r.fd, 2, RECEIVER, "0.0.0.0", "127.0.0.1", r.port,
					      s.port });
		expect_deny(&a, 1, REASON(REMOTE));
		CHECK(fake_is_quiet(&b)); /* there may be others who send to it */
	}
	/* A source that is not ours to use. */
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "8.8.8.8", "127.0.0.1", s.port, r.port });
	hint(&b, &(struct flow_hint){ r.fd, 2, RECEIVER, "0.0.0.0", "8.8.8.8", r.port, s.port });
	expect_deny(&b, 2, REASON(REMOTE));
	expect_deny(&a, 1, REASON(REMOTE));
	close_ends(&s, &r);
	scene_end();
}

/* b says that it is the receiver; it is c's socket. */
static void who_has_no_socket_gets_nothing(void)
{
	struct end s, r, other;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	other = bound("127.0.0.1");
	for (unsigned i = 0; i < 2; i++) {
		hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port,
					      r.port });
		hint(&b, &(struct flow_hint){ r.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port,
					      s.port });
		prove(&b, 2, other.fd, true, false); /* the right number from the wrong place */
		expect_deny(&b, 2, REASON(STALE));
		/* The honest one goes on waiting, and need not say it again. */
		(void)EXPECT(&a, PROVE);
		hint(&b, &(struct flow_hint){ r.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port,
					      s.port });
		prove(&a, 1, s.fd, true, false);
		prove(&b, 2, r.fd, true, i == 0); /* wrong bytes are never heard */
		if (i == 0) {
			expect_deny(&a, 1, REASON(WAITING_PEER)); /* after HandOverMsec */
			continue;
		}
		(void)expect_upgrade(&a, 1);
		(void)expect_upgrade(&b, 2);
	}
	close_ends(&s, &r);
	(void)close(other.fd);
	scene_end();
}

/* The receiver's port is shared with another address: each proves its own only. */
static void an_address_is_not_a_port(void)
{
	struct sockaddr_in6 at;
	struct end s, r, other;
	socklen_t len;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	address_of("127.0.0.2", r.port, &at, &len);
	other.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	REQUIRE(bind(other.fd, (struct sockaddr *)&at, len) == 0);
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	hint(&b,
	     &(struct flow_hint){ r.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port, s.port });
	prove(&b, 2, other.fd, true, false);
	expect_deny(&b, 2, REASON(STALE));
	close_ends(&s, &r);
	(void)close(other.fd);
	scene_end();
}

/* By the cookie that the kernel takes for any: somebody else has the port on another address. */
static void a_cookie_names_one_socket(void)
{
	struct sockaddr_in6 at;
	struct end s, r, other;
	socklen_t len;

	scene_begin(false, NULL);
	fake_attach(&c, &psid, FAKE_SELF);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	address_of("127.0.0.2", r.port, &at, &len);
	other.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	REQUIRE(bind(other.fd, (struct sockaddr *)&at, len) == 0);
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	hint_with(&c,
		  &(struct flow_hint){ other.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port,
				       s.port },
		  UINT64_MAX);
	fake_expect_end(&c);
	CHECK(fake_is_quiet(&a));
	fake_close(&c);
	close_ends(&s, &r);
	(void)close(other.fd);
	scene_end();
}

/* Nor does the receiver's own cookie, or a stranger's address, in the mouth of one who has neither
 * end spoil the flow. */
static void what_a_stranger_says_is_his_fault(void)
{
	struct end s, r;

	scene_begin(false, NULL);
	fake_attach(&c, &psid, FAKE_SELF);
	s = bound("127.0.0.1");
	r = bound("0.0.0.0");
	hint(&b, &(struct flow_hint){ r.fd, 2, RECEIVER, "0.0.0.0", "127.0.0.1", r.port, s.port });
	hint(&c, &(struct flow_hint){ r.fd, 9, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	expect_deny(&c, 9, REASON(STALE));
	hint(&c, &(struct flow_hint){ s.fd, 9, SENDER, "127.0.0.1", "8.8.8.8", s.port, r.port });
	expect_deny(&c, 9, REASON(REMOTE));
	hint(&c, &(struct flow_hint){ s.fd, 9, SENDER, "127.0.0.1", "::1", s.port, r.port });
	expect_deny(&c, 9, REASON(STALE));
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	prove(&a, 1, s.fd, true, false);
	prove(&b, 2, r.fd, true, false);
	(void)expect_upgrade(&a, 1);
	(void)expect_upgrade(&b, 2);
	fake_close(&c);
	close_ends(&s, &r);
	scene_end();
}

/* A stranger says what b does, and is found first. The one whose user's the socket is comes
 * before. */
static void whose_socket_it_is_comes_first(void)
{
	struct end s, r;

	if (geteuid() != 0) {
		test_skip("needs root");
		return;
	}
	scene_begin(true, NULL);
	fake_attach(&c, &psid, 65534);
	s = bound("127.0.0.1");
	r = bound("0.0.0.0");
	hint(&b, &(struct flow_hint){ s.fd, 2, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	CHECK(fake_is_quiet(&b));
	hint(&c, &(struct flow_hint){ s.fd, 2, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	CHECK(fake_is_quiet(&c));
	hint(&a, &(struct flow_hint){ r.fd, 1, RECEIVER, "0.0.0.0", "127.0.0.1", r.port, s.port });
	prove(&a, 1, r.fd, true, false);
	prove(&b, 2, s.fd, true, false);
	(void)expect_upgrade(&a, 1);
	(void)expect_upgrade(&b, 2);
	CHECK(fake_is_quiet(&c));
	fake_close(&c);
	close_ends(&s, &r);
	scene_end();
}

/* With the sender's cookie, and an address at which somebody else receives. */
static void another_address_is_the_senders_word(void)
{
	const int on = 1;
	struct sockaddr_in6 at;
	struct end s, r, other;
	socklen_t len;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	r = bound("0.0.0.0");
	address_of("127.0.0.2", r.port, &at, &len);
	other.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	REQUIRE(setsockopt(r.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	REQUIRE(setsockopt(other.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	REQUIRE(bind(other.fd, (struct sockaddr *)&at, len) == 0);
	hint(&b, &(struct flow_hint){ r.fd, 2, RECEIVER, "0.0.0.0", "127.0.0.1", r.port, s.port });
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.2", s.port, r.port });
	expect_deny(&a, 1, REASON(STALE));
	CHECK(fake_is_quiet(&b));
	/* One that is no more is stale wherever it is sent to. */
	(void)close(r.fd);
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.2", s.port, r.port });
	expect_deny(&b, 2, REASON(STALE));
	CHECK(fake_is_quiet(&a));
	(void)close(s.fd);
	(void)close(other.fd);
	scene_end();
}

static void a_socket_is_not_its_own_peer(void)
{
	struct end s;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, s.port });
	expect_deny(&a, 1, REASON(UNSUPPORTED));
	(void)close(s.fd);
	s = bound("0.0.0.0");
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, s.port });
	expect_deny(&a, 1, REASON(UNSUPPORTED));
	(void)close(s.fd);
	scene_end();
}

/* The same flow twice; another source of the same receiver is another flow. */
static void a_flow_is_upgraded_once(void)
{
	struct end s, t, r;
	uint64_t conn[2];

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	t = bound("127.0.0.1");
	r = bound("0.0.0.0");
	hint(&b, &(struct flow_hint){ r.fd, 2, RECEIVER, "0.0.0.0", "127.0.0.1", r.port, s.port });
	hint(&b, &(struct flow_hint){ r.fd, 4, RECEIVER, "0.0.0.0", "127.0.0.1", r.port, t.port });
	hint(&a, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	prove(&a, 1, s.fd, true, false);
	prove(&b, 2, r.fd, true, false);
	conn[0] = expect_upgrade(&a, 1);
	(void)expect_upgrade(&b, 2);
	hint(&a, &(struct flow_hint){ t.fd, 3, SENDER, "127.0.0.1", "127.0.0.1", t.port, r.port });
	prove(&a, 3, t.fd, true, false);
	prove(&b, 4, r.fd, true, false);
	conn[1] = expect_upgrade(&a, 3);
	(void)expect_upgrade(&b, 4);
	CHECK_INT(conn[0], !=, conn[1]);
	hint(&a, &(struct flow_hint){ s.fd, 5, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	expect_deny(&a, 5, REASON(SHARED));
	/* Once it is closed it may be upgraded anew. */
	fake_closed(&a, conn[0]);
	fake_wait_counts(&psid, 2, 2);
	hint(&a, &(struct flow_hint){ s.fd, 5, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	CHECK(fake_is_quiet(&a));
	close_ends(&s, &r);
	(void)close(t.fd);
	scene_end();
}

static void a_tcp_hint_is_no_flow(void)
{
	struct end s, r;
	int fds[2];

	scene_begin(false, NULL);
	tcp_connect_pair(fds, AF_INET);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	/* The kernel knows no UDP socket there. */
	hint(&a,
	     &(struct flow_hint){ fds[0], 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	hint(&b,
	     &(struct flow_hint){ r.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port, s.port });
	expect_deny(&a, 1, REASON(STALE));
	tcp_close_pair(fds);
	close_ends(&s, &r);
	scene_end();
}

/* A receiver that is a client of another user's. */
static void users_may_talk(void)
{
	struct end s, r;

	if (geteuid() != 0) {
		test_skip("needs root");
		return;
	}
	daemon_start(&psid, true, NULL);
	fake_attach(&a, &psid, 65534);
	fake_attach(&b, &psid, FAKE_SELF);
	s = bound("127.0.0.1");
	r = bound("0.0.0.0");
	flow(&s, "127.0.0.1", &r, "127.0.0.1", "0.0.0.0");
	close_ends(&s, &r);
	scene_end();
}

/* A client that says a socket instead of proving a flow makes no sense. */
static void a_socket_for_a_flow_is_malformed(void)
{
	struct end s, r;

	scene_begin(false, NULL);
	s = bound("127.0.0.1");
	r = bound("127.0.0.1");
	fake_attach(&c, &psid, FAKE_SELF);
	hint(&c, &(struct flow_hint){ s.fd, 1, SENDER, "127.0.0.1", "127.0.0.1", s.port, r.port });
	hint(&b,
	     &(struct flow_hint){ r.fd, 2, RECEIVER, "127.0.0.1", "127.0.0.1", r.port, s.port });
	(void)EXPECT(&c, PROVE);
	fake_socket(&c, s.fd, 1);
	fake_expect_end(&c);
	fake_close(&c);
	close_ends(&s, &r);
	scene_end();
}

static const struct test tests[] = {
	TEST(flows_of_all_kinds),
	TEST(flows_of_connected_sockets),
	TEST(who_would_not_receive_is_refused),
	TEST(what_changes_meanwhile_counts),
	TEST(broadcasts_and_strangers_stay_outside),
	TEST(who_has_no_socket_gets_nothing),
	TEST(an_address_is_not_a_port),
	TEST(a_cookie_names_one_socket),
	TEST(what_a_stranger_says_is_his_fault),
	TEST(whose_socket_it_is_comes_first),
	TEST(another_address_is_the_senders_word),
	TEST(a_socket_is_not_its_own_peer),
	TEST(a_flow_is_upgraded_once),
	TEST(a_tcp_hint_is_no_flow),
	TEST(users_may_talk),
	TEST(a_socket_for_a_flow_is_malformed),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
