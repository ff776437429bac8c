/*
 * Clients that make psid write lines about them without end. The log has some of them, says that
 * there were more, and has room for what is said about others.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "psid/scene.h"

#define UID_HOSTILE 65532u
#define N_LINES_USER 64u /* psid/remarks.c */

static int logged; /* what psid has written */

/* psid begins with the error output that we have at that moment. */
static void begin(bool system)
{
	static const char *const settings[] = { "PULC_LOG_LEVEL=info", NULL };
	int own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	logged = memfd_create("log", MFD_CLOEXEC);
	REQUIRE(own >= 0 && logged >= 0);
	REQUIRE(fcntl(logged, F_SETFL, O_APPEND) == 0);
	(void)dup2(logged, STDERR_FILENO);
	scene_begin(system, settings);
	(void)dup2(own, STDERR_FILENO);
	(void)close(own);
}

static void end(void)
{
	scene_end();
	(void)close(logged);
}

/* How many lines have this in them. */
static unsigned n_lines_with(const char *text)
{
	int fd = fcntl(logged, F_DUPFD_CLOEXEC, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[1024];
	unsigned n = 0;

	REQUIRE(f);
	rewind(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	(void)fclose(f);
	return n;
}

static void say_nonsense(uid_t uid)
{
	struct fake_client c;

	fake_attach(&c, &psid, uid);
	REQUIRE_INT(wire_send(c.fd, "\x08\x01", 2, NULL, 0), ==, 0);
	fake_expect_end(&c);
	fake_close(&c);
}

static void be_refused(uid_t uid)
{
	struct fake_client c;
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;
	FROM_CLIENT(msg, HELLO, hello) = &hello;

	hello.version = WIRE_VERSION + 1;
	hello.program = (char *)"refused";
	fake_open(&c, &psid, uid);
	fake_send(&c, &msg, NULL, 0);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_VERSION);
}

static void the_log_has_an_end(void (*cause)(uid_t uid), const char *text)
{
	begin(false);
	for (unsigned i = 0; i < 3 * N_LINES_USER; i++)
		cause(FAKE_SELF);
	CHECK_INT(n_lines_with(text), ==, N_LINES_USER);
	CHECK_INT(n_lines_with("more lines about this user are left out"), ==, 1);
	CHECK_INT(n_lines_with(""), <, N_LINES_USER + 8);
	end();
}

static void nonsense_without_end(void)
{
	the_log_has_an_end(say_nonsense, "sent nonsense");
}

static void refusals_without_end(void)
{
	the_log_has_an_end(be_refused, "refused");
}

static void others_are_written_about(void)
{
	if (geteuid() != 0) {
		test_skip("needs root to have a client of another user");
		return;
	}
	begin(true);
	for (unsigned i = 0; i < 2 * N_LINES_USER; i++)
		say_nonsense(UID_HOSTILE);
	be_refused(UID_HOSTILE); /* is about him, too */
	CHECK_INT(n_lines_with("refused"), ==, 0);
	say_nonsense(UID_HOSTILE - 1);
	CHECK_INT(n_lines_with("uid 65531"), ==, 1);
	end();
}

static const struct test tests[] = {
	TEST(nonsense_without_end),
	TEST(refusals_without_end),
	TEST(others_are_written_about),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
