/*
 * A port that a process shares with those that it has forked: all send from it and receive from it
 * at once, each message goes to exactly one of them, in order for each source and process, whatever
 * its kind and length.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "psid/native_guests.h"

#define N_SENDERS 2u
#define N_GUESTS 3u
#define N_MESSAGES 300u
#define SIZE_LONG (16u << 20)
#define SIZE_STREAM (6u << 20)

static unsigned char buf[SIZE_LONG + 1];

static struct {
	_Atomic unsigned char had[N_SENDERS][N_MESSAGES];
	_Atomic unsigned char stream_had[SIZE_STREAM / 8];
	_Atomic uint32_t n_had, n_of_guests;
} * shared;

static void begin(void)
{
	shared = native_share(sizeof(*shared));
}

static void end(void)
{
	native_unshare(shared, sizeof(*shared));
}

/* An owner that takes all that it finds may have everything before a guest has come. */
static void serve_until_a_guest_has_some(void)
{
	while (!atomic_load(&shared->n_of_guests))
		serve();
}

/* ---- all at once ----------------------------------------------------------------------------- */

struct numbered {
	uint32_t sender, number;
};

static size_t size_of(uint32_t sender, uint32_t number)
{
	if (number % 50 == 49)
		return 300000 + sender;
	return 8 + (number * 97 + sender) % (number % 7 == 6 ? 30000 : 300);
}

static void send_numbered(uint32_t sender)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("shared"), from;
	uint32_t answer;

	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		const struct numbered head = { sender, i };

		native_fill(buf, size_of(sender, i), i);
		memcpy(buf, &head, sizeof(head));
		MUST_IS(pulc_send(p, &to, buf, size_of(sender, i), 0), size_of(sender, i));
	}
	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		MUST_IS(pulc_receive(p, &answer, 4, &from, 0), 4);
		MUST_IS(from.port, to.port);
	}
	native_reach(sender);
	MUST_IS(pulc_port_close(p), 0);
}

static void sender_0(void)
{
	send_numbered(0);
}

static void sender_1(void)
{
	send_numbered(1);
}

static uint32_t last_of[N_SENDERS];

/* And answers, from the shared port. */
static void take(pulc_port *p, ssize_t n, const struct pulc_address *from)
{
	struct numbered head;

	MUST(n >= (ssize_t)sizeof(head));
	memcpy(&head, buf, sizeof(head));
	MUST(head.sender < N_SENDERS && head.number < N_MESSAGES);
	MUST_IS(n, size_of(head.sender, head.number));
	native_fill(buf, 8, head.number);
	MUST(native_holds(buf, (size_t)n, head.number));
	MUST(head.number + 1 > last_of[head.sender]);
	last_of[head.sender] = head.number + 1;
	MUST(!atomic_exchange(&shared->had[head.sender][head.number], 1));
	MUST_IS(pulc_send(p, from, &head.number, 4, 0), 4);
	atomic_fetch_add(&shared->n_had, 1);
}

