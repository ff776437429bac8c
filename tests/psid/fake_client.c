/* Clients that say what a test makes them say; see the header. */
#include "psid/fake_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MSEC_PATIENCE 10000

/* ---- clients --------------------------------------------------------------------------------- */

/* The process behind a client: connects, says so, sleeps until it is killed. */
static void be_client(int fd, const char *path, uid_t uid, int done)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char result;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	/* No copy of another client's socket may live on here. */
	done = fcntl(done, F_DUPFD, 10);
	(void)dup2(fd, 3);
	(void)dup2(done, 4);
	(void)close_range(5, ~0u, 0);
	result = (uid == FAKE_SELF || setuid(uid) == 0) &&
		 connect(3, (struct sockaddr *)&address, sizeof(address)) == 0;
	(void)close(3);
	(void)!write(4, &result, 1);
	for (;;)
		(void)pause();
}

void fake_open(struct fake_client *c, const struct daemon *d, uid_t uid)
{
	int done[2];
	char result = 0;

	*c = (struct fake_client){ .pid = -1 };
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE(c->fd >= 0 && pipe(done) == 0);
	c->pid = fork();
	REQUIRE(c->pid >= 0);
	if (c->pid == 0)
		be_client(c->fd, d->socket, uid, done[1]);
	REQUIRE(read(done[0], &result, 1) == 1);
	REQUIRE(result == 1);
	(void)close(done[0]);
	(void)close(done[1]);
}

void fake_kill(struct fake_client *c)
{
	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL);
		(void)waitpid(c->pid, NULL, 0);
	}
	c->pid = -1;
}

static void forget_message(struct fake_client *c)
{
	if (c->msg)
		pulc__wire__to_client__free_unpacked(c->msg, NULL);
	c->msg = NULL;
	while (c->n_fds > 0)
		if (c->fds[--c->n_fds] >= 0)
			(void)close(c->fds[c->n_fds]);
}

void fake_close(struct fake_client *c)
{
	forget_message(c);
	fake_kill(c);
	if (c->fd >= 0)
		(void)close(c->fd);
	c->fd = -1;
}

void fake_send(struct fake_client *c, const Pulc__Wire__FromClient *msg, const int *fds,
	       size_t n_fds)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };
	int r;

	while ((r = wire_send_from_client(c->fd, msg, fds, n_fds)) == -EAGAIN)
		REQUIRE_INT(poll(&p, 1, MSEC_PATIENCE), ==, 1);
	REQUIRE_INT(r, ==, 0);
}

void fake_hello(struct fake_client *c, Pulc__Wire__Role role)
{
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;
	FROM_CLIENT(msg, HELLO, hello) = &hello;

	hello.version = WIRE_VERSION;
	hello.layout = SHM_VERSION;
	hello.role = role;
	hello.program = (char *)"fake";
	fake_send(c, &msg, NULL, 0);
}

void fake_attach(struct fake_client *c, const struct daemon *d, uid_t uid)
{
	const Pulc__Wire__ToClient *msg;

	fake_open(c, d, uid);
	fake_hello(c, PULC__WIRE__ROLE__ROLE_PROCESS);
	msg = EXPECT(c, WELCOME);
	c->id = msg->welcome->client;
	c->credit = msg->welcome->credit;
	CHECK_INT(c->n_fds, ==, 1);
}

static uint16_t normalise(const struct sockaddr_storage *address, uint8_t bytes[16])
{
	const struct sockaddr_in *in = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;

	if (address->ss_family == AF_INET6) {
		memcpy(bytes, &in6->sin6_addr, 16);
		return ntohs(in6->sin6_port);
	}
	memset(bytes, 0, 10);
	memset(bytes + 10, 0xff, 2);
	memcpy(bytes + 12, &in->sin_addr, 4);
	return ntohs(in->sin_port);
}

void fake_hint_fill(struct fake_hint *h, int socket, uint64_t token, bool connector)
{
	struct sockaddr_storage local, remote;
	socklen_t len = sizeof(local), len8 = 8;

	REQUIRE(getsockname(socket, (struct sockaddr *)&local, &len) == 0);
	len = sizeof(remote);
	REQUIRE(getpeername(socket, (struct sockaddr *)&remote, &len) == 0);
	pulc__wire__hint__init(&h->hint);
	pulc__wire__tuple__init(&h->tuple);
	h->hint.token = token;
	h->hint.connector = connector;
	REQUIRE(getsockopt(socket, SOL_SOCKET, SO_COOKIE, &h->hint.cookie, &len8) == 0);
	REQUIRE(getsockopt(socket, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &h->hint.netns_cookie,
			   &len8) == 0);
	h->tuple.local_port = normalise(&local, h->local);
	h->tuple.remote_port = normalise(&remote, h->remote);
	h->tuple.local_addr = (ProtobufCBinaryData){ 16, h->local };
	h->tuple.remote_addr = (ProtobufCBinaryData){ 16, h->remote };
	h->hint.tuple = &h->tuple;
}

