/*
 * A shared port when somebody of those who share it ends, gives up or gives it away: nothing is
 * lost while the owner lives, nothing comes twice.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>

#include "psid/native_guests.h"

#define N_MESSAGES 2000u
#define N_BUSY 12u
#define USEC_OFTEN 700
#define USEC_SELDOM 100000
#define MSEC_PATIENCE 45000

static unsigned char buf[4 << 20];

static struct {
	_Atomic uint32_t n_had, n_interrupted, n_busy;
	_Atomic unsigned char had[N_MESSAGES];
} * shared;

static void begin(void)
{
	shared = native_share(sizeof(*shared));
}

static void end(void)
{
	native_unshare(shared, sizeof(*shared));
}

static void say(pulc_port *from, pulc_port *to, const char *text)
{
	struct pulc_address address = pulc_port_address(to);

	MUST_IS(pulc_send(from, &address, text, strlen(text), 0), strlen(text));
}

/* ---- a guest ends ---------------------------------------------------------------------------- */

/* What it has asked for has left, and is never taken. */
static void guest_asks_and_stops(pulc_port *p)
{
	pulc_op *ops[2];

	for (unsigned i = 0; i < 2; i++)
		ops[i] = native_receive_begin(p, buf + i * 8, 8, NULL);
	know_that_all_is_asked(p);
	native_reach(1);
	(void)pause();
	(void)pulc_op_end(ops[0], NULL);
}

static enum pulc_kind kind;

static void owner_of_killed(void)
{
	pulc_port *p = native_open(kind, NULL), *other = native_open(PULC_D, NULL);
	pid_t pid = start(guest_asks_and_stops, p);

	serve_until(1);
	say(other, p, "one");
	say(other, p, "two");
	say(other, p, "six");
	/* The first two are lent. */
	MUST_IS(pulc_receive(p, buf, 3, NULL, PULC_DONTWAIT), 3);
	MUST(memcmp(buf, "six", 3) == 0);
	MUST_IS(pulc_receive(p, buf, 3, NULL, PULC_DONTWAIT), -EAGAIN);
	say(other, p, "ten");
	MUST_IS(kill(pid, SIGKILL), 0);
	MUST(WIFSIGNALED(end_of(pid)));
	/* Psid notices. */
	while (pulc_receive(p, buf, 3, NULL, PULC_PEEK) == 3 && memcmp(buf, "one", 3) != 0)
		serve();
	for (unsigned i = 0; i < 3; i++) {
		MUST_IS(pulc_receive(p, buf, 3, NULL, 0), 3);
		MUST(memcmp(buf, &"onetwoten"[3 * i], 3) == 0);
	}
	MUST_IS(pulc_receive(p, buf, 3, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(other), 0);
}

static void what_was_lent_comes_back(void)
{
	for (kind = PULC_S; kind <= PULC_D; kind++)
		NATIVE_RUN(owner_of_killed);
}

#define N_SENDS 8u

/* A part of a send is with the owner, or all of it, which its receiver does not want. */
static void guest_sends_and_stops(pulc_port *p)
{
	struct pulc_address to = native_find("unread");
	pulc_op *ops[N_SENDS];

	for (unsigned i = 0; i < N_SENDS; i++)
		ops[i] = native_send_begin(p, &to, buf, sizeof(buf));
	native_reach(2);
	(void)pause();
	(void)pulc_op_end(ops[0], NULL);
}

static void owner_of_sender(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *unread = native_open(PULC_D, "unread");
	struct pulc_address to = pulc_port_address(unread);
	pid_t pid = start(guest_sends_and_stops, p);
	unsigned n = 0;
	pulc_op *op;

	serve_until(2);
	MUST_IS(kill(pid, SIGKILL), 0);
	MUST(WIFSIGNALED(end_of(pid)));
	/* The port goes on, behind what of all that was sent already. */
	op = native_send_begin(p, &to, "mine", 4);
	while (pulc_receive(unread, buf, sizeof(buf), NULL, 0) == sizeof(buf))
		n++;
	MUST(n <= N_SENDS && memcmp(buf, "mine", 4) == 0);
	MUST_IS(pulc_op_end(op, NULL), 4);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(unread), 0);
}

static void sender_is_killed(void)
{
	NATIVE_RUN(owner_of_sender);
}

/* ---- at any time ----------------------------------------------------------------------------- */

