/*
 * tools/pulcctl/query.c against a psid that is a thread of this test: it plays a script of
 * replies, right and wrong ones, to whoever connects.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "channel.h"
#include "harness.h"
#include "pulcctl/query.h"

#define N_REPLIES_MAX 4

/* One conversation: replies[0] answers Hello, the rest the question; then the socket is closed. */
struct script {
	Pulc__Wire__ToClient replies[N_REPLIES_MAX];
	size_t n;
	const char *garbage; /* sent instead of the last reply */
	bool dies_first;     /* another conversation before, in which nothing is said */
	int listener;
	pthread_t thread;
};

static char dir[64], path[108];

static void await_message(int fd)
{
	char byte;

	(void)recv(fd, &byte, 1, MSG_TRUNC);
}

static void *play(void *arg)
{
	struct script *s = arg;
	int fd = accept(s->listener, NULL, NULL);

	await_message(fd);
	if (s->dies_first) {
		(void)close(fd);
		fd = accept(s->listener, NULL, NULL);
		await_message(fd);
	}
	for (size_t i = 0; i < s->n; i++) {
		if (i == 1)
			await_message(fd);
		if (s->garbage && i + 1 == s->n)
			(void)send(fd, s->garbage, strlen(s->garbage), MSG_NOSIGNAL);
		else
			(void)wire_send_to_client(fd, &s->replies[i], NULL, 0);
	}
	close(fd);
	return NULL;
}

static void start(struct script *s)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	(void)unlink(path);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	REQUIRE_INT(bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
	REQUIRE_INT(listen(s->listener, 1), ==, 0);
	REQUIRE_INT(pthread_create(&s->thread, NULL, play, s), ==, 0);
}

static void finish(struct script *s)
{
	(void)pthread_join(s->thread, NULL);
	close(s->listener);
	(void)unlink(path);
}

static Pulc__Wire__Welcome welcome = PULC__WIRE__WELCOME__INIT;
static Pulc__Wire__SocketEntry entry = PULC__WIRE__SOCKET_ENTRY__INIT;
static Pulc__Wire__SocketEntry *entries[] = { &entry };

static Pulc__Wire__ToClient reply_welcome(void)
{
	Pulc__Wire__ToClient m = PULC__WIRE__TO_CLIENT__INIT;

	m.body_case = PULC__WIRE__TO_CLIENT__BODY_WELCOME;
	m.welcome = &welcome;
	return m;
}

static Pulc__Wire__ToClient reply_sockets(Pulc__Wire__SocketsReply *reply, bool more)
{
	Pulc__Wire__ToClient m = PULC__WIRE__TO_CLIENT__INIT;

	*reply = (Pulc__Wire__SocketsReply)PULC__WIRE__SOCKETS_REPLY__INIT;
	reply->sockets = entries;
	reply->n_sockets = 1;
	reply->more = more;
	m.body_case = PULC__WIRE__TO_CLIENT__BODY_SOCKETS;
	m.sockets = reply;
	return m;
}

static int converse(struct script *s, struct ctl_psid *psid, struct ctl_replies *replies)
{
	int r;

	start(s);
	r = ctl_psid_open(psid);
	if (r == 0)
		r = ctl_ask(psid, PULC__WIRE__FROM_CLIENT__BODY_SOCKETS, replies);
	return r;
}

static void collects_every_part(void)
{
	Pulc__Wire__SocketsReply first, second;
	struct script s = {
		.replies = { reply_welcome(), reply_sockets(&first, true),
			     reply_sockets(&second, false) },
		.n = 3,
	};
	struct ctl_replies replies = { 0 };
	struct ctl_psid psid;

	CHECK_INT(converse(&s, &psid, &replies), ==, 0);
	CHECK_INT(replies.n, ==, 2);
	CHECK_STR(psid.path, path);
	CHECK_INT(ctl_await_end(&psid, -EBADF), ==, 0);
	ctl_replies_deinit(&replies);
	ctl_psid_close(&psid);
	finish(&s);
}

static void refusal_is_told(void)
{
	Pulc__Wire__Refuse refuse = PULC__WIRE__REFUSE__INIT;
	Pulc__Wire__ToClient m = PULC__WIRE__TO_CLIENT__INIT;
	struct script s = { .n = 1 };
	struct ctl_replies replies = { 0 };
	struct ctl_psid psid;

	refuse.reason = PULC__WIRE__REASON__REASON_VERSION;
	refuse.text = (char *)"too old";
	m.body_case = PULC__WIRE__TO_CLIENT__BODY_REFUSE;
	m.refuse = &refuse;
	s.replies[0] = m;
	CHECK_INT(converse(&s, &psid, &replies), ==, -ECONNREFUSED);
	REQUIRE(ctl_refusal(&psid) != NULL);
	CHECK_STR(ctl_refusal(&psid)->text, "too old");
	ctl_psid_close(&psid);
	finish(&s);
}

