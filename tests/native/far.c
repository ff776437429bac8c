/*
 * Ports, messages with tags, blocks and a protocol of its own, played by a client towards a server
 * that may be on another node: what the client prints does not depend on where it is.
 *
 * 	far serve		until it is told to end, or its only client has gone
 * 	far play [NODE]		against the server of this node, or of that one
 * 	far cross NAME OTHER	two of them send to each other, looking for each other at the same time
 * 	far ask NODE		a question for each line that it reads ("long": of 16 MiB)
 * 	far hold NAME		opens a port, says so, and sleeps
 * 	far lose OTHER		sends to it and waits for an answer until its end is told
 * 	far absent NODE		what is there to be said of ports and nodes that are not there
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pulc/block.h>

#define MSEC_PATIENCE 40000
#define SIZE_MAX_MESSAGE (16u << 20)
#define SIZE_STREAM (3u << 20)
#define N_CROSS 2000u
#define NUMBER 21u /* of the protocol */
#define N_FRAMES 500u
#define TAG_ECHO 7u
#define TAG_BLOCK 8u
#define TAG_ANSWER 9u

static unsigned n_frames_wrong, n_frames;

static int failed(int line, long long what)
{
	printf("line %d: %s (%lld)\n", line, what < 0 ? strerror((int)-what) : "", what);
	return 1;
}

#define MUST(e)                                                                                    \
	do {                                                                                       \
		long long e_ = (e);                                                                \
		if (e_ < 0)                                                                        \
			return failed(__LINE__, e_);                                               \
	} while (0)
#define CHECK(c)                                                                                   \
	do {                                                                                       \
		if (!(c))                                                                          \
			return failed(__LINE__, 0);                                                \
	} while (0)

static void fill(unsigned char *buf, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525u + 1013904223u;
		buf[i] = (unsigned char)(seed >> 24);
	}
}

static uint64_t hash(const unsigned char *buf, size_t len, uint64_t before)
{
	for (size_t i = 0; i < len; i++)
		before = (before ^ buf[i]) * 1099511628211ull;
	return before;
}

/* Waits until a port of that name is there. */
static int find(const char *name, const char *node, struct pulc_address *ret)
{
	const struct timespec moment = { 0, 20000000 };
	char text[160];
	int e = -ENOENT;

	(void)snprintf(text, sizeof(text), "%s%s%s", name, node ? "@" : "", node ? node : "");
	for (int i = 0; i < MSEC_PATIENCE / 20 && (e == -ENOENT || e == -EHOSTUNREACH); i++) {
		e = pulc_find(text, ret);
		if (e < 0)
			(void)nanosleep(&moment, NULL);
	}
	return e;
}

static int same(const struct pulc_address *a, const struct pulc_address *b)
{
	return a->node == b->node && a->port == b->port;
}

/* Like pulc_receive, but not for ever. */
static ssize_t receive(pulc_port *port, void *buf, size_t len, struct pulc_address *ret_from)
{
	struct pulc_wait wait = { .port = port };
	int n = pulc_select(&wait, 1, NULL, 0, MSEC_PATIENCE);

	return n < 0 ? n : n == 0 ? -ETIMEDOUT : pulc_receive(port, buf, len, ret_from, 0);
}

/* ---- the server ------------------------------------------------------------------------------ */

/* A stream of one source: its hash, when all of it is there. */
static int serve_stream(pulc_port *m, unsigned char *buf)
{
	static uint64_t sum = 14695981039346656037ull;
	static size_t size;
	struct pulc_address from;
	ssize_t n = pulc_receive(m, buf, SIZE_MAX_MESSAGE, &from, 0);

	MUST(n);
	sum = hash(buf, (size_t)n, sum);
	size += (size_t)n;
	if (size == SIZE_STREAM)
		MUST(pulc_send(m, &from, &sum, sizeof(sum), 0));
	return 0;
}

/* What two sources write: how often each letter came, to each, when all is there. */
static int serve_bytes(pulc_port *s, unsigned char *buf)
{
	static struct pulc_address sources[2];
	static uint32_t counts[256], n_sources;
	static size_t size;
	struct pulc_address from;
	ssize_t n = pulc_receive(s, buf, SIZE_MAX_MESSAGE, &from, 0);

	MUST(n);
	if (n_sources == 0 || (n_sources == 1 && !same(&sources[0], &from)))
		sources[n_sources++] = from;
	for (ssize_t i = 0; i < n; i++)
		counts[buf[i]]++;
	size += (size_t)n;
	for (uint32_t i = 0; size == SIZE_STREAM && i < n_sources; i++)
		MUST(pulc_send(s, &sources[i], counts, sizeof(counts), 0));
	return 0;
}

