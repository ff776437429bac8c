/*
 * One process has as much unread at another as it may, and sends a long datagram to a port of the
 * same that is read: whoever reads it gets it, in whatever way both do it.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "native_full_bed.h"
#include "psid/native_guests.h"

/* ---- the sender ------------------------------------------------------------------------------ */

static void send_waiting(pulc_port *p, const struct pulc_address *to)
{
	MUST_IS(pulc_send(p, to, message, LEN, 0), LEN);
}

static void send_again_and_again(pulc_port *p, const struct pulc_address *to)
{
	ssize_t n;

	while ((n = pulc_send(p, to, message, LEN, PULC_DONTWAIT)) == -EAGAIN)
		(void)usleep(100);
	MUST_IS(n, LEN);
}

/* A loop that is told when it is worth another try. */
static void send_in_a_loop(pulc_port *p, const struct pulc_address *to)
{
	struct pollfd fd = { .fd = pulc_fd(), .events = POLLIN };
	uint64_t seen = 0;
	ssize_t n;

	MUST(fd.fd >= 0);
	while ((n = pulc_send(p, to, message, LEN, PULC_DONTWAIT)) == -EAGAIN) {
		if (pulc_arm(&seen) > 0)
			continue;
		MUST_IS(poll(&fd, 1, MSEC_PATIENCE), 1);
		pulc_disarm();
	}
	pulc_disarm();
	MUST_IS(n, LEN);
}

static void send_begun(pulc_port *p, const struct pulc_address *to)
{
	pulc_op *op = native_send_begin(p, to, message, LEN);

	MUST_IS(pulc_op_wait(&op, 1, MSEC_PATIENCE), 0);
	MUST_IS(pulc_op_end(op, NULL), LEN);
}

/* After one that is cancelled, unless that was as far as to be sent. */
static void send_another(pulc_port *p, const struct pulc_address *to)
{
	pulc_op *op = native_send_begin(p, to, message, LEN);

	if (pulc_op_test(op) == 0)
		MUST_IS(pulc_op_cancel(op), 0);
	if (pulc_op_end(op, NULL) == -ECANCELED)
		send_waiting(p, to);
}

static void (*const ways_to_send[])(pulc_port *p, const struct pulc_address *to) = {
	send_waiting, send_again_and_again, send_in_a_loop, send_begun, send_another,
};
#define N_SENDS (sizeof(ways_to_send) / sizeof(ways_to_send[0]))

/* ---- the reader ------------------------------------------------------------------------------ */

static struct pulc_address sender;

static ssize_t read_waiting(pulc_port *p)
{
	return pulc_receive(p, buf, LEN, NULL, 0);
}

static ssize_t read_from(pulc_port *p)
{
	return pulc_receivev(p, &(struct iovec){ buf, LEN }, 1, &sender, NULL, 0);
}

static ssize_t read_pieces(pulc_port *p)
{
	struct iovec iov[40];

	for (unsigned i = 0; i < 39; i++)
		iov[i] = (struct iovec){ buf + i * 20000, 20000 };
	iov[39] = (struct iovec){ buf + 39 * 20000, LEN - 39 * 20000 };
	return pulc_receivev(p, iov, 40, NULL, NULL, 0);
}

static ssize_t look_first(pulc_port *p)
{
	char byte;

	MUST_IS(pulc_receive(p, &byte, 1, NULL, PULC_PEEK | PULC_TRUNC), LEN);
	return pulc_receive(p, buf, LEN, NULL, PULC_DONTWAIT);
}

static ssize_t look_at_one_first(pulc_port *p)
{
	char byte;

	MUST_IS(pulc_receivev(p, &(struct iovec){ &byte, 1 }, 1, &sender, NULL, PULC_PEEK), 1);
	return read_from(p);
}

static ssize_t select_first(pulc_port *p)
{
	struct pulc_wait w = { .port = p };

	MUST_IS(pulc_select(&w, 1, NULL, 0, MSEC_PATIENCE), 1);
	MUST(w.ready);
	return pulc_receive(p, buf, LEN, NULL, PULC_DONTWAIT);
}