static void refusal_of_the_question_is_told(void)
{
	Pulc__Wire__Refuse refuse = PULC__WIRE__REFUSE__INIT;
	Pulc__Wire__ToClient m = PULC__WIRE__TO_CLIENT__INIT;
	struct script s = { .replies = { reply_welcome() }, .n = 2 };
	struct ctl_replies replies = { 0 };
	struct ctl_psid psid;

	m.body_case = PULC__WIRE__TO_CLIENT__BODY_REFUSE;
	m.refuse = &refuse;
	s.replies[1] = m;
	CHECK_INT(converse(&s, &psid, &replies), ==, -ECONNREFUSED);
	CHECK(ctl_refusal(&psid) != NULL);
	CHECK_INT(replies.n, ==, 0);
	ctl_psid_close(&psid);
	finish(&s);
}

static void nonsense_is_malformed(void)
{
	Pulc__Wire__SocketsReply part;
	struct script wrong_kind = { .replies = { reply_welcome(), reply_welcome() }, .n = 2 };
	struct script no_welcome = { .replies = { reply_sockets(&part, false) }, .n = 1 };
	struct script garbage = { .replies = { reply_welcome() }, .n = 2, .garbage = "\xff\xff" };
	struct script *scripts[] = { &wrong_kind, &no_welcome, &garbage };

	for (size_t i = 0; i < 3; i++) {
		struct ctl_replies replies = { 0 };
		struct ctl_psid psid;

		CHECK_INT(converse(scripts[i], &psid, &replies), ==, -EBADMSG);
		CHECK_INT(replies.n, ==, 0);
		ctl_psid_close(&psid);
		finish(scripts[i]);
	}
}

static void the_next_one_is_asked(void)
{
	Pulc__Wire__SocketsReply part;
	struct script s = { .replies = { reply_welcome(), reply_sockets(&part, false) },
			    .n = 2,
			    .dies_first = true };
	struct ctl_replies replies = { 0 };
	struct ctl_psid psid;
	int r = converse(&s, &psid, &replies);

	if (r == -EPIPE) { /* for the script to go on */
		ctl_psid_close(&psid);
		(void)ctl_psid_open(&psid);
	}
	CHECK_INT(r, ==, 0);
	CHECK_INT(replies.n, ==, 1);
	ctl_replies_deinit(&replies);
	ctl_psid_close(&psid);
	finish(&s);
}

static void an_early_end_is_told(void)
{
	Pulc__Wire__SocketsReply part;
	struct script s = { .replies = { reply_welcome(), reply_sockets(&part, true) }, .n = 2 };
	struct ctl_replies replies = { 0 };
	struct ctl_psid psid;

	CHECK_INT(converse(&s, &psid, &replies), ==, -EPIPE);
	CHECK_INT(replies.n, ==, 0);
	ctl_psid_close(&psid);
	finish(&s);
}

static void process_is_the_peer_s(void)
{
	struct script s = { .replies = { reply_welcome() }, .n = 1 };
	struct ctl_psid psid;
	int fd = -EBADF;

	start(&s);
	CHECK_INT(ctl_psid_open(&psid), ==, 0);
	CHECK_INT(ctl_pidfd(&psid, (unsigned)getpid() + 1, &fd), ==, -ESRCH);
	CHECK_INT(fd, ==, -EBADF);
	CHECK_INT(ctl_pidfd(&psid, (unsigned)getpid(), &fd), ==, 0);
	CHECK_INT(fd, >=, 0);
	close(fd);
	ctl_psid_close(&psid);
	finish(&s);
}

static void only_questions_are_asked(void)
{
	struct script s = { .replies = { reply_welcome() }, .n = 1 };
	struct ctl_replies replies = { 0 };
	struct ctl_psid psid;

	start(&s);
	CHECK_INT(ctl_psid_open(&psid), ==, 0);
	CHECK_INT(ctl_ask(&psid, PULC__WIRE__FROM_CLIENT__BODY_HINT, &replies), ==, -EINVAL);
	ctl_psid_close(&psid);
	finish(&s);
}

static void no_psid_is_told(void)
{
	struct ctl_psid psid;
	int r = ctl_psid_open(&psid);

	if (r == 0)
		test_skip("a psid of this machine runs at %s", psid.path);
	else
		CHECK_INT(r, ==, -ENOENT);
	ctl_psid_close(&psid);
}

static const struct test tests[] = {
	TEST(collects_every_part),
	TEST(refusal_is_told),
	TEST(refusal_of_the_question_is_told),
	TEST(nonsense_is_malformed),
	TEST(an_early_end_is_told),
	TEST(the_next_one_is_asked),
	TEST(only_questions_are_asked),
	TEST(no_psid_is_told),
	TEST(process_is_the_peer_s),
};

int main(int argc, char **argv)
{
	int status;

	tests_hide_psids();
	(void)snprintf(dir, sizeof(dir), "/tmp/pulc-query.XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	(void)snprintf(path, sizeof(path), "%s/psid.sock", dir);
	/* No other psid of this machine may answer in its place. */
	setenv("PULC_SOCKET", path, 1);
	setenv("PULC_RUNTIME_DIR", dir, 1);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	status = TESTS_RUN(tests, argc, argv);
	(void)rmdir(dir);
	return status;
}