/* Answers a datagram with itself. 1: it was empty. */
static int serve_message(pulc_port *d, unsigned char *buf)
{
	struct pulc_address from;
	ssize_t n = pulc_receive(d, buf, SIZE_MAX_MESSAGE, &from, 0), sent;

	MUST(n);
	if (n == 0)
		return 2;
	sent = pulc_send(d, &from, buf, (size_t)n, 0);
	/* The end of a link that it had before, which is told once. */
	if (sent == -ECONNRESET)
		sent = pulc_send(d, &from, buf, (size_t)n, 0);
	/* Who asks and goes is no failure of ours. */
	if (sent != -ECONNRESET && sent != -ECONNREFUSED)
		MUST(sent);
	return 0;
}

/* A message with a tag comes back as another one, a block in another block. */
static int serve_tagged(unsigned char *buf)
{
	struct pulc_tag want = { .peer = PULC_ANY_PEER };
	struct pulc_tagged m;
	const void *block;
	void *copy;

	if (pulc_tag_probe(&want, 0, &m) <= 0)
		return 0;
	want = (struct pulc_tag){ m.tag, PULC_TAG_EXACT, m.peer };
	if (m.tag != TAG_BLOCK) {
		MUST(pulc_tag_receive(&want, buf, SIZE_MAX_MESSAGE, NULL));
		MUST(pulc_tag_send(m.peer, TAG_ANSWER, buf, m.size));
		return 0;
	}
	MUST(pulc_tag_take(&want, SIZE_MAX_MESSAGE, &block, NULL));
	MUST(pulc_alloc(m.size, 0, &copy));
	memcpy(copy, block, m.size);
	MUST(pulc_free(block));
	MUST(pulc_tag_give(m.peer, TAG_ANSWER, copy, m.size));
	return 0;
}

/* A frame comes back with its bytes the other way round. */
static int turn_round(void *arg, const struct pulc_frame *f)
{
	unsigned char text[PULC_FRAME_MAX], turned[PULC_FRAME_MAX];

	(void)arg;
	(void)pulc_frame_copy(f, text, f->len);
	for (uint32_t i = 0; i < f->len; i++)
		turned[i] = text[f->len - 1 - i];
	(void)pulc_protocol_send(f, turned, 0);
	return 0;
}

static int serve(void)
{
	const struct pulc_protocol protocol = { .arrived = turn_round };
	const struct pulc_tag any = { .peer = PULC_ANY_PEER };
	unsigned char *buf = malloc(SIZE_MAX_MESSAGE);
	struct pulc_wait w[4] = { [3] = { .tag = &any } };
	int e = 0;

	CHECK(buf);
	MUST(pulc_protocol_register(NUMBER, &protocol));
	MUST(pulc_port_open(PULC_M, 0, "far-m", &w[1].port));
	MUST(pulc_port_open(PULC_S, 0, "far-s", &w[2].port));
	MUST(pulc_port_open(PULC_D, 0, "far-d", &w[0].port));
	while (e == 0) {
		int n = pulc_select(w, 4, NULL, 0, MSEC_PATIENCE);

		CHECK(n > 0);
		if (w[0].ready)
			e = serve_message(w[0].port, buf);
		if (e == 0 && w[1].ready)
			e = serve_stream(w[1].port, buf);
		if (e == 0 && w[2].ready)
			e = serve_bytes(w[2].port, buf);
		if (e == 0 && w[3].ready)
			e = serve_tagged(buf);
	}
	for (int i = 0; i < 3; i++)
		MUST(pulc_port_close(w[i].port));
	free(buf);
	return e == 2 ? 0 : e;
}

/* ---- the client ------------------------------------------------------------------------------ */