/* Never waiting. */
static ssize_t select_again_and_again(pulc_port *p)
{
	struct pulc_wait w = { .port = p };

	while (pulc_select(&w, 1, NULL, 0, 0) == 0)
		(void)usleep(100);
	MUST(w.ready);
	return pulc_receive(p, buf, LEN, NULL, PULC_DONTWAIT);
}

static ssize_t try_again_and_again(pulc_port *p)
{
	ssize_t n;

	while ((n = pulc_receive(p, buf, LEN, NULL, PULC_DONTWAIT)) == -EAGAIN)
		(void)usleep(100);
	return n;
}

static ssize_t read_in_a_loop(pulc_port *p)
{
	struct pollfd fd = { .fd = pulc_fd(), .events = POLLIN };
	uint64_t seen = 0;
	ssize_t n;

	MUST(fd.fd >= 0);
	while ((n = pulc_receive(p, buf, LEN, NULL, PULC_DONTWAIT)) == -EAGAIN) {
		if (pulc_arm(&seen) > 0)
			continue;
		MUST_IS(poll(&fd, 1, MSEC_PATIENCE), 1);
		pulc_disarm();
	}
	pulc_disarm();
	return n;
}

static ssize_t begin_first(pulc_port *p)
{
	pulc_op *op = native_receive_begin(p, buf, LEN, NULL);

	MUST_IS(pulc_op_wait(&op, 1, MSEC_PATIENCE), 0);
	return pulc_op_end(op, NULL);
}

/* A receive stands there, and a loop waits for its end. */
static ssize_t begin_and_loop(pulc_port *p)
{
	struct pollfd fd = { .fd = pulc_fd(), .events = POLLIN };
	pulc_op *op = native_receive_begin(p, buf, LEN, &sender);
	uint64_t seen = 0;

	while (pulc_op_test(op) == 0) {
		if (pulc_arm(&seen) > 0)
			continue;
		MUST_IS(poll(&fd, 1, MSEC_PATIENCE), 1);
		pulc_disarm();
	}
	pulc_disarm();
	return pulc_op_end(op, NULL);
}

/* The first one is taken back, wherever its message is by then. */
static ssize_t begin_twice(pulc_port *p)
{
	static unsigned char other[LEN];
	pulc_op *op = native_receive_begin(p, other, LEN, NULL);
	ssize_t n;

	(void)pulc_op_test(op);
	MUST_IS(pulc_op_cancel(op), 0);
	n = pulc_op_end(op, NULL);
	if (n == -ECANCELED)
		return read_waiting(p);
	memcpy(buf, other, LEN);
	return n;
}

static ssize_t (*const ways_to_read[])(pulc_port *p) = {
	read_waiting,
	read_from,
	read_pieces,
	look_first,
	look_at_one_first,
	select_first,
	select_again_and_again,
	try_again_and_again,
	read_in_a_loop,
	begin_first,
	begin_and_loop,
	begin_twice,
};
#define N_READS (sizeof(ways_to_read) / sizeof(ways_to_read[0]))

/* ---- each way to send, each way to read ------------------------------------------------------ */

static void send_each(void)
{
	pulc_port *p = native_open(PULC_D, "sender");
	struct pulc_address read;

	fill_up("unread");
	read = native_find("read");
	native_reach(1);
	for (unsigned i = 0; i < N_SENDS * N_READS; i++) {
		native_fill(message, LEN, i);
		ways_to_send[i / N_READS](p, &read);
	}
	native_await(2);
	close_all();
	MUST_IS(pulc_port_close(p), 0);
}

static void read_each(void)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *read = native_open(PULC_D, "read");

	sender = native_find("sender");
	serve_until(1);
	for (unsigned i = 0; i < N_SENDS * N_READS; i++) {
		MUST_IS(ways_to_read[i % N_READS](read), LEN);
		MUST(native_holds(buf, LEN, i));
	}
	/* All the others are there as well. */
	for (unsigned i = 0; i < N_FULL; i++)
		MUST_IS(pulc_receive(unread, most, SIZE_MOST, NULL, 0), SIZE_MOST);
	native_reach(2);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(read), 0);
}

