/* psid/jobs/folders.c: trees of folders as somebody makes them who means no good. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folders.h"
#include "harness.h"

#define N_ENOUGH 100000u

static char top[64];

static void begin(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/pulc-folders-XXXXXX");
	REQUIRE(mkdtemp(top));
}

/* Below the folder `at`, which is closed; returns the new one. */
static int make_below(int at, const char *name)
{
	int fd;

	REQUIRE(mkdirat(at, name, 0755) == 0);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	REQUIRE(fd >= 0);
	(void)close(at);
	return fd;
}

static int open_top(void)
{
	int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	return fd;
}

static void is_removed(void)
{
	CHECK(psid_folders_remove(top, N_ENOUGH));
	CHECK(access(top, F_OK) < 0 && errno == ENOENT);
}

static void what_is_not_there_is_gone(void)
{
	begin();
	REQUIRE(rmdir(top) == 0);
	is_removed();
}

/* Longer than any path that can be named: each of these has 100 bytes. */
static void deep(void)
{
	char name[101];
	int fd;

	begin();
	fd = open_top();
	memset(name, 'n', 100);
	name[100] = '\0';
	for (unsigned i = 0; i < 200; i++) {
		fd = make_below(fd, name);
		if (i % 50 == 0)
			REQUIRE(mkdirat(fd, "beside", 0755) == 0);
	}
	(void)close(fd);
	is_removed();
}

static void wide_and_with_odd_names(void)
{
	static const char *const odd[] = { ".hidden", "...", "with\nline", " ", "\xff" };
	char name[16];
	int fd;

	begin();
	fd = open_top();
	for (unsigned i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		REQUIRE(mkdirat(fd, name, 0755) == 0);
	}
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		(void)close(make_below(make_below(dup(fd), odd[i]), odd[i]));
	(void)close(fd);
	is_removed();
}

static void not_more_at_once_than_allowed(void)
{
	unsigned n_calls = 1;
	int fd;

	begin();
	fd = open_top();
	for (unsigned i = 0; i < 100; i++)
		fd = make_below(fd, "inner");
	(void)close(fd);
	/* Down to the last one, which needs a step for each level, it has to come in one call. */
	while (!psid_folders_remove(top, 150) && n_calls < 100)
		n_calls++;
	CHECK_INT(n_calls, >, 1);
	CHECK_INT(n_calls, <, 100);
	CHECK(access(top, F_OK) < 0);
}

/* A link is not a folder, and what holds a folder is left with it. */
static void no_link_is_followed(void)
{
	char other[] = "/tmp/pulc-folders-XXXXXX", inner[80];
	int fd;

	begin();
	REQUIRE(mkdtemp(other));
	(void)snprintf(inner, sizeof(inner), "%s/inner", other);
	REQUIRE(mkdir(inner, 0755) == 0);
	fd = open_top();
	REQUIRE(symlinkat(other, fd, "link") == 0);
	CHECK(!psid_folders_remove(top, N_ENOUGH));
	CHECK(access(inner, F_OK) == 0);
	REQUIRE(unlinkat(fd, "link", 0) == 0);
	(void)close(fd);
	is_removed();
	(void)rmdir(inner);
	(void)rmdir(other);
}

static void what_is_held_ends_it(void)
{
	int fd;

	begin();
	fd = make_below(open_top(), "held");
	(void)close(openat(fd, "file", O_CREAT | O_CLOEXEC, 0600));
	CHECK(!psid_folders_remove(top, N_ENOUGH));
	REQUIRE(unlinkat(fd, "file", 0) == 0);
	(void)close(fd);
	is_removed();
}

static const struct test tests[] = {
	TEST(what_is_not_there_is_gone), TEST(deep),
	TEST(wide_and_with_odd_names),	 TEST(not_more_at_once_than_allowed),
	TEST(no_link_is_followed),	 TEST(what_is_held_ends_it),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
