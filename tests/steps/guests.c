/*
 * A port that two processes share, the owner and a guest of its family: somebody else sends to it,
 * and each of the two hands on what it gets, by that same port; and the guest or the owner is
 * killed at each named point. Then nobody hangs, nothing is received or handed on twice, and while
 * the owner lives nothing is lost but the one message that a guest may have received as it died.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "native.h"
#include "psid/native_guests.h"
#include "steps/walk.h"

#define N_MESSAGES 12u
#define SIZE_LONG 100000u /* more than a frame */

enum who { OWNER, SOURCE, N_WHO, GUEST = N_WHO };

static enum who victim;
static unsigned char buf[SIZE_LONG];

/* Shared over fork. */
static struct {
	_Atomic uint32_t n_sent;
	_Atomic uint8_t n_had[N_MESSAGES];     /* received from the shared port, */
	_Atomic uint8_t n_handed[N_MESSAGES];  /* and sent on, which was said to be done */
	_Atomic uint8_t n_arrived[N_MESSAGES]; /* at the source again */
	_Atomic bool guest_ended, owner_ended, source_ended;
} * shared;

static size_t size_of(uint32_t number)
{
	return number % 3 ? 100 : SIZE_LONG;
}

static uint32_t n_of(const _Atomic uint8_t *of)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < N_MESSAGES; i++)
		n += atomic_load(&of[i]);
	return n;
}

static uint32_t number_in_buf(ssize_t len)
{
	uint32_t number;

	memcpy(&number, buf, sizeof(number));
	MUST(number < N_MESSAGES);
	MUST_IS(len, size_of(number));
	return number;
}

static bool is_end(ssize_t n)
{
	return victim == OWNER && (n == -EPIPE || n == -ECONNRESET || n == -ECONNREFUSED);
}

/* What was received, its bytes in buf. False: the owner has ended. */
static bool hand_on(pulc_port *p, const struct pulc_address *to, ssize_t len)
{
	uint32_t number;
	ssize_t n;

	if (is_end(len))
		return false;
	number = number_in_buf(len);
	shared->n_had[number]++;
	n = pulc_send(p, to, buf, (size_t)len, 0);
	if (is_end(n))
		return false;
	MUST_IS(n, len);
	shared->n_handed[number]++;
	return true;
}

/* ---- the guest ------------------------------------------------------------------------------- */

/* One that it gives up again; what it has got all the same is there. */
static ssize_t receive_and_withdraw(pulc_port *p)
{
	pulc_op *op;
	int e = pulc_ireceive(p, buf, sizeof(buf), &op);

	if (e < 0)
		return e;
	(void)pulc_op_cancel(op);
	return pulc_op_end(op, NULL);
}

static void be_guest(pulc_port *p)
{
	struct pulc_address to = native_find("source");
	ssize_t n;

	if (victim == GUEST)
		step_victim(getpid());
	do {
		n = receive_and_withdraw(p);
		if (n == -ECANCELED)
			n = pulc_receive(p, buf, sizeof(buf), NULL, 0);
	} while (hand_on(p, &to, n) && n_of(shared->n_had) < N_MESSAGES);
	if (victim == OWNER)
		shared->guest_ended = true;
}

/* ---- the owner ------------------------------------------------------------------------------- */

/* Others that it is joined with. */
static unsigned n_peers(void)
{
	unsigned n;

	MUST(native_lock());
	n = native_core.n_peers;
	native_unlock();
	return n;
}

/* The guest has ended: what it was lent comes back, when psid has said so. */
static void go_on_alone(pulc_port *p)
{
	struct pulc_address to = native_find("source");
	bool is_all_there;
	ssize_t n;

	do {
		is_all_there = shared->n_sent == N_MESSAGES && n_peers() == 1;
		serve();
		n = pulc_receive(p, buf, sizeof(buf), NULL, PULC_DONTWAIT);
		MUST(n == -EAGAIN || hand_on(p, &to, n));
	} while (!is_all_there || n != -EAGAIN);
}

