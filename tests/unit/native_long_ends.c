/*
 * Who waits for leave to send a long datagram, beyond what may be unread, when something else
 * comes: its destination is closed, passes to another process, is shared with one, or somebody is
 * killed.
 */
#include <errno.h>
#include <signal.h>

#include "native.h"
#include "native_full_bed.h"
#include "psid/native_guests.h"

/* ---- a port that is closed, passes, is shared ------------------------------------------------ */

static void wait_in_vain(void)
{
	struct pulc_address to;
	pulc_port *p = native_open(PULC_D, NULL);
	pulc_op *op;

	fill_up("unread");
	to = native_find("read");
	op = native_send_begin(p, &to, most, LEN);
	MUST_IS(pulc_op_test(op), 0);
	MUST_IS(pulc_op_cancel(op), 0);
	MUST_IS(pulc_op_end(op, NULL), -ECANCELED);
	/* What has only been asked for holds up nobody. */
	MUST_IS(pulc_port_close(p), 0);
	p = native_open(PULC_D, NULL);
	op = native_send_begin(p, &to, most, LEN);
	MUST_IS(pulc_op_test(op), 0);
	native_reach(1);
	MUST_IS(pulc_op_end(op, NULL), -ECONNREFUSED);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
	close_all();
}

static void close_what_is_waited_for(void)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *read = native_open(PULC_D, "read");

	serve_until(1);
	MUST_IS(pulc_port_close(read), 0);
	native_await(2);
	MUST_IS(pulc_port_close(unread), 0);
}

static void a_port_that_is_closed(void)
{
	NATIVE_RUN(close_what_is_waited_for, wait_in_vain);
}

static void send_to_what_passes(void)
{
	struct pulc_address to;
	pulc_port *p = native_open(PULC_D, "sender");
	pulc_op *op;

	fill_up("unread");
	to = native_find("read");
	native_fill(message, LEN, 7);
	op = native_send_begin(p, &to, message, LEN);
	MUST_IS(pulc_op_test(op), 0);
	native_reach(1);
	MUST_IS(pulc_op_end(op, NULL), LEN);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
	close_all();
}

static void give_what_is_waited_for(void)
{
	pulc_port *unread, *read;

	native_known_as(0);
	unread = native_open(PULC_D, "unread");
	read = native_open(PULC_D, "read");
	serve_until(1);
	MUST_IS(pulc_port_give(read, native_pid_of(1), MSEC_PATIENCE), 0);
	for (unsigned i = 0; i < N_FULL; i++)
		MUST_IS(pulc_receive(unread, most, SIZE_MOST, NULL, 0), SIZE_MOST);
	native_await(2);
	MUST_IS(pulc_port_close(unread), 0);
}

static void take_and_read(void)
{
	pulc_port *read;

	native_known_as(1);
	MUST_IS(pulc_port_take(0, MSEC_PATIENCE, &read), 0);
	MUST_IS(pulc_receive(read, buf, LEN, NULL, 0), LEN);
	MUST(native_holds(buf, LEN, 7));
	native_reach(2);
	MUST_IS(pulc_port_close(read), 0);
}

static void a_port_that_passes(void)
{
	NATIVE_RUN(give_what_is_waited_for, take_and_read, send_to_what_passes);
}