static void take(ssize_t n)
{
	uint32_t number;

	MUST_IS(n, 4);
	memcpy(&number, buf, 4);
	MUST(number < N_MESSAGES);
	MUST(!atomic_exchange(&shared->had[number], 1));
	atomic_fetch_add(&shared->n_had, 1);
}

static void greedy_guest(pulc_port *p)
{
	for (;;)
		take(pulc_receive(p, buf, 4, NULL, 0));
}

/* One guest after the other is killed within the stream. What one had received and not noted is
 * lost with it: one message each at most. */
static void owner_of_many_killed(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *other = native_open(PULC_D, NULL);
	unsigned n_kills = 0;
	uint32_t sent = 0, before;
	pid_t pid;
	ssize_t n;

	struct pulc_address self = pulc_port_address(p);

	while (sent < N_MESSAGES) {
		pid = start(greedy_guest, p);
		before = atomic_load(&shared->n_had);
		for (unsigned i = 0; sent < N_MESSAGES && i < 100; i++, sent++)
			MUST_IS(pulc_send(other, &self, &sent, 4, 0), 4);
		while (atomic_load(&shared->n_had) < before + 10 + sent % 37)
			serve();
		MUST_IS(kill(pid, SIGKILL), 0);
		MUST(WIFSIGNALED(end_of(pid)));
		n_kills++;
	}
	/* The last one's link has ended when psid says so. */
	for (unsigned i = 0; i < 1000 && atomic_load(&shared->n_had) + n_kills < N_MESSAGES;) {
		n = pulc_receive(p, buf, 4, NULL, PULC_DONTWAIT);
		if (n != -EAGAIN)
			take(n);
		else
			i++, serve();
	}
	while ((n = pulc_receive(p, buf, 4, NULL, PULC_DONTWAIT)) != -EAGAIN)
		take(n);
	MUST(atomic_load(&shared->n_had) + n_kills >= N_MESSAGES);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(other), 0);
}

static void guests_are_killed_again_and_again(void)
{
	begin();
	NATIVE_RUN(owner_of_many_killed);
	end();
}

static void nothing(int sig)
{
	(void)sig;
}

static long usec_between;

static void be_interrupted_each(long usec)
{
	const struct itimerval often = { { 0, usec }, { 0, usec } };

	usec_between = usec;
	MUST_IS(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void be_interrupted(void)
{
	struct sigaction action = { .sa_handler = nothing };

	MUST_IS(sigaction(SIGALRM, &action, NULL), 0);
	be_interrupted_each(USEC_OFTEN);
}

/* A call was, and has a longer time when it is made again: on a busy machine none might ever get
 * done else. */
static void was_interrupted(void)
{
	atomic_fetch_add(&shared->n_interrupted, 1);
	be_interrupted_each(usec_between < USEC_SELDOM ? 2 * usec_between : usec_between);
}

static void was_done(void)
{
	if (usec_between > USEC_OFTEN)
		be_interrupted_each(USEC_OFTEN);
}

static void interrupted_guest(pulc_port *p)
{
	uint32_t last = 0, number;
	ssize_t n;

	be_interrupted();
	while ((n = pulc_receive(p, buf, 4, NULL, 0)) != 0) {
		if (n == -EINTR) {
			was_interrupted();
			continue;
		}
		was_done();
		memcpy(&number, buf, 4);
		MUST(number >= last);
		last = number;
		take(n);
	}
}

/* Each receive of one guest's is taken back now and then, within the stream: it misses nothing, and
 * the order holds. */
static void owner_of_interrupted(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *other = native_open(PULC_D, NULL);
	struct pulc_address self = pulc_port_address(p);
	pid_t pid = start(interrupted_guest, p);

	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		if (i % 20 == 0)
			while (atomic_load(&shared->n_had) < i ||
			       atomic_load(&shared->n_interrupted) < i / 20)
				serve();
		MUST_IS(pulc_send(other, &self, &i, 4, 0), 4);
	}
	while (atomic_load(&shared->n_had) < N_MESSAGES)
		serve();
	MUST_IS(pulc_send(other, &self, "", 0, 0), 0);
	MUST_IS(end_of(pid), 0);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(other), 0);
}

static void receives_are_interrupted(void)
{
	begin();
	NATIVE_RUN(owner_of_interrupted);
	end();
}