static int play_messages(const char *node, unsigned char *buf)
{
	static const size_t sizes[] = {
		1,     8,     64,    1984,  1985,   4096,     16384,
		16385, 65520, 65536, 65537, 200000, 1u << 20, SIZE_MAX_MESSAGE
	};
	unsigned char *answer = malloc(SIZE_MAX_MESSAGE);
	struct pulc_address server, from;
	pulc_port *port;

	CHECK(answer);
	MUST(find("far-d", node, &server));
	MUST(pulc_port_open(PULC_D, 0, NULL, &port));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		fill(buf, sizes[i], (uint32_t)i);
		MUST(pulc_send(port, &server, buf, sizes[i], 0));
		CHECK(receive(port, answer, SIZE_MAX_MESSAGE, &from) == (ssize_t)sizes[i]);
		CHECK(same(&from, &server) && memcmp(buf, answer, sizes[i]) == 0);
		printf("message of %zu came back\n", sizes[i]);
	}
	/* Many under way, those of a megabyte too; in order. */
	for (uint32_t i = 0; i < 600; i++) {
		size_t len = i % 100 == 99 ? 1u << 20 : 4 + i;

		fill(buf, len, i);
		MUST(pulc_send(port, &server, buf, len, 0));
		if (i % 20 != 19)
			continue;
		for (uint32_t k = i - 19; k <= i; k++) {
			len = k % 100 == 99 ? 1u << 20 : 4 + k;
			fill(buf, len, k);
			CHECK(receive(port, answer, SIZE_MAX_MESSAGE, NULL) == (ssize_t)len);
			CHECK(memcmp(buf, answer, len) == 0);
		}
	}
	printf("600 messages came back in order\n");
	MUST(pulc_send(port, &server, NULL, 0, 0)); /* it may be lost on its way */
	CHECK(pulc_receivev(port, &(struct iovec){ answer, 1 }, 1, &server, NULL, 0) < 0);
	MUST(pulc_port_close(port));
	free(answer);
	return 0;
}

/* In pieces of all sizes; the answer comes from the port that was written to. */
static int play_stream(const char *node, unsigned char *buf)
{
	const uint64_t expected = (fill(buf, SIZE_STREAM, 77),
				   hash(buf, SIZE_STREAM, 14695981039346656037ull));
	struct pulc_address server;
	uint64_t sum = 0;
	pulc_port *port;
	ssize_t n;

	MUST(find("far-m", node, &server));
	MUST(pulc_port_open(PULC_D, 0, NULL, &port));
	for (size_t at = 0, piece = 1; at < SIZE_STREAM; at += (size_t)n) {
		piece = piece * 3 % 100003 + 1;
		n = pulc_send(port, &server, buf + at,
			      piece < SIZE_STREAM - at ? piece : SIZE_STREAM - at, 0);
		MUST(n);
	}
	CHECK(receive(port, &sum, sizeof(sum), NULL) == (ssize_t)sizeof(sum) && sum == expected);
	printf("stream of %u bytes arrived\n", SIZE_STREAM);
	MUST(pulc_port_close(port));
	return 0;
}

static int play_bytes(const char *node, unsigned char *buf)
{
	struct pulc_address server;
	pulc_port *ports[2];
	uint32_t counts[256];

	MUST(find("far-s", node, &server));
	for (int i = 0; i < 2; i++)
		MUST(pulc_port_open(PULC_D, 0, NULL, &ports[i]));
	for (unsigned i = 0; i < 96; i++) {
		memset(buf, i % 2 ? 'a' : 'b', SIZE_STREAM / 96);
		MUST(pulc_send(ports[i % 2], &server, buf, SIZE_STREAM / 96, 0));
	}
	for (int i = 0; i < 2; i++) {
		CHECK(receive(ports[i], counts, sizeof(counts), NULL) == (ssize_t)sizeof(counts));
		CHECK(counts['a'] == SIZE_STREAM / 2 && counts['b'] == SIZE_STREAM / 2);
		MUST(pulc_port_close(ports[i]));
	}
	printf("two sources were read as one stream\n");
	return 0;
}

/* Operations that nobody waits for; a port opened behind the link; a child with its own ports. */
static int play_operations(const char *node, unsigned char *buf)
{
	struct pulc_address server;
	unsigned char *answer = malloc(1u << 20);
	pulc_port *port;
	pulc_op *ops[2];

	CHECK(answer);
	MUST(find("far-d", node, &server));
	MUST(pulc_port_open(PULC_D, 0, NULL, &port));
	fill(buf, 1u << 20, 5);
	MUST(pulc_ireceivev(port, &(struct iovec){ answer, 1u << 20 }, 1, &server, 0, &ops[0]));
	MUST(pulc_isend(port, &server, buf, 1u << 20, &ops[1]));
	CHECK(pulc_op_wait(&ops[0], 1, MSEC_PATIENCE) == 0);
	CHECK(pulc_op_end(ops[0], NULL) == 1 << 20 && pulc_op_end(ops[1], NULL) == 1 << 20);
	CHECK(memcmp(buf, answer, 1u << 20) == 0);
	printf("operations end\n");
	MUST(pulc_port_close(port));
	free(answer);
	return 0;
}

