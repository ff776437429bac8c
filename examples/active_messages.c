/*
 * A protocol of one's own: active messages. A request names the handler that runs at the other end;
 * its answer runs a handler here.
 *
 * 	cc active_messages.c $(pkg-config --cflags --libs pulc) -o active_messages
 * 	./active_messages server &
 * 	./active_messages client WORD...
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <pulc/pulc.h>

#define NUMBER 20 /* of the protocol, the same in all programs that speak it */
#define LEN_MAX 256

/* Kinds of frames. The word is the asker's and comes back in the answer. */
enum { REVERSE = 1, LENGTH, STOP, ANSWER };

static int fail(const char *what, int error)
{
	fprintf(stderr, "active_messages: %s: %s\n", what, strerror(-error));
	return 1;
}

/* ---- the server: requests and what they do --------------------------------------------------- */

static uint32_t do_reverse(char *text, uint32_t len)
{
	for (uint32_t i = 0; i < len / 2; i++) {
		char c = text[i];

		text[i] = text[len - 1 - i];
		text[len - 1 - i] = c;
	}
	return len;
}

static uint32_t do_length(char *text, uint32_t len)
{
	return (uint32_t)snprintf(text, LEN_MAX, "%u", (unsigned)len);
}

static int serve_one(void *arg, const struct pulc_frame *f)
{
	struct pulc_frame answer = *f;
	char text[LEN_MAX];
	int *stop = arg;

	if (f->kind < REVERSE || f->kind > STOP || f->len > sizeof(text))
		return -EBADMSG; /* whoever sends this is no client of ours: away with it */
	*stop |= f->kind == STOP;
	(void)pulc_frame_copy(f, text, f->len);
	if (f->kind == REVERSE)
		answer.len = do_reverse(text, f->len);
	else if (f->kind == LENGTH)
		answer.len = do_length(text, f->len);
	answer.kind = ANSWER;
	(void)pulc_protocol_send(&answer, text, 0); /* a client that has gone needs none */
	return 0;
}

static int serve(void)
{
	int stop = 0, e;
	struct pulc_protocol protocol = { .arrived = serve_one, .arg = &stop };
	uint64_t seen = 0;
	pulc_port *port;

	e = pulc_protocol_register(NUMBER, &protocol);
	if (e == 0)
		e = pulc_port_open(PULC_D, 0, "active_messages", &port); /* to be found by */
	if (e < 0)
		return fail("cannot begin", e);
	while (e >= 0 && !stop)
		e = pulc_progress(&seen, -1);
	(void)pulc_port_close(port);
	return e < 0 ? fail("cannot go on", e) : 0;
}

/* ---- the client: answers --------------------------------------------------------------------- */

struct asked {
	unsigned n_answers;
	int error; /* the server is gone */
};

static int print_answer(void *arg, const struct pulc_frame *f)
{
	struct asked *asked = arg;
	char text[LEN_MAX];
	int len = (int)pulc_frame_copy(f, text, sizeof(text));

	if (f->kind != ANSWER)
		return -EBADMSG;
	if (f->word > 0)
		printf("%llu: %.*s\n", (unsigned long long)f->word, len, text);
	asked->n_answers++;
	return 0;
}

static void server_gone(void *arg, uint32_t peer, int error)
{
	struct asked *asked = arg;

	(void)peer; /* the only one that we know */
	asked->error = error;
}

static int ask(struct pulc_frame *f, const char *text)
{
	f->len = (uint32_t)strlen(text);
	return f->len > LEN_MAX ? -EMSGSIZE : pulc_protocol_send(f, text, 0);
}

/* Sends everything, and then waits for all answers. */
static int play(char **words, unsigned n)
{
	struct asked asked = { .n_answers = 0 };
	struct pulc_protocol protocol = { print_answer, server_gone, &asked };
	struct pulc_frame f = { .protocol = NUMBER };
	struct pulc_address server;
	uint64_t seen = 0;
	int e;

	e = pulc_protocol_register(NUMBER, &protocol);
	if (e == 0)
		e = pulc_find("active_messages", &server);
	if (e == 0)
		e = pulc_peer_find(&server, &f.peer);
	for (unsigned i = 0; e == 0 && i < 2 * n; i++) {
		f.kind = i % 2 ? LENGTH : REVERSE;
		f.word = 1 + i / 2;
		e = ask(&f, words[i / 2]);
	}
	f.kind = STOP;
	f.word = 0;
	if (e == 0)
		e = ask(&f, "");
	while (e >= 0 && asked.n_answers < 2 * n + 1 && asked.error == 0)
		e = pulc_progress(&seen, -1);
	e = e < 0 ? e : asked.n_answers < 2 * n + 1 ? asked.error : 0;
	return e < 0 ? fail("no answer (do a psid and the server run?)", e) : 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "server") == 0)
		return serve();
	if (argc >= 3 && strcmp(argv[1], "client") == 0)
		return play(argv + 2, (unsigned)argc - 2);
	fputs("usage: active_messages server | active_messages client WORD...\n", stderr);
	return 2;
}