/* A send that was interrupted was not done, or was: never both. */
static void interrupted_sender(pulc_port *p)
{
	struct pulc_address to = native_find("slow");
	ssize_t n;

	be_interrupted();
	for (uint32_t i = 0; i < 60;) {
		memcpy(buf, &i, 4);
		n = pulc_send(p, &to, buf, 700000, 0);
		MUST(n == 700000 || n == -EINTR);
		if (n == -EINTR) {
			was_interrupted();
		} else {
			was_done();
			i++;
		}
	}
}

static void owner_of_interrupted_sender(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *slow = native_open(PULC_D, "slow");
	pid_t pid = start(interrupted_sender, p);
	uint32_t number;

	for (uint32_t i = 0; i < 60; i++) {
		for (unsigned k = 0; k < 3; k++)
			serve();
		MUST_IS(pulc_receive(slow, buf, sizeof(buf), NULL, 0), 700000);
		memcpy(&number, buf, 4);
		MUST_IS(number, i);
	}
	MUST_IS(end_of(pid), 0);
	MUST_IS(pulc_receive(slow, buf, sizeof(buf), NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(slow), 0);
}

static void sends_are_interrupted(void)
{
	begin();
	NATIVE_RUN(owner_of_interrupted_sender);
	end();
}

/* ---- the owner ends -------------------------------------------------------------------------- */

static void bereaved_guest(pulc_port *p)
{
	struct pulc_address self = pulc_port_address(p);
	struct pulc_wait w = { .port = p };
	pulc_op *op = native_receive_begin(p, buf, 8, NULL);

	native_reach(1);
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), -EPIPE);
	MUST_IS(pulc_op_end(op, NULL), -EPIPE);
	MUST_IS(pulc_send(p, &self, "x", 1, 0), -EPIPE);
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, PULC_DONTWAIT), -EPIPE);
	MUST_IS(pulc_select(&w, 1, NULL, 0, -1), 1);
	MUST(w.ready);
	MUST_IS(pulc_port_close(p), 0);
	native_reach(3);
}

static void closing_owner(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	pid_t pid = start(bereaved_guest, p);

	serve_until(1);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(end_of(pid), 0);
}

static void owner_closes(void)
{
	NATIVE_RUN(closing_owner);
}

/* Asks without a stop, so that the owner closes the port with something unseen. */
static void busy_guest(pulc_port *p)
{
	struct pulc_address self = pulc_port_address(p);
	ssize_t n, sent;

	MUST_IS(pulc_receive(p, buf, 8, NULL, PULC_DONTWAIT), -EAGAIN);
	atomic_fetch_add(&shared->n_busy, 1);
	do {
		sent = pulc_send(p, &self, "busy", 4, PULC_DONTWAIT);
		MUST(sent == 4 || sent == -EAGAIN || sent == -EPIPE);
		n = pulc_receive(p, buf, 8, NULL, PULC_DONTWAIT);
		MUST(n == 4 || n == -EAGAIN || n == -EPIPE);
	} while (n != -EPIPE);
}

/* Knows the owner from before. */
static void late_guest(pulc_port *p)
{
	MUST_IS(pulc_receive(p, buf, 8, NULL, PULC_DONTWAIT), -EAGAIN);
	native_reach(2);
	native_await(3);
	MUST_IS(pulc_receive(p, buf, 8, NULL, 0), -EPIPE);
}