static void whoever_reads_gets_it(void)
{
	NATIVE_RUN(read_each, send_each);
}

/* ---- several that wait ----------------------------------------------------------------------- */

#define N_OTHERS 5u
#define N_ROUNDS 3u

static const char *name_of(unsigned i)
{
	static char name[16];

	(void)snprintf(name, sizeof(name), "read%u", i);
	return name;
}

static void send_to_several(void)
{
	pulc_op *ops[N_ROUNDS][N_OTHERS];
	pulc_port *ports[N_OTHERS];

	fill_up("unread");
	for (unsigned i = 0; i < N_OTHERS; i++) {
		struct pulc_address to = native_find(name_of(i));

		ports[i] = native_open(PULC_D, NULL);
		for (unsigned k = 0; k < N_ROUNDS; k++)
			ops[k][i] = native_send_begin(ports[i], &to, most, LEN);
	}
	for (unsigned i = 0; i < N_OTHERS * N_ROUNDS; i++)
		MUST_IS(pulc_op_end(ops[i / N_OTHERS][i % N_OTHERS], NULL), LEN);
	native_await(1);
	close_all();
	for (unsigned i = 0; i < N_OTHERS; i++)
		MUST_IS(pulc_port_close(ports[i]), 0);
}

/* Each is waited for while what has come for those before is left unread. */
static void read_several(void)
{
	pulc_port *unread = native_open(PULC_D, "unread");
	struct pulc_wait w[N_OTHERS] = { { .port = NULL } };

	for (unsigned i = 0; i < N_OTHERS; i++)
		w[i].port = native_open(PULC_D, name_of(i));
	for (unsigned i = 0; i < N_OTHERS; i++)
		MUST_IS(pulc_select(&w[i], 1, NULL, 0, MSEC_PATIENCE), 1);
	for (unsigned i = 0; i < N_OTHERS * N_ROUNDS; i++)
		MUST_IS(pulc_receive(w[i % N_OTHERS].port, buf, LEN, NULL, 0), LEN);
	native_reach(1);
	for (unsigned i = 0; i < N_OTHERS; i++)
		MUST_IS(pulc_port_close(w[i].port), 0);
	MUST_IS(pulc_port_close(unread), 0);
}

static void no_unread_port_holds_another(void)
{
	NATIVE_RUN(read_several, send_to_several);
}

/* ---- to oneself ------------------------------------------------------------------------------ */

static void send_to_myself(void)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *read = native_open(PULC_D, NULL),
		  *p = native_open(PULC_D, NULL);
	struct pulc_address to = pulc_port_address(read);
	pulc_op *got, *sent;

	fill_up("unread");
	MUST_IS(pulc_send(p, &to, most, 2 * LEN, PULC_DONTWAIT), -EAGAIN);
	for (unsigned i = 0; i < 4; i++) {
		/* Which of them is begun first does not matter. */
		if (i % 2)
			sent = native_send_begin(p, &to, most, 2 * LEN);
		got = native_receive_begin(read, most + 2 * LEN, 2 * LEN, NULL);
		if (i % 2 == 0)
			sent = native_send_begin(p, &to, most, 2 * LEN);
		MUST_IS(pulc_op_end(sent, NULL), 2 * LEN);
		MUST_IS(pulc_op_end(got, NULL), 2 * LEN);
	}
	MUST_IS(pulc_port_close(p), 0);
	close_all();
	MUST_IS(pulc_port_close(read), 0);
	MUST_IS(pulc_port_close(unread), 0);
}

static void to_oneself(void)
{
	NATIVE_RUN(send_to_myself);
}

static const struct test tests[] = {
	TEST(whoever_reads_gets_it),
	TEST(no_unread_port_holds_another),
	TEST(to_oneself),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
