/*
 * Ports when something goes wrong: peers that close, die, stop or lie harm themselves, and whoever
 * needs them is told.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "native.h"
#include "psid/native_case.h"

static unsigned char buf[1 << 20];

static ssize_t receive_from(pulc_port *p, const struct pulc_address *from, int flags)
{
	struct iovec iov = { buf, sizeof(buf) };

	return pulc_receivev(p, &iov, 1, from, NULL, flags);
}

/* ---- closed ---------------------------------------------------------------------------------- */

static void open_and_close(void)
{
	pulc_port *p = native_open(PULC_D, "brief"), *other = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("sink");

	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
	native_reach(3);
	/* The process lives on and is joined still. */
	MUST_IS(pulc_send(other, &to, "y", 1, 0), 1);
	native_await(4);
	MUST_IS(pulc_port_close(other), 0);
}

static void send_to_closed(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_address to = native_find("brief");
	ssize_t n;

	/* From now on it makes no call, in which it would take what has come. */
	native_await(1);
	/* Fills what may be unread, then waits for a reader who never comes. */
	while ((n = pulc_send(p, &to, buf, 1000, PULC_DONTWAIT)) == 1000)
		;
	MUST_IS(n, -EAGAIN);
	native_reach(2);
	MUST_IS(pulc_send(p, &to, buf, 1000, 0), -ECONNREFUSED);
	MUST_IS(pulc_send(p, &to, buf, 1000, 0), -ECONNREFUSED);
	native_await(3);
	MUST_IS(receive_from(p, &to, 0), 1);
	MUST_IS(buf[0], 'x');
	MUST_IS(receive_from(p, &to, 0), -EPIPE);
	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
	MUST_IS(buf[0], 'y');
	native_reach(4);
	MUST_IS(pulc_port_close(p), 0);
}

/* A source that never sent: its end is noticed all the same. */
static void wait_for_the_silent(void)
{
	pulc_port *p = native_open(PULC_D, "waiter");
	struct pulc_address from = native_find("silent"), nobody = { .port = 3999999999u };

	MUST_IS(receive_from(p, &nobody, 0), -ECONNREFUSED);
	MUST_IS(receive_from(p, &from, PULC_DONTWAIT), -EAGAIN);
	native_reach(1);
	MUST_IS(receive_from(p, &from, 0), -EPIPE);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void be_silent(void)
{
	pulc_port *p = native_open(PULC_D, "silent"), *other = native_open(PULC_D, NULL);

	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
	native_await(2);
	MUST_IS(pulc_port_close(other), 0);
}

static void closed_ports(void)
{
	NATIVE_RUN(open_and_close, send_to_closed);
	NATIVE_RUN(wait_for_the_silent, be_silent);
}

/* ---- killed ---------------------------------------------------------------------------------- */

static void send_and_die(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "mortal");

	for (unsigned i = 0; i < 100; i++) {
		native_fill(buf, 5000, i);
		MUST_IS(pulc_send(p, &to, buf, 5000, 0), 5000);
	}
	native_reach(1);
	native_await(9);
}

static void survive(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_address to = native_find("mortal"), self = pulc_port_address(p);
	ssize_t n;

	native_await(1);
	while ((n = pulc_send(p, &to, buf, 1000, PULC_DONTWAIT)) == 1000)
		;
	MUST_IS(n, -EAGAIN);
	native_reach(2);
	MUST_IS(pulc_send(p, &to, buf, 1000, 0), -ECONNRESET);
	MUST_IS(pulc_send(p, &to, buf, 1000, 0), -ECONNREFUSED);
	/* What it had sent before is all there. */
	for (unsigned i = 0; i < 100; i++) {
		MUST_IS(receive_from(p, &to, 0), 5000);
		MUST(native_holds(buf, 5000, i));
	}
	MUST_IS(receive_from(p, &to, 0), -ECONNRESET);
	MUST_IS(pulc_send(p, &self, buf, 10, 0), 10);
	MUST_IS(pulc_receive(p, buf, 10, NULL, 0), 10);
	MUST_IS(pulc_port_close(p), 0);
}

static void kill_the_first(const pid_t *pids)
{
	native_await(2);
	(void)kill(pids[0], SIGKILL);
}

static void killed_peers(void)
{
	native_role *const roles[] = { send_and_die, survive };

	native_run_with(roles, 2, kill_the_first);
}

/* In the middle of a long message: the receiver goes on with others. */
static void die_half_way(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "mortal");

	MUST_IS(pulc_send(p, &to, "begin", 5, 0), 5);
	MUST_IS(pulc_send(p, &to, calloc(1, 12u << 20), 12u << 20, PULC_DONTWAIT), 12 << 20);
	native_reach(1);
	native_await(9);
}

