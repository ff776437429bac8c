/* libpulc/lines.c: which line a link gets, and when it is another one's. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "lines.h"
#include "native.h"
#include "psid/native_case.h"

/* The higher number: this process makes the line. */
#define CLIENT 0x7fffffffu

static void lines_are_given_in_turn(void)
{
	pulc_port *p = native_open(PULC_D, "lines");
	struct hal_shm_line first = lines_for(CLIENT), line;
	unsigned n = 1;

	MUST(first.at && first.ours && SHM_LINE_CLIENT(first.name) == client_id());
	/* Free again, and the last to be given. */
	lines_return(&first, true);
	for (line = lines_for(CLIENT); line.at != first.at; n++, line = lines_for(CLIENT))
		MUST(line.at && n < SHM_N_LINES);
	MUST_IS(n, SHM_N_LINES);
	MUST(!lines_for(CLIENT).at);
	/* Its peer may still write there. */
	lines_return(&line, false);
	MUST(!lines_for(CLIENT).at);
	lines_return(&line, true);
	MUST(lines_for(CLIENT).at == first.at);
	MUST_IS(pulc_port_close(p), 0);
}

/* Of two the one with the lower number makes it. */
static void the_other_one_makes_it(void)
{
	pulc_port *p = native_open(PULC_D, "lines");
	struct hal_shm_line line = lines_for(1);

	MUST(!line.at && !line.ours && line.client == 1);
	MUST(!lines_find(1, SHM_LINE_NAME(1, 0)));
	MUST(!lines_find(1, SHM_LINE_NAME(2, 0)));
	MUST(!lines_find(1, SHM_LINE_NAME(1, SHM_N_LINES)));
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- two users ------------------------------------------------------------------------------- */

#define STRANGER 65534u

/* Of lines that were given since there is a first one, nobody has had it before. */
static void has_made_no_line(void)
{
	struct hal_shm_line line = lines_for(CLIENT);

	MUST(line.at && SHM_LINE_INDEX(line.name) == 0);
}

static void send_to_a_stranger(void)
{
	pulc_port *p = native_open(PULC_D, "sender");
	struct pulc_address to = native_find("stranger");
	char answer;

	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	MUST_IS(pulc_receive(p, &answer, 1, NULL, 0), 1);
	has_made_no_line();
	MUST_IS(pulc_port_close(p), 0);
}

static void answer_as_a_stranger(void)
{
	struct pulc_address from;
	pulc_port *p;
	char byte;

	native_become(STRANGER);
	p = native_open(PULC_D, "stranger");
	MUST_IS(pulc_receive(p, &byte, 1, &from, 0), 1);
	MUST_IS(pulc_send(p, &from, &byte, 1, 0), 1);
	has_made_no_line();
	MUST_IS(pulc_port_close(p), 0);
}

/* Neither could use it: the other one's area is not mapped. */
static void between_users_there_is_none(void)
{
	native_role *const roles[] = { send_to_a_stranger, answer_as_a_stranger };

	if (geteuid() == 0)
		native_run_for_users(roles, 2);
	else
		test_skip("needs root to have processes of two users");
}

/* ---- two that never sleep -------------------------------------------------------------------- */

static const char *const names[] = { "first", "second" };
static _Atomic uint32_t *clients; /* theirs, shared */

/* What the one that makes no line has to know to find the other one's. */
static bool knows_area_of(uint32_t client)
{
	return client_id() < client || lines_find(client, SHM_LINE_NAME(client, 0));
}

static char receive_awake(pulc_port *p)
{
	char byte;
	ssize_t n;

	do
		n = pulc_receive(p, &byte, 1, NULL, PULC_DONTWAIT);
	while (n == -EAGAIN);
	MUST_IS(n, 1);
	return byte;
}

/* Nobody has to be rung, so nobody is introduced for that. */
static void talk_awake(unsigned i)
{
	pulc_port *p = native_open(PULC_D, names[i]);
	struct pulc_address to;
	char mine = 0, others = 0;

	clients[i] = client_id();
	to = native_find(names[!i]);
	while (!clients[!i])
		usleep(100);
	for (unsigned n = 0; n < 1000000 && !(mine && others); n++) {
		mine = (char)knows_area_of(clients[!i]);
		MUST_IS(pulc_send(p, &to, &mine, 1, 0), 1);
		others = receive_awake(p);
	}
	MUST(mine && others);
	MUST_IS(pulc_port_close(p), 0);
}

static void be_the_first(void)
{
	talk_awake(0);
}

static void be_the_second(void)
{
	talk_awake(1);
}

static void is_known_to_who_never_sleeps(void)
{
	clients = native_share(2 * sizeof(*clients));
	NATIVE_RUN(be_the_first, be_the_second);
	native_unshare((void *)clients, 2 * sizeof(*clients));
}

/* ---- one whose peer is no more --------------------------------------------------------------- */

enum { LOST, GIVEN, WRITTEN };

static bool is_linked(uint32_t client)
{
	bool linked;

	while (!native_lock())
		;
	linked = native_peer(client);
	native_unlock();
	return linked;
}

static bool is_blank(const struct shm_exchange *line)
{
	const char *bytes = (const char *)line;

	for (size_t i = 0; i < sizeof(*line); i++) {
		if (bytes[i] != 0)
			return false;
	}
	return true;
}

/* The lower number: its lines are used. Says how many are free when the peer is no more: they stay
 * as they are given. */
static unsigned outlive_peer(void)
{
	pulc_port *p = native_open(PULC_D, "survivor");
	struct hal_shm_line lines[SHM_N_LINES + 1];
	struct pulc_address from;
	unsigned n = 0;
	char byte;

	clients[0] = client_id();
	MUST_IS(pulc_receive(p, &byte, 1, &from, 0), 1);
	MUST_IS(pulc_send(p, &from, &byte, 1, 0), 1);
	MUST(is_linked(clients[1]));
	native_await(LOST);
	while (is_linked(clients[1]))
		MUST_IS(pulc_receive(p, &byte, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	while ((lines[n] = lines_for(CLIENT)).at)
		n++;
	native_reach(GIVEN);
	native_await(WRITTEN);
	for (unsigned i = 0; i < n; i++)
		MUST(is_blank(lines[i].at));
	return n;
}

static pulc_port *talk(void)
{
	struct pulc_address to;
	pulc_port *p;
	char byte;

	while (!clients[0])
		usleep(100);
	p = native_open(PULC_D, NULL);
	clients[1] = client_id();
	to = native_find("survivor");
	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	MUST_IS(pulc_receive(p, &byte, 1, NULL, 0), 1);
	return p;
}

static void outlive_one_that_ended(void)
{
	MUST_IS(outlive_peer(), SHM_N_LINES);
}

static void end_without_a_word(void)
{
	(void)talk();
	native_reach(WRITTEN);
	native_reach(LOST);
	_exit(0);
}

static void is_free_when_the_peer_has_ended(void)
{
	clients = native_share(2 * sizeof(*clients));
	NATIVE_RUN(outlive_one_that_ended, end_without_a_word);
	native_unshare((void *)clients, 2 * sizeof(*clients));
}

static void outlive_one_that_stopped(void)
{
	MUST_IS(outlive_peer(), SHM_N_LINES - 1);
}

/* To psid it is no client any more. It would be in the midst of a send: what it writes then goes to
 * nobody. */
static void stop_and_go_on(void)
{
	pulc_port *p = talk();
	struct shm_exchange *line;
	char byte;

	while (!(line = lines_find(clients[0], SHM_LINE_NAME(clients[0], 0))))
		MUST_IS(pulc_receive(p, &byte, 1, NULL, PULC_DONTWAIT), -EAGAIN);
	MUST_IS(shutdown(client_channel(), SHUT_RDWR), 0);
	native_reach(LOST);
	native_await(GIVEN);
	memset(line, 0xff, sizeof(*line) / 2);
	native_reach(WRITTEN);
}

static void is_nobodys_while_a_dropped_peer_lives(void)
{
	clients = native_share(2 * sizeof(*clients));
	NATIVE_RUN(outlive_one_that_stopped, stop_and_go_on);
	native_unshare((void *)clients, 2 * sizeof(*clients));
}

static void in_turn(void)
{
	NATIVE_RUN(lines_are_given_in_turn);
}

static void by_the_lower_number(void)
{
	NATIVE_RUN(the_other_one_makes_it);
}

static const struct test tests[] = {
	TEST(in_turn),
	TEST(by_the_lower_number),
	TEST(between_users_there_is_none),
	TEST(is_known_to_who_never_sleeps),
	TEST(is_free_when_the_peer_has_ended),
	TEST(is_nobodys_while_a_dropped_peer_lives),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