static void silent_owner(void)
{
	pulc_port *late, *ports[N_BUSY];
	pid_t pids[N_BUSY + 1];
	int status;

	for (unsigned i = 0; i < N_BUSY; i++) {
		ports[i] = native_open(PULC_D, NULL);
		pids[i] = start(busy_guest, ports[i]);
	}
	late = native_open(PULC_D, NULL);
	pids[N_BUSY] = start(late_guest, late);
	while (atomic_load(&shared->n_busy) < N_BUSY)
		serve();
	serve_until(2);
	for (unsigned i = 0; i < N_BUSY; i++) {
		for (unsigned k = 0; k < i; k++)
			serve();
		MUST_IS(pulc_port_close(ports[i]), 0);
	}
	MUST_IS(pulc_port_close(late), 0);
	native_reach(3);
	/* And makes no call any more. */
	for (unsigned i = 0; i < N_BUSY + 1; i++)
		MUST(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
}

static void owner_closes_and_is_silent(void)
{
	begin();
	NATIVE_RUN(silent_owner);
	end();
}

static void dying_owner(pulc_port *unused)
{
	pulc_port *p = native_open(PULC_D, NULL);

	(void)unused;
	(void)start(bereaved_guest, p);
	serve_until(1);
	(void)raise(SIGKILL);
}

static void parent_of_owner(void)
{
	int status;
	pid_t pid = start(dying_owner, NULL);

	MUST(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	native_await(3);
}

static void owner_is_killed(void)
{
	NATIVE_RUN(parent_of_owner);
}

/* A message that is with the guest when the port is closed is the guest's. */
static void guest_with_a_message(pulc_port *p)
{
	pulc_op *op = native_receive_begin(p, buf, 8, NULL);

	know_that_all_is_asked(p);
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_op_end(op, NULL), 5);
	MUST_IS(pulc_receive(p, buf, 8, NULL, 0), -EPIPE);
}

static void owner_who_has_lent(void)
{
	pulc_port *p = native_open(PULC_D, NULL), *other = native_open(PULC_D, NULL);
	pid_t pid = start(guest_with_a_message, p);

	serve_until(1);
	say(other, p, "hello");
	serve();
	MUST_IS(pulc_port_close(p), 0);
	native_reach(2);
	MUST_IS(end_of(pid), 0);
	MUST_IS(pulc_port_close(other), 0);
}

static void owner_closes_what_is_lent(void)
{
	NATIVE_RUN(owner_who_has_lent);
}

/* ---- the owner changes ----------------------------------------------------------------------- */

/* Receives and sends, whoever the owner is. */
static void faithful_guest(pulc_port *p)
{
	struct pulc_address to = native_find("elsewhere");
	ssize_t n;

	while ((n = pulc_receive(p, buf, 4, NULL, 0)) != 0) {
		take(n);
		MUST_IS(pulc_send(p, &to, buf, 4, 0), 4);
	}
	/* Beside others, who have theirs. */
}

static void heir(pulc_port *p)
{
	MUST_IS(pulc_port_inherit(p, MSEC_PATIENCE), 0);
	serve_until(4);
	MUST_IS(pulc_port_give(p, native_pid_of(1), MSEC_PATIENCE), 0);
	serve_until(7);
}

static void first_owner(void)
{
	pulc_port *p = native_open(PULC_D, "passed");
	pid_t pids[3];

	for (unsigned i = 0; i < 2; i++)
		pids[i] = start(faithful_guest, p);
	pids[2] = start(heir, p);
	serve_until(3);
	MUST_IS(pulc_port_give(p, pids[2], MSEC_PATIENCE), 0);
	for (unsigned i = 0; i < 3; i++)
		MUST_IS(end_of(pids[i]), 0);
	native_reach(8);
}

static void last_owner(void)
{
	pulc_port *p, *mine = native_open(PULC_D, NULL);
	struct pulc_address self = native_find("passed");

	native_known_as(1);
	MUST_IS(pulc_port_take(self.port, MSEC_PATIENCE, &p), 0);
	native_reach(5);
	serve_until(6);
	for (unsigned i = 0; i < 2; i++)
		MUST_IS(pulc_send(mine, &self, "", 0, 0), 0);
	native_reach(7);
	serve_until(8);
	MUST_IS(pulc_port_close(p), 0);
	MUST_IS(pulc_port_close(mine), 0);
}

static void elsewhere(void)
{
	pulc_port *p = native_open(PULC_D, "elsewhere");
	struct pulc_address to = native_find("passed"), from;
	uint32_t number = 0;

	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		if (i == 300)
			native_reach(3);
		if (i == 700)
			native_reach(4);
		MUST_IS(pulc_send(p, &to, &i, 4, 0), 4);
		/* The port is with others meanwhile, whoever they are. */
		MUST_IS(pulc_receive(p, buf, 4, &from, 0), 4);
		memcpy(&number, buf, 4);
		MUST(number == i && from.port == to.port);
		if (i == 1000)
			serve_until(5);
	}
	MUST_IS(atomic_load(&shared->n_had), N_MESSAGES);
	native_reach(6);
	serve_until(8);
	MUST_IS(pulc_port_close(p), 0);
}

static void guests_go_on_with_the_next_owner(void)
{
	begin();
	NATIVE_RUN(first_owner, last_owner, elsewhere);
	end();
}

static const struct test tests[] = {
	TEST(what_was_lent_comes_back),
	TEST(sender_is_killed),
	TEST(guests_are_killed_again_and_again),
	TEST(receives_are_interrupted),
	TEST(sends_are_interrupted),
	TEST(owner_closes),
	TEST(owner_closes_and_is_silent),
	TEST(owner_is_killed),
	TEST(owner_closes_what_is_lent),
	TEST(guests_go_on_with_the_next_owner),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