static void guest_until_empty(pulc_port *p)
{
	struct pulc_address from;
	ssize_t n;

	while ((n = pulc_receive(p, buf, sizeof(buf), &from, 0)) != 0) {
		take(p, n, &from);
		atomic_fetch_add(&shared->n_of_guests, 1);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void owner(void)
{
	pulc_port *p = native_open(PULC_D, "shared"), *other = native_open(PULC_D, NULL);
	struct pulc_address self = pulc_port_address(p), from;
	pid_t pids[N_GUESTS];
	ssize_t n;

	for (unsigned i = 0; i < N_GUESTS; i++)
		pids[i] = start(guest_until_empty, p);
	serve_until_a_guest_has_some();
	while (atomic_load(&shared->n_had) < N_SENDERS * N_MESSAGES) {
		n = pulc_receive(p, buf, sizeof(buf), &from, PULC_DONTWAIT);
		if (n >= 0)
			take(p, n, &from);
		else
			MUST_IS(n, -EAGAIN);
	}
	for (unsigned i = 0; i < N_GUESTS; i++)
		MUST_IS(pulc_send(other, &self, "", 0, 0), 0);
	for (unsigned i = 0; i < N_GUESTS; i++)
		MUST_IS(end_of(pids[i]), 0);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(other), 0);
}

static void all_at_once(void)
{
	begin();
	NATIVE_RUN(owner, sender_0, sender_1);
	end();
}

/* ---- streams --------------------------------------------------------------------------------- */

static enum pulc_kind stream_kind;

static void stream_sender(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("stream");
	uint64_t *words = (void *)buf;
	size_t at = 0, len;

	for (size_t i = 0; i < SIZE_STREAM / 8; i++)
		words[i] = i;
	for (; at < SIZE_STREAM; at += len) {
		len = 8 + at * 31 % 200000 / 8 * 8;
		len = len < SIZE_STREAM - at ? len : SIZE_STREAM - at;
		MUST_IS(pulc_send(p, &to, buf + at, len, 0), len);
	}
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* Words of the stream, each once, in order here. */
static void take_words(ssize_t n, uint64_t *next)
{
	const uint64_t *words = (const void *)buf;

	MUST(n > 0 && n % 8 == 0);
	for (ssize_t i = 0; i < n / 8; i++) {
		MUST(words[i] >= *next && words[i] < SIZE_STREAM / 8);
		MUST(i == 0 || words[i] == *next);
		*next = words[i] + 1;
		MUST(!atomic_exchange(&shared->stream_had[words[i]], 1));
	}
	atomic_fetch_add(&shared->n_had, (uint32_t)(n / 8));
}

static void stream_guest(pulc_port *p)
{
	uint64_t next = 0;
	ssize_t n;

	while ((n = pulc_receive(p, buf, 64000, NULL, 0)) > 0) {
		take_words(n, &next);
		atomic_fetch_add(&shared->n_of_guests, 1);
	}
	MUST_IS(n, -EPIPE);
}

static void stream_owner(void)
{
	pulc_port *p = native_open(stream_kind, "stream");
	pid_t pids[2];
	uint64_t next = 0;
	ssize_t n;

	for (unsigned i = 0; i < 2; i++)
		pids[i] = start(stream_guest, p);
	serve_until_a_guest_has_some();
	while (atomic_load(&shared->n_had) < SIZE_STREAM / 8) {
		n = pulc_receive(p, buf, 160000, NULL, PULC_DONTWAIT);
		if (n != -EAGAIN)
			take_words(n, &next);
	}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
	for (unsigned i = 0; i < 2; i++)
		MUST_IS(end_of(pids[i]), 0);
}

static void streams(void)
{
	for (stream_kind = PULC_S; stream_kind <= PULC_M; stream_kind++) {
		begin();
		NATIVE_RUN(stream_owner, stream_sender);
		end();
	}
}

/* ---- what a guest may do --------------------------------------------------------------------- */

static void long_guest(pulc_port *p)
{
	struct pulc_address to = native_find("far");
	struct iovec pieces[1000];

	native_fill(buf, SIZE_LONG, 1);
	MUST_IS(pulc_send(p, &to, buf, SIZE_LONG, 0), SIZE_LONG);
	MUST_IS(pulc_send(p, &to, buf, SIZE_LONG + 1, 0), -EMSGSIZE);
	memset(buf, 0, sizeof(buf));
	for (unsigned i = 0; i < 1000; i++)
		pieces[i] = (struct iovec){ buf + (size_t)i * 16000, i == 999 ? 793216 : 16000 };
	MUST_IS(pulc_receivev(p, pieces, 1000, &to, NULL, 0), SIZE_LONG);
	MUST(native_holds(buf, SIZE_LONG, 2));
	MUST_IS(pulc_sendv(p, &to, pieces, 1000, 0), SIZE_LONG);
}

static void long_owner(void)
{
	pulc_port *p = native_open(PULC_D, "shared");

	MUST_IS(end_of(start(long_guest, p)), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void long_far(void)
{
	pulc_port *p = native_open(PULC_D, "far");
	struct pulc_address from;

	MUST_IS(pulc_receive(p, buf, sizeof(buf), &from, 0), SIZE_LONG);
	MUST(native_holds(buf, SIZE_LONG, 1));
	native_fill(buf, SIZE_LONG, 2);
	MUST_IS(pulc_send(p, &from, buf, SIZE_LONG, 0), SIZE_LONG);
	memset(buf, 0, sizeof(buf));
	MUST_IS(pulc_receive(p, buf, sizeof(buf), &from, 0), SIZE_LONG);
	MUST(native_holds(buf, SIZE_LONG, 2));
	MUST_IS(pulc_port_close(p), 0);
}

static void long_messages(void)
{
	NATIVE_RUN(long_owner, long_far);
}

/* More than one request takes. */
#define SIZE_VERY_LONG (40u << 20)

static void very_long_guest(pulc_port *p)
{
	struct pulc_address to = native_find("stream");
	unsigned char *all = malloc(SIZE_VERY_LONG);

	MUST(all);
	native_fill(all, SIZE_VERY_LONG, 3);
	MUST_IS(pulc_send(p, &to, all, SIZE_VERY_LONG, 0), SIZE_VERY_LONG);
	MUST_IS(pulc_send(p, &to, all, 0, 0), 0);
	free(all);
}

static void very_long_owner(void)
{
	pulc_port *p = native_open(PULC_M, NULL);

	MUST_IS(end_of(start(very_long_guest, p)), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void very_long_reader(void)
{
	pulc_port *p = native_open(PULC_S, "stream");
	unsigned char *all = malloc(SIZE_VERY_LONG);
	size_t at = 0;

	MUST(all);
	while (at < SIZE_VERY_LONG) {
		ssize_t n = pulc_receive(p, all + at, SIZE_VERY_LONG - at, NULL, 0);

		MUST(n > 0);
		at += (size_t)n;
	}
	MUST(native_holds(all, SIZE_VERY_LONG, 3));
	free(all);
	MUST_IS(pulc_port_close(p), 0);
}

static void very_long_streams(void)
{
	NATIVE_RUN(very_long_owner, very_long_reader);
}

static void flags_guest(pulc_port *p)
{
	struct pulc_address self = pulc_port_address(p), from, nobody = { .port = 4000000000u };
	pulc_port *mine = native_open(PULC_D, NULL);
	struct pulc_address me = pulc_port_address(mine);
	struct iovec iov = { buf, 3 };

	MUST_IS(pulc_receive(p, buf, 8, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_receive(p, buf, 8, NULL, PULC_PEEK | PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_receive(p, buf, 8, NULL, 0x100), -EINVAL);
	MUST_IS(pulc_send(p, &self, "x", 1, PULC_PEEK), -EINVAL);
	MUST_IS(pulc_send(p, &nobody, "x", 1, 0), -ECONNREFUSED);
	MUST_IS(pulc_receivev(p, &iov, 1, &nobody, NULL, 0), -ECONNREFUSED);
	MUST_IS(pulc_send(mine, &self, "abcdef", 6, 0), 6);
	MUST_IS(pulc_receive(p, buf, 3, &from, PULC_PEEK), 3);
	MUST_IS(from.port, me.port);
	MUST_IS(pulc_receive(p, buf, 3, NULL, PULC_PEEK | PULC_TRUNC), 6);
	MUST_IS(pulc_receivev(p, &iov, 1, &me, &from, PULC_TRUNC), 6);
	MUST(memcmp(buf, "abc", 3) == 0 && from.port == me.port);
	MUST_IS(pulc_send(p, &me, "", 0, PULC_DONTWAIT), 0);
	MUST_IS(pulc_receive(mine, buf, 8, &from, 0), 0);
	MUST_IS(from.port, self.port);
	MUST_IS(pulc_send(mine, &self, "12", 2, 0), 2);
	MUST_IS(pulc_receive(p, NULL, 0, NULL, PULC_TRUNC), 2);
	/* It stays to be received when its port is closed, and then it has ended. */
	MUST_IS(pulc_send(mine, &self, "last", 4, 0), 4);
	MUST_IS(pulc_port_close(mine), 0);
	MUST_IS(pulc_receivev(p, &iov, 1, &me, NULL, 0), 3);
	MUST_IS(pulc_receivev(p, &iov, 1, &me, NULL, 0), -EPIPE);
	MUST_IS(pulc_port_give(p, getppid(), 0), -ECHILD);
	MUST_IS(pulc_port_close(p), 0);
}

/* Until it has no credit. */
static void full_guest(pulc_port *p)
{
	struct pulc_address to = native_find("unread");
	unsigned n = 0;
	ssize_t e;

	while ((e = pulc_send(p, &to, buf, 1 << 20, PULC_DONTWAIT)) == 1 << 20)
		n++;
	MUST_IS(e, -EAGAIN);
	MUST(n >= 2 && n < 64);
}

static void flags_owner(void)
{
	pulc_port *p = native_open(PULC_D, "shared"), *unread = native_open(PULC_D, "unread");

	MUST_IS(end_of(start(flags_guest, p)), 0);
	MUST_IS(end_of(start(full_guest, p)), 0);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void flags(void)
{
	NATIVE_RUN(flags_owner);
}

/* Nothing of a stream is received at once; what else is under way goes on. */
static void guest_of_nothing(pulc_port *p)
{
	struct pulc_address to = native_find("unread");
	pulc_op *ops[5];
	char text[8];

	for (unsigned i = 0; i < 5; i++)
		ops[i] = native_send_begin(p, &to, buf, 1 << 20);
	for (unsigned i = 0; i < 3; i++)
		MUST_IS(pulc_receive(p, text, 0, NULL, 0), 0);
	MUST_IS(pulc_receive(p, text, sizeof(text), NULL, PULC_DONTWAIT), -EAGAIN);
	for (unsigned i = 0; i < 5; i++)
		if (pulc_op_test(ops[i]) == 1)
			MUST_IS(pulc_op_end(ops[i], NULL), 1 << 20);
}

static void owner_of_nothing(void)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *p;

	for (enum pulc_kind kind = PULC_S; kind <= PULC_M; kind++) {
		p = native_open(kind, NULL);
		MUST_IS(end_of(start(guest_of_nothing, p)), 0);
		MUST_IS(pulc_port_close(p), 0);
	}
	MUST_IS(pulc_port_close(unread), 0);
}

static void nothing(void)
{
	NATIVE_RUN(owner_of_nothing);
}

static void ops_guest(pulc_port *p)
{
	pulc_port *mine = native_open(PULC_D, NULL);
	struct pulc_address self = pulc_port_address(p), me = pulc_port_address(mine), from;
	struct pulc_wait w = { .port = p };
	pulc_op *ops[3];
	char text[3][8];

	MUST_IS(pulc_select(&w, 1, NULL, 0, 0), 0);
	MUST_IS(pulc_select(&w, 1, NULL, 0, 1), 0);
	for (unsigned i = 0; i < 3; i++)
		ops[i] = native_receive_begin(p, text[i], 8, NULL);
	MUST_IS(pulc_port_close(p), -EBUSY);
	MUST_IS(pulc_port_inherit(p, 0), -EBUSY);
	MUST_IS(pulc_op_cancel(ops[0]), 0);
	MUST_IS(pulc_op_end(ops[0], NULL), -ECANCELED);
	MUST_IS(pulc_send(mine, &self, "one", 3, 0), 3);
	MUST_IS(pulc_send(mine, &self, "seven", 5, 0), 5);
	MUST_IS(pulc_op_end(ops[2], &from), 5);
	MUST(from.port == me.port && pulc_op_test(ops[1]) == 1);
	MUST_IS(pulc_op_end(ops[1], NULL), 3);
	MUST(memcmp(text[1], "one", 3) == 0 && memcmp(text[2], "seven", 5) == 0);
	MUST_IS(pulc_send(mine, &self, "four", 4, 0), 4);
	MUST_IS(pulc_select(&w, 1, NULL, 0, -1), 1);
	MUST(w.ready);
	MUST_IS(pulc_select(&w, 1, NULL, 0, 0), 1);
	MUST_IS(pulc_receive(p, text[0], 8, NULL, 0), 4);
	native_fill(buf, 1 << 20, 4);
	ops[0] = native_send_begin(p, &me, buf, 1 << 20);
	ops[1] = native_send_begin(p, &me, "end", 3);
	MUST_IS(pulc_op_end(ops[0], NULL), 1 << 20);
	MUST_IS(pulc_op_end(ops[1], NULL), 3);
	memset(buf, 0, 1 << 20);
	MUST_IS(pulc_receive(mine, buf, sizeof(buf), NULL, 0), 1 << 20);
	MUST(native_holds(buf, 1 << 20, 4));
	MUST_IS(pulc_receive(mine, text[0], 8, NULL, 0), 3);
	MUST_IS(pulc_port_close(mine), 0);
}

static void ops_owner(void)
{
	pulc_port *p = native_open(PULC_D, NULL);

	MUST_IS(end_of(start(ops_guest, p)), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void operations_and_select(void)
{
	NATIVE_RUN(ops_owner);
}

/* ---- grandchildren, and an owner that computes ----------------------------------------------- */

static void leaf(pulc_port *p)
{
	struct pulc_address self = pulc_port_address(p);

	MUST_IS(pulc_send(p, &self, "leaf", 4, 0), 4);
	MUST_IS(pulc_receive(p, buf, 8, NULL, 0), 4);
	atomic_fetch_add(&shared->n_had, 1);
}

static void parent_of_leaf(pulc_port *p)
{
	int status;
	pid_t pid;

	leaf(p);
	pid = start(leaf, p);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	leaf(p);
}

/* A fork beside a thread that allocates leaves the sanitizer's allocator locked in the child. */
#ifdef __SANITIZE_ADDRESS__
#define FORKS_BESIDE_THREADS false
#else
#define FORKS_BESIDE_THREADS true
#endif

/* Its thread serves them. */
static void computing_owner(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	pid_t pids[16];
	int status;

	if (FORKS_BESIDE_THREADS)
		MUST_IS(pulc_progress_thread(true), 0);
	for (unsigned i = 0; i < 16; i++)
		pids[i] = start(i % 4 ? leaf : parent_of_leaf, p);
	if (!FORKS_BESIDE_THREADS)
		MUST_IS(pulc_progress_thread(true), 0);
	for (unsigned i = 0; i < 16; i++)
		MUST(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	MUST_IS(atomic_load(&shared->n_had), 16 + 4 * 2);
	MUST_IS(pulc_progress_thread(false), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void grandchildren_and_a_thread(void)
{
	begin();
	NATIVE_RUN(computing_owner);
	end();
}

#define STRANGER 65533

/* Of its owner's family still, but of no business with what is its user's: it has the key. */
static void become_another_user(pulc_port *p)
{
	struct pulc_address self = pulc_port_address(p);
	pulc_op *op;
	int e;

	native_become(STRANGER);
	MUST_IS(pulc_send(p, &self, "x", 1, 0), -EPERM);
	MUST_IS(pulc_receive(p, buf, 8, NULL, 0), -EPERM);
	MUST_IS(pulc_receive(p, buf, 8, NULL, PULC_DONTWAIT | PULC_PEEK), -EPERM);
	e = pulc_ireceive(p, buf, 8, &op);
	MUST_IS(e == 0 ? pulc_op_end(op, NULL) : e, -EPERM);
}

/* One that is a client already is so as who it was, as one that has opened a file. */
static void become_another_user_later(pulc_port *p)
{
	leaf(p);
	native_become(STRANGER);
	leaf(p);
}

static void owner_of_strangers(void)
{
	pulc_port *p = native_open(PULC_D, NULL);

	MUST_IS(end_of(start(become_another_user, p)), 0);
	leaf(p);
	MUST_IS(end_of(start(become_another_user_later, p)), 0);
	leaf(p);
	MUST_IS(pulc_receive(p, buf, 8, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
}

static void other_users_are_refused(void)
{
	static native_role *const roles[] = { owner_of_strangers };

	if (geteuid() != 0) {
		test_skip("needs root to have processes of two users");
		return;
	}
	begin();
	native_run_for_users(roles, 1);
	end();
}

static const struct test tests[] = {
	TEST(all_at_once),
	TEST(streams),
	TEST(long_messages),
	TEST(very_long_streams),
	TEST(flags),
	TEST(nothing),
	TEST(operations_and_select),
	TEST(grandchildren_and_a_thread),
	TEST(other_users_are_refused),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
