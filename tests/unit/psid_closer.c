/* psid/closer.c: without memory nothing stays open that psid has let in. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel.h"
#include "harness.h"
#include "psid.h"
#include "user.h"

static struct psid psid;
static struct psid_user user;
static unsigned n_done;

static void on_done(void *arg)
{
	(void)arg;
	n_done++;
}

static void use_up_memory(void)
{
	struct rlimit none = { 0, 0 };
	size_t sizes[] = { 1 << 16, 4096, 64, 1 };

	if (setrlimit(RLIMIT_AS, &none) < 0)
		_exit(10);
	for (unsigned i = 0; i < 4; i++)
		while (malloc(sizes[i]))
			;
}

static int open_null(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* 0, or which step has failed. */
static int close_without_memory(void)
{
	int kept, brought[WIRE_FDS_MAX];

	user = (struct psid_user){ .psid = &psid, .n_refs = 1 };
	TAILQ_INIT(&user.closings);
	if (uv_loop_init(&psid.loop) < 0 || psid_closer_start(&psid.closer, &psid.loop) < 0)
		return 1;
	kept = open_null();
	if (psid_closer_promise(&psid.closer) < 0 || !psid_closer_is_ready(&psid.closer))
		return 2;
	for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
		brought[i] = open_null();
	use_up_memory();
	for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
		psid_close_foreign(&psid, &user, brought[i], on_done, NULL);
	psid_close_promised(&psid, &user, kept, on_done, NULL);
	while (psid_closer_pending(&psid.closer) > 0)
		(void)uv_run(&psid.loop, UV_RUN_ONCE);
	if (n_done != WIRE_FDS_MAX + 1 || fcntl(kept, F_GETFD) >= 0)
		return 3;
	return psid_closer_is_ready(&psid.closer) ? 0 : 4;
}

static void what_was_let_in_is_closed(void)
{
	int status = -1;
	pid_t pid;

#ifdef __SANITIZE_ADDRESS__
	test_skip("its malloc does not fail");
	return;
#endif
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(close_without_memory());
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, ==, 0);
}

static const struct test tests[] = {
	TEST(what_was_let_in_is_closed),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