static void wait_for_the_rest(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_address from = native_find("mortal"), self = pulc_port_address(p);
	struct iovec iov = { malloc(12u << 20), 12u << 20 };

	native_await(1);
	MUST_IS(pulc_receive(p, buf, 100, NULL, 0), 5);
	MUST_IS(pulc_receivev(p, &iov, 1, &from, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(2);
	MUST_IS(pulc_receivev(p, &iov, 1, &from, NULL, 0), -ECONNRESET);
	MUST_IS(pulc_send(p, &self, buf, 10, 0), 10);
	MUST_IS(pulc_receivev(p, &iov, 1, NULL, NULL, 0), 10);
	MUST_IS(pulc_port_close(p), 0);
	free(iov.iov_base);
}

static void killed_half_way(void)
{
	native_role *const roles[] = { die_half_way, wait_for_the_rest };

	native_run_with(roles, 2, kill_the_first);
}

/* ---- stopped --------------------------------------------------------------------------------- */

static void be_stopped(void)
{
	pulc_port *p = native_open(PULC_D, "stopped");
	unsigned n = 0;
	ssize_t len;

	do {
		len = pulc_receive(p, buf, sizeof(buf), NULL, 0);
		MUST(len >= 0);
		n += len == 1000;
	} while (len == 1000);
	MUST(n > 500);
	MUST_IS(pulc_port_close(p), 0);
}

static void be_well(void)
{
	pulc_port *p = native_open(PULC_D, "well");

	for (unsigned i = 0; i < 5000; i++)
		MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), 1000);
	MUST_IS(pulc_port_close(p), 0);
}