/* Under way in both directions, in order for each tag; short, and fetched by their receivers. */
static int play_tags(uint32_t peer, unsigned char *buf)
{
	static const size_t sizes[] = { 0, 1, 64, 16384, 16385, 65537, 1u << 20, 5u << 20 };
	const struct pulc_tag want = { TAG_ANSWER, PULC_TAG_EXACT, peer };
	static unsigned char answer[SIZE_MAX_MESSAGE];
	pulc_op *ops[2];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		fill(buf, sizes[i], (uint32_t)i);
		MUST(pulc_tag_ireceive(&want, answer, sizeof(answer), &ops[0]));
		MUST(pulc_tag_isend(peer, TAG_ECHO, buf, sizes[i], &ops[1]));
		for (int k = 0; k < 2; k++)
			CHECK(pulc_tag_end(ops[k], NULL) == (ssize_t)sizes[i]);
		CHECK(memcmp(buf, answer, sizes[i]) == 0);
		printf("tagged message of %zu came back\n", sizes[i]);
	}
	return 0;
}

static int play_blocks(uint32_t peer, unsigned char *buf)
{
	const struct pulc_tag want = { TAG_ANSWER, PULC_TAG_EXACT, peer };
	const void *answer;
	void *block;

	for (size_t size = 8; size <= 4u << 20; size *= 32) {
		fill(buf, size, (uint32_t)size);
		MUST(pulc_alloc(size, 0, &block));
		memcpy(block, buf, size);
		CHECK(pulc_tag_give(peer, TAG_BLOCK, block, size) == (ssize_t)size);
		CHECK(pulc_tag_take(&want, SIZE_MAX_MESSAGE, &answer, NULL) == (ssize_t)size);
		CHECK(memcmp(buf, answer, size) == 0);
		MUST(pulc_free(answer));
		printf("block of %zu came back\n", size);
	}
	return 0;
}

static uint32_t frame_len(uint64_t i)
{
	return (uint32_t)(i * 131 % (PULC_FRAME_MAX + 1));
}

/* Its word says which it is. */
static int turned_back(void *arg, const struct pulc_frame *f)
{
	unsigned char text[PULC_FRAME_MAX], sent[PULC_FRAME_MAX];
	uint32_t len = frame_len(f->word);

	(void)arg;
	fill(sent, len, (uint32_t)f->word);
	n_frames_wrong += f->word != n_frames || f->len != len ||
			  pulc_frame_copy(f, text, len) != len;
	for (uint32_t i = 0; f->len == len && i < len; i++)
		n_frames_wrong += text[i] != sent[len - 1 - i];
	n_frames++;
	return 0;
}

static int play_frames(uint32_t peer, unsigned char *buf)
{
	struct pulc_frame f = { .peer = peer, .protocol = NUMBER, .kind = 3 };
	uint64_t seen = 0;

	for (f.word = 0; f.word < N_FRAMES; f.word++) {
		f.len = frame_len(f.word);
		fill(buf, f.len, (uint32_t)f.word);
		MUST(pulc_protocol_send(&f, buf, 0));
	}
	while (n_frames < N_FRAMES)
		CHECK(pulc_progress(&seen, MSEC_PATIENCE) == 1);
	CHECK(n_frames_wrong == 0);
	printf("%u frames of a protocol came back in order\n", N_FRAMES);
	return 0;
}

static int play_process(const char *node, unsigned char *buf)
{
	struct pulc_address server;
	uint32_t peer;

	MUST(find("far-d", node, &server));
	MUST(pulc_peer_find(&server, &peer));
	return play_tags(peer, buf) || play_blocks(peer, buf) || play_frames(peer, buf);
}

static int child(const char *node)
{
	struct pulc_address server;
	unsigned char buf[1000], answer[1000];
	pulc_port *port;

	fill(buf, sizeof(buf), 9);
	MUST(find("far-d", node, &server));
	MUST(pulc_port_open(PULC_D, 0, NULL, &port));
	MUST(pulc_send(port, &server, buf, sizeof(buf), 0));
	CHECK(receive(port, answer, sizeof(answer), NULL) == (ssize_t)sizeof(answer));
	CHECK(memcmp(buf, answer, sizeof(answer)) == 0);
	return 0;
}

static int play_fork(const char *node)
{
	int status;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(child(node));
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	printf("a child has its own link\n");
	return 0;
}

static int play(const char *node)
{
	const struct pulc_protocol protocol = { .arrived = turned_back };
	unsigned char *buf = malloc(SIZE_MAX_MESSAGE);

	CHECK(buf);
	MUST(pulc_protocol_register(NUMBER, &protocol));
	if (play_stream(node, buf) || play_bytes(node, buf) || play_operations(node, buf) ||
	    play_process(node, buf) || play_fork(node) || play_messages(node, buf))
		return 1;
	free(buf);
	return 0;
}