static void owner(void)
{
	pulc_port *p = native_open(PULC_D, "shared");
	int status;
	pid_t pid;

	/* The source knows it, and so hears of its end. */
	native_await(1);
	pid = start(be_guest, p);
	if (victim == OWNER)
		step_victim(getpid());
	status = end_of(pid);
	MUST(status == 0 || (victim == GUEST && WTERMSIG(status) == SIGKILL));
	shared->guest_ended = true;
	go_on_alone(p);
	shared->owner_ended = true;
	while (!shared->source_ended)
		serve();
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- the source ------------------------------------------------------------------------------ */

static void take_back(pulc_port *p)
{
	ssize_t n;

	while ((n = pulc_receive(p, buf, sizeof(buf), NULL, PULC_DONTWAIT)) != -EAGAIN)
		shared->n_arrived[number_in_buf(n)]++;
}

static bool has_all_arrived(void)
{
	for (unsigned i = 0; i < N_MESSAGES; i++)
		if (shared->n_arrived[i] < shared->n_handed[i])
			return false;
	return true;
}

static void source(void)
{
	pulc_port *p = native_open(PULC_D, "source");
	struct pulc_address to = native_find("shared");
	ssize_t n = 0;

	native_reach(1);
	for (uint32_t i = 0; i < N_MESSAGES && !is_end(n); i++) {
		memset(buf, 0, sizeof(buf));
		memcpy(buf, &i, sizeof(i));
		n = pulc_send(p, &to, buf, size_of(i), 0);
		MUST(is_end(n) || n == (ssize_t)size_of(i));
		shared->n_sent++;
		take_back(p);
	}
	while (!shared->owner_ended || !shared->guest_ended || !has_all_arrived()) {
		serve();
		take_back(p);
	}
	serve();
	take_back(p);
	shared->source_ended = true;
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- the scene ------------------------------------------------------------------------------- */

static void bury(const pid_t *pids)
{
	const struct timespec turn = { .tv_nsec = 1000000 };

	while (!shared->source_ended && !step_has_ended(pids[SOURCE])) {
		if (step_has_ended(pids[OWNER]))
			shared->owner_ended = true;
		(void)nanosleep(&turn, NULL);
	}
}

/* While the owner lives only a guest that dies may keep one: it has it, and has not noted that; or
 * it has begun to send it on. */
static void check(void)
{
	const bool is_guest_killed = step_is_killed() && victim == GUEST;
	const bool may_have_one = is_guest_killed && step_page->step == STEP_GUEST_TOOK;

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		CHECK_INT(shared->n_had[i], <=, 1);
		CHECK_INT(shared->n_arrived[i], <=, shared->n_had[i]);
		CHECK_INT(shared->n_arrived[i], >=, shared->n_handed[i]);
	}
	if (step_is_killed() && victim == OWNER)
		return;
	CHECK_INT(n_of(shared->n_had), >=, N_MESSAGES - may_have_one);
	CHECK_INT(n_of(shared->n_handed), >=, N_MESSAGES - is_guest_killed);
}

static void scene(void)
{
	native_role *const roles[] = { owner, source };

	shared = native_share(sizeof(*shared));
	native_run_with(roles, N_WHO, bury);
	check();
	native_unshare(shared, sizeof(*shared));
}

static void the_guest(void)
{
	victim = GUEST;
	steps_walk("the guest", scene, STEPS_OF_GUESTS);
}

static void the_owner(void)
{
	victim = OWNER;
	steps_walk("the owner", scene, STEPS_OF_GUESTS);
}

static void every_point_was_reached(void)
{
	steps_end(STEPS_OF_GUESTS);
}

static const struct test tests[] = {
	TEST(the_guest),
	TEST(the_owner),
	TEST(every_point_was_reached),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