void fake_hint_send(struct fake_client *c, struct fake_hint *h)
{
	FROM_CLIENT(msg, HINT, hint) = &h->hint;

	fake_send(c, &msg, NULL, 0);
}

void fake_hint(struct fake_client *c, int socket, uint64_t token, bool connector)
{
	struct fake_hint h;

	fake_hint_fill(&h, socket, token, connector);
	fake_hint_send(c, &h);
}

void fake_socket(struct fake_client *c, int socket, uint64_t token)
{
	Pulc__Wire__Socket body = PULC__WIRE__SOCKET__INIT;
	FROM_CLIENT(msg, SOCKET, socket) = &body;

	body.token = token;
	fake_send(c, &msg, &socket, 1);
}

void fake_closed(struct fake_client *c, uint64_t conn)
{
	Pulc__Wire__Closed closed = PULC__WIRE__CLOSED__INIT;
	FROM_CLIENT(msg, CLOSED, closed) = &closed;

	closed.conn = conn;
	fake_send(c, &msg, NULL, 0);
}

/* ---- what psid says -------------------------------------------------------------------------- */

const Pulc__Wire__ToClient *fake_receive(struct fake_client *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	static uint8_t buf[WIRE_SIZE_MAX];
	size_t len;
	int r;

	forget_message(c);
	while ((r = wire_recv(c->fd, buf, &len, c->fds, &c->n_fds)) == -EAGAIN)
		REQUIRE_INT(poll(&p, 1, MSEC_PATIENCE), ==, 1);
	if (r == -EPIPE)
		return NULL;
	REQUIRE_INT(r, ==, 0);
	c->msg = pulc__wire__to_client__unpack(NULL, len, buf);
	REQUIRE(c->msg != NULL);
	return c->msg;
}

const Pulc__Wire__ToClient *fake_expect(struct fake_client *c, Pulc__Wire__ToClient__BodyCase kind)
{
	const Pulc__Wire__ToClient *msg = fake_receive(c);

	REQUIRE(msg != NULL);
	REQUIRE_INT(msg->body_case, ==, kind);
	return msg;
}

bool fake_is_quiet(struct fake_client *c)
{
	Pulc__Wire__StatusRequest body = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(msg, STATUS, status) = &body;

	fake_send(c, &msg, NULL, 0);
	return fake_receive(c) && c->msg->body_case == PULC__WIRE__TO_CLIENT__BODY_STATUS;
}

void fake_expect_end(struct fake_client *c)
{
	while (fake_receive(c))
		;
}

void fake_expect_refusal(struct fake_client *c, Pulc__Wire__Reason reason)
{
	CHECK_INT(EXPECT(c, REFUSE)->refuse->reason, ==, reason);
	CHECK(strlen(c->msg->refuse->text) > 10);
	CHECK(fake_receive(c) == NULL);
	fake_close(c);
}

void fake_status(struct daemon *d, Pulc__Wire__StatusReply *ret_status)
{
	Pulc__Wire__StatusRequest body = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(msg, STATUS, status) = &body;
	struct fake_client c;

	fake_open(&c, d, FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	fake_send(&c, &msg, NULL, 0);
	*ret_status = *EXPECT(&c, STATUS)->status;
	ret_status->users = NULL;
	ret_status->refused = NULL;
	ret_status->version = ret_status->socket_path = NULL;
	fake_close(&c);
}

void fake_wait_counts(struct daemon *d, uint32_t n_clients, uint32_t n_connections)
{
	Pulc__Wire__StatusReply status;
	time_t end = time(NULL) + MSEC_PATIENCE / 1000;

	do
		fake_status(d, &status);
	while ((status.n_clients != n_clients || status.n_connections != n_connections) &&
	       time(NULL) < end);
	CHECK_INT(status.n_clients, ==, n_clients);
	CHECK_INT(status.n_connections, ==, n_connections);
}

void fake_wait_no_areas(struct daemon *d)
{
	Pulc__Wire__StatusReply status;
	time_t end = time(NULL) + MSEC_PATIENCE / 1000;

	do
		fake_status(d, &status);
	while ((status.n_areas || status.size_bytes) && time(NULL) < end);
	CHECK_INT(status.n_areas, ==, 0);
	CHECK_INT(status.size_bytes, ==, 0);
}