/* ---- and others ------------------------------------------------------------------------------ */

/* OTHER is a name, or NAME@NODE. */
static int cross(const char *name, const char *other)
{
	struct pulc_address there, from;
	pulc_port *port;
	uint32_t i = 0, k = 0;

	MUST(pulc_port_open(PULC_D, 0, name, &port));
	MUST(find(other, NULL, &there));
	while (i < N_CROSS || k < N_CROSS) {
		uint32_t word;

		if (i < N_CROSS)
			MUST(pulc_send(port, &there, &i, sizeof(i), 0));
		i++;
		while (k < N_CROSS && (k < i || i >= N_CROSS)) {
			CHECK(receive(port, &word, sizeof(word), &from) == 4);
			CHECK(word == k && same(&from, &there));
			k++;
		}
	}
	printf("%u each way\n", N_CROSS);
	(void)fflush(stdout);
	/* Until somebody has counted the links. */
	for (;;)
		(void)pause();
}

static int hold(const char *name)
{
	pulc_port *port;

	MUST(pulc_port_open(PULC_D, 0, name, &port));
	printf("held\n");
	(void)fflush(stdout);
	for (;;)
		(void)pause();
}

static int lose(const char *other)
{
	struct pulc_address there;
	pulc_port *port;
	char buf[8] = "";
	ssize_t n;

	MUST(find(other, NULL, &there));
	MUST(pulc_port_open(PULC_D, 0, NULL, &port));
	MUST(pulc_send(port, &there, buf, sizeof(buf), 0));
	printf("sent\n");
	(void)fflush(stdout);
	n = pulc_receivev(port, &(struct iovec){ buf, sizeof(buf) }, 1, &there, NULL, 0);
	printf("%s\n", strerror((int)-n));
	return 0;
}

static int ask(const char *node)
{
	struct pulc_address server;
	static char question[SIZE_MAX_MESSAGE], answer[100];
	pulc_port *port;
	ssize_t n;

	MUST(find("far-d", node, &server));
	MUST(pulc_port_open(PULC_D, 0, NULL, &port));
	printf("ready\n");
	(void)fflush(stdout);
	while (fgets(question, sizeof(answer), stdin)) {
		n = pulc_send(port, &server, question,
			      strcmp(question, "long\n") == 0 ? SIZE_MAX_MESSAGE : strlen(question),
			      0);
		if (n > 0)
			n = pulc_receivev(port, &(struct iovec){ answer, sizeof(answer) }, 1,
					  &server, NULL, 0);
		if (n > 0)
			printf("%.*s", (int)n, answer);
		else
			printf("%s\n", strerror((int)-n));
		(void)fflush(stdout);
	}
	return 0;
}

static int absent(const char *node)
{
	char buf[8] = "", name[100];
	struct pulc_address to = { 0 };
	pulc_port *port;
	ssize_t n;

	MUST(pulc_port_open(PULC_D, 0, NULL, &port));
	MUST(pulc_find("far-d", &to) == -ENOENT ? 0 : -EEXIST);
	(void)snprintf(name, sizeof(name), "nobody@%s", node);
	printf("name: %s\n", strerror(-pulc_find(name, &to)));
	printf("node: %s\n", strerror(-pulc_find("far-d@nowhere", &to)));
	(void)snprintf(name, sizeof(name), "held@%s", node);
	MUST(pulc_find(name, &to));
	to.port = 4242;
	n = pulc_send(port, &to, buf, sizeof(buf), 0);
	printf("port: %s\n", strerror((int)-n));
	to.node ^= 0x5a5a;
	n = pulc_send(port, &to, buf, sizeof(buf), 0);
	printf("number: %s\n", strerror((int)-n));
	printf("names: %d %d %d\n", pulc_find("@n1", &to) == -EINVAL,
	       pulc_find("x@", &to) == -EINVAL,
	       pulc_port_open(PULC_D, 0, "x@n1", &port) == -EINVAL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "serve") == 0)
		return serve();
	if (strcmp(what, "play") == 0)
		return play(argc > 2 ? argv[2] : NULL);
	if (strcmp(what, "cross") == 0 && argc == 4)
		return cross(argv[2], argv[3]);
	if (strcmp(what, "ask") == 0 && argc == 3)
		return ask(argv[2]);
	if (strcmp(what, "hold") == 0 && argc == 3)
		return hold(argv[2]);
	if (strcmp(what, "lose") == 0 && argc == 3)
		return lose(argv[2]);
	if (strcmp(what, "absent") == 0 && argc == 3)
		return absent(argv[2]);
	return 2;
}