static void guest_reads(pulc_port *p)
{
	struct pulc_wait w = { .port = p };

	native_await(1);
	for (unsigned i = 0; i < 3; i++) {
		if (i == 1)
			MUST_IS(pulc_select(&w, 1, NULL, 0, MSEC_PATIENCE), 1);
		if (i == 2)
			MUST_IS(pulc_receive(p, buf, 1, NULL, PULC_PEEK), 1);
		MUST_IS(pulc_receive(p, buf, LEN, NULL, 0), LEN);
		MUST(native_holds(buf, LEN, i));
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void let_a_guest_read(void)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *read = native_open(PULC_D, "read");

	MUST_IS(end_of(start(guest_reads, read)), 0);
	native_reach(2);
	MUST_IS(pulc_port_close(read), 0);
	MUST_IS(pulc_port_close(unread), 0);
}

/* The sender's port is one that it shares, too: its owner asks and sends. */
static void guest_sends(pulc_port *p)
{
	struct pulc_address to = native_find("read");

	for (unsigned i = 0; i < 3; i++) {
		native_fill(message, LEN, i);
		MUST_IS(pulc_send(p, &to, message, LEN, 0), LEN);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void let_a_guest_send(void)
{
	pulc_port *p = native_open(PULC_D, NULL);

	fill_up("unread");
	native_reach(1);
	MUST_IS(end_of(start(guest_sends, p)), 0);
	serve_until(2);
	MUST_IS(pulc_port_close(p), 0);
	close_all();
}

static void a_port_that_is_shared(void)
{
	NATIVE_RUN(let_a_guest_read, let_a_guest_send);
}

/* ---- somebody is killed ---------------------------------------------------------------------- */

static void expect_kills(const pid_t *pids)
{
	(void)pids;
}

static void die_with_it_unasked(void)
{
	native_open(PULC_D, "unread");
	native_open(PULC_D, "read");
	serve_until(1);
	(void)raise(SIGKILL);
}

static void wait_for_the_dead(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to;
	pulc_op *op;

	fill_up("unread");
	to = native_find("read");
	op = native_send_begin(p, &to, most, LEN);
	MUST_IS(pulc_op_test(op), 0);
	native_reach(1);
	MUST_IS(pulc_op_end(op, NULL), -ECONNRESET);
	MUST_IS(pulc_port_close(p), 0);
	close_all();
}

static bool is_begun(pulc_op *op)
{
	bool begun;

	MUST(native_lock());
	begun = op->sending.begun;
	native_unlock();
	return begun;
}

/* It has asked; or a part of it has left. */
static void ask_and_die(bool begins)
{
	pulc_port *p = native_open(PULC_D, "mortal");
	struct pulc_address to;
	pulc_op *op;

	fill_up("unread");
	to = native_find("read");
	op = native_send_begin(p, &to, most, SIZE_MOST);
	MUST_IS(pulc_op_test(op), 0);
	native_reach(1);
	while (begins && !is_begun(op))
		(void)pulc_op_test(op);
	if (!begins)
		native_await(2);
	(void)raise(SIGKILL);
}

static void ask_and_end(void)
{
	ask_and_die(false);
}

static void begin_and_end(void)
{
	ask_and_die(true);
}

static void read_of_the_dead(bool begins)
{
	pulc_port *unread = native_open(PULC_D, "unread"), *read = native_open(PULC_D, "read");
	struct pulc_address from = native_find("mortal"), other = native_find("other");
	struct iovec iov = { most, SIZE_MOST };

	serve_until(1);
	if (!begins) {
		/* It has leave, and does not use it. */
		MUST_IS(pulc_receivev(read, &iov, 1, &from, NULL, PULC_DONTWAIT), -EAGAIN);
		native_reach(2);
	}
	MUST_IS(pulc_receivev(read, &iov, 1, &from, NULL, 0), -ECONNRESET);
	MUST_IS(pulc_receivev(read, &iov, 1, &other, NULL, 0), LEN);
	for (unsigned i = 0; i < N_FULL; i++)
		MUST_IS(pulc_receivev(unread, &iov, 1, NULL, NULL, 0), SIZE_MOST);
	native_reach(3);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(read), 0);
}

static void read_of_who_asked(void)
{
	read_of_the_dead(false);
}

static void read_of_who_began(void)
{
	read_of_the_dead(true);
}

static void another_process(void)
{
	pulc_port *p = native_open(PULC_D, "other");
	struct pulc_address to = native_find("read");

	MUST_IS(pulc_send(p, &to, message, LEN, 0), LEN);
	native_await(3);
	MUST_IS(pulc_port_close(p), 0);
}

static void run_with_kills(native_role *first, native_role *second, native_role *third)
{
	native_role *const roles[] = { first, second, third };

	native_run_with(roles, third ? 3 : 2, expect_kills);
}

static void somebody_is_killed(void)
{
	run_with_kills(die_with_it_unasked, wait_for_the_dead, NULL);
	run_with_kills(ask_and_end, read_of_who_asked, another_process);
	run_with_kills(begin_and_end, read_of_who_began, another_process);
}

static const struct test tests[] = {
	TEST(a_port_that_is_closed),
	TEST(a_port_that_passes),
	TEST(a_port_that_is_shared),
	TEST(somebody_is_killed),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