static void talk_to_both(void)
{
	struct pulc_address stopped = native_find("stopped"), well = native_find("well");
	pulc_port *p = native_open(PULC_D, NULL);
	ssize_t n;

	MUST_IS(pulc_send(p, &stopped, buf, 1000, 0), 1000);
	native_reach(1);
	native_await(2);
	while ((n = pulc_send(p, &stopped, buf, 1000, PULC_DONTWAIT)) == 1000)
		;
	MUST_IS(n, -EAGAIN);
	for (unsigned i = 0; i < 5000; i++)
		MUST_IS(pulc_send(p, &well, buf, 1000, 0), 1000);
	native_reach(3);
	MUST_IS(pulc_send(p, &stopped, buf, 0, 0), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void stop_the_first(const pid_t *pids)
{
	int status;

	native_await(1);
	(void)kill(pids[0], SIGSTOP);
	(void)waitpid(pids[0], &status, WUNTRACED);
	native_reach(2);
	native_await(3);
	(void)kill(pids[0], SIGCONT);
}

static void stopped_peers(void)
{
	native_role *const roles[] = { be_stopped, be_well, talk_to_both };

	native_run_with(roles, 3, stop_the_first);
}

/* ---- lying ----------------------------------------------------------------------------------- */

static uint16_t lie_kind;
static uint32_t lie_len;
static uint64_t lie_word_from; /* 0: the truth */
static unsigned lie_n = 1;
static unsigned char lie[32768];

/* Sends frames that the library would not, behind an honest message. */
static void be_a_liar(void)
{
	struct pulc_address to = native_find("honest");
	pulc_port *p = native_open(PULC_D, "liar");
	struct hal_frame f = { .protocol = PROTOCOL_PORT, .kind = lie_kind, .len = lie_len };
	struct iovec iov = { lie, lie_len };
	struct port_out *out;
	int e = 0;

	MUST_IS(pulc_send(p, &to, "hello", 5, 0), 5);
	MUST(native_lock());
	out = port_out_find(p->port, 0, to.port);
	f.word = (uint64_t)to.port << 32 | (lie_word_from ? lie_word_from : p->number);
	/* The receiver may have ended the link before all is said. */
	for (unsigned i = 0; i < lie_n && e == 0; i++)
		e = peer_send_later(out->peer, &f, &iov, lie_len > 0, &out->n_waiting);
	MUST(e == 0 || e == -EPIPE);
	native_unlock();
	native_reach(1);
	/* Makes progress: not all of it has found room. */
	while (!native_is_reached(2))
		MUST_IS(pulc_select(NULL, 0, NULL, 0, 1), 0);
}

static void be_honest(void)
{
	pulc_port *p = native_open(PULC_D, "honest");
	struct pulc_address from = native_find("liar");
	char word[8];
	struct iovec iov = { word, sizeof(word) };

	MUST_IS(pulc_receivev(p, &iov, 1, &from, NULL, 0), 5);
	native_await(1);
	MUST_IS(pulc_receivev(p, &iov, 1, &from, NULL, 0), -EBADMSG);
	MUST_IS(pulc_receive(p, buf, 9, NULL, 0), 3);
	MUST(memcmp(buf, "bye", 3) == 0);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

/* A third one is not concerned. */
static void be_somebody_else(void)
{
	struct pulc_address to = native_find("honest");
	pulc_port *p = native_open(PULC_D, NULL);

	native_await(1);
	MUST_IS(pulc_send(p, &to, "bye", 3, 0), 3);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void tell_a_lie(uint16_t kind, uint32_t len, uint64_t first_word, unsigned n)
{
	memcpy(lie, &first_word, sizeof(first_word));
	lie_kind = kind;
	lie_len = len;
	lie_n = n;
	lie_word_from = 0;
	NATIVE_RUN(be_a_liar, be_honest, be_somebody_else);
}

static void lies_end_the_link(void)
{
	tell_a_lie(9, 0, 0, 1); /* no such kind */
	tell_a_lie(PORT_HOLD, 8, 0, 1);
	tell_a_lie(PORT_GO, 1, 0, 1);
	tell_a_lie(0, 10, 0, 1);			      /* the middle of no message */
	tell_a_lie(PORT_LAST, 10, 0, 1);		      /* the end of none */
	tell_a_lie(PORT_FIRST, 4, 0, 1);		      /* no room for its size */
	tell_a_lie(PORT_FIRST, 100, 10, 1);		      /* longer than it says */
	tell_a_lie(PORT_FIRST, 100, PULC_MESSAGE_MAX + 1, 1); /* longer than allowed */
	tell_a_lie(PORT_FIRST, 100, UINT64_MAX, 1);
	tell_a_lie(PORT_FIRST, 100, 1000, 2); /* two beginnings */
}

/* A reader of the stream gets no 0 for it. */
static void read_a_stream_of(enum pulc_kind kind, bool at_once)
{
	pulc_port *p = native_open(kind, "honest");
	struct pulc_address from = native_find("liar");
	struct iovec iov = { buf, 8 };

	MUST_IS(pulc_receive(p, buf, 5, NULL, 0), 5);
	native_await(1);
	/* The short way is for one piece, and only once the source is known. */
	if (at_once)
		MUST_IS(pulc_receive(p, buf, 8, NULL, PULC_DONTWAIT), -EAGAIN);
	else
		MUST_IS(pulc_receivev(p, &iov, 1, NULL, NULL, PULC_DONTWAIT), -EAGAIN);
	if (kind == PULC_M)
		MUST_IS(receive_from(p, &from, 0), -EBADMSG);
	MUST(port_in_of(p->port, 0, from.port)->ended == -EBADMSG);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void read_s(void)
{
	read_a_stream_of(PULC_S, false);
}

static void read_s_at_once(void)
{
	read_a_stream_of(PULC_S, true);
}

static void read_m(void)
{
	read_a_stream_of(PULC_M, false);
}

static void nothing_is_no_piece_of_a_stream(void)
{
	void (*const readers[])(void) = { read_s, read_s_at_once, read_m };

	lie_kind = PORT_FIRST | PORT_LAST;
	lie_len = 0;
	lie_n = 1;
	lie_word_from = 0;
	for (unsigned i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
		NATIVE_RUN(be_a_liar, readers[i]);
}

/* More than its credit: nobody reads it, and nobody keeps it. */
static void be_overrun(void)
{
	pulc_port *p = native_open(PULC_D, "honest");
	struct pulc_address from = native_find("liar");
	ssize_t n;

	MUST_IS(receive_from(p, &from, 0), 5);
	/* Makes progress and takes nothing. */
	while (!port_in_of(p->port, 0, from.port)->ended)
		MUST_IS(pulc_select(NULL, 0, NULL, 0, 1), 0);
	while ((n = receive_from(p, &from, 0)) == 32768)
		;
	MUST_IS(n, -EBADMSG);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void too_much_ends_the_link(void)
{
	lie_kind = PORT_FIRST | PORT_LAST;
	lie_len = 32768;
	lie_n = 650;
	lie_word_from = 0;
	NATIVE_RUN(be_a_liar, be_overrun);
}

/* ---- a port that is not its own -------------------------------------------------------------- */

static void receive_only_the_truth(void)
{
	pulc_port *p = native_open(PULC_D, "honest");
	struct pulc_address from;

	MUST_IS(pulc_receive(p, buf, 9, NULL, 0), 5);
	native_await(1);
	for (unsigned i = 0; i < 50; i++)
		MUST_IS(pulc_receive(p, buf, 9, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(3);
	MUST_IS(pulc_receive(p, buf, 9, &from, 0), 3);
	MUST(memcmp(buf, "bye", 3) == 0);
	MUST(from.port != 31);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void own_the_port(void)
{
	struct pulc_address to = native_find("honest");
	pulc_port *p;

	MUST_IS(pulc_port_open(PULC_D, 31, NULL, &p), 0);
	native_await(3);
	MUST_IS(pulc_port_close(p), 0);
	p = native_open(PULC_D, NULL);
	MUST_IS(pulc_send(p, &to, "bye", 3, 0), 3);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void nobody_speaks_in_anothers_name(void)
{
	lie_kind = PORT_FIRST | PORT_LAST;
	lie_len = 4;
	lie_n = 1;
	lie_word_from = 31;
	NATIVE_RUN(be_a_liar, receive_only_the_truth, own_the_port);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define N_THREADS 4u
#define N_ROUNDS 300u

static void *ask(void *name)
{
	struct pulc_address to = native_find(name);
	pulc_port *p = native_open(PULC_D, NULL);
	unsigned char question[3000], answer[3000];

	for (unsigned i = 0; i < N_ROUNDS; i++) {
		native_fill(question, sizeof(question), i);
		MUST_IS(pulc_send(p, &to, question, 1 + i * 7 % 2999, 0), 1 + i * 7 % 2999);
		MUST_IS(pulc_receive(p, answer, sizeof(answer), NULL, 0), 1 + i * 7 % 2999);
		MUST(native_holds(answer, 1 + i * 7 % 2999, i));
	}
	MUST_IS(pulc_send(p, &to, NULL, 0, 0), 0);
	MUST_IS(pulc_port_close(p), 0);
	return NULL;
}

static void *answer(void *port)
{
	unsigned char question[3000];
	struct pulc_address from;
	ssize_t n;

	while ((n = pulc_receive(port, question, sizeof(question), &from, 0)) > 0)
		MUST_IS(pulc_send(port, &from, question, (size_t)n, 0), n);
	MUST_IS(n, 0);
	return NULL;
}

static void run_threads(void *(*f)(void *), void *arg)
{
	pthread_t threads[N_THREADS];

	for (unsigned i = 0; i < N_THREADS; i++)
		MUST_IS(pthread_create(&threads[i], NULL, f, arg), 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		MUST_IS(pthread_join(threads[i], NULL), 0);
}

static void ask_many(void)
{
	run_threads(ask, "server");
}

/* Each thread ends with one farewell, whoever's it is. */
static void answer_many(void)
{
	pulc_port *p = native_open(PULC_D, "server");

	run_threads(answer, p);
	MUST_IS(pulc_port_close(p), 0);
}

static void threads_share_a_port(void)
{
	NATIVE_RUN(ask_many, answer_many);
}

/* ---- waiting for both worlds ----------------------------------------------------------------- */

static void select_both(void)
{
	pulc_port *p = native_open(PULC_D, "sink"), *q = native_open(PULC_D, NULL);
	struct pulc_wait waits[3] = { { .port = q }, { .port = NULL }, { .port = p } };
	struct pollfd fds[2] = { { .events = POLLIN }, { .fd = -1 } };
	int pair[2];

	MUST_IS(pipe(pair), 0);
	fds[0].fd = pair[0];
	MUST_IS(pulc_select(waits, 3, fds, 2, 0), 0);
	MUST_IS(pulc_select(waits, 3, fds, 2, 20), 0);
	native_reach(1);
	MUST_IS(pulc_select(waits, 3, fds, 2, -1), 1);
	MUST(!waits[0].ready && waits[2].ready && !fds[0].revents);
	MUST_IS(pulc_receive(p, buf, 9, NULL, PULC_DONTWAIT), 3);
	MUST_IS(write(pair[1], "x", 1), 1);
	MUST_IS(pulc_select(waits, 3, fds, 2, -1), 1);
	MUST(!waits[2].ready && fds[0].revents == POLLIN);
	native_reach(2);
	while (pulc_select(waits, 3, fds, 2, -1) != 2)
		;
	MUST(waits[2].ready && fds[0].revents == POLLIN);
	MUST_IS(pulc_select(NULL, 0, fds, 1, -1), 1);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(q), 0);
}

static void send_twice(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	native_await(1);
	MUST_IS(pulc_send(p, &to, "one", 3, 0), 3);
	native_await(2);
	MUST_IS(pulc_send(p, &to, "two", 3, 0), 3);
	MUST_IS(pulc_port_close(p), 0);
}

static void ports_and_descriptors(void)
{
	NATIVE_RUN(select_both, send_twice);
}

static const struct test tests[] = {
	TEST(closed_ports),	      TEST(killed_peers),
	TEST(killed_half_way),	      TEST(stopped_peers),
	TEST(lies_end_the_link),      TEST(nothing_is_no_piece_of_a_stream),
	TEST(too_much_ends_the_link), TEST(nobody_speaks_in_anothers_name),
	TEST(threads_share_a_port),   TEST(ports_and_descriptors),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
