/*
 * Host lists: what they may say, and what they may not.
 */
#include "shared/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

/* The list written out: "n1:0 n2:3". */
static const char *list(const char *text)
{
	static char buf[1024];
	struct hosts hosts = { 0 };
	size_t n = 0;
	int r = hosts_parse(&hosts, text, strlen(text));

	buf[0] = '\0';
	for (size_t i = 0; i < hosts.n; i++)
		n += (size_t)snprintf(buf + n, sizeof(buf) - n, "%s%s:%u", i ? " " : "",
				      hosts.items[i].name, hosts.items[i].slots);
	hosts_deinit(&hosts);
	return r == 0 ? buf : r == -EINVAL ? "invalid" : "error";
}

static void lists(void)
{
	CHECK_STR(list(""), "");
	CHECK_STR(list("n1"), "n1:0");
	CHECK_STR(list("n1,n2:3, n3"), "n1:0 n2:3 n3:0");
	CHECK_STR(list("n1 slots=2\nn2"), "n1:2 n2:0");
	CHECK_STR(list("n0 n[1-3] slots=2"), "n0:0 n1:2 n2:2 n3:2");
	CHECK_STR(list("n[1-3]"), "n1:0 n2:0 n3:0");
	CHECK_STR(list("n[1-2,7]x:4"), "n1x:4 n2x:4 n7x:4");
	CHECK_STR(list("n[08-11]"), "n08:0 n09:0 n10:0 n11:0");
	CHECK_STR(list("a.b-c_d"), "a.b-c_d:0");
}

static void wrong_lists(void)
{
	static const char *const wrong[] = { "n1:",	"n1:0",	      "n1:x",	"n[",
					     "n]",	"n[1",	      "n[]",	"n[2-1]",
					     "n[1-]",	"n[-1]",      "n[1;2]", "n[1,]x:",
					     "slots=2", "n/1",	      "n1:2:3", "n[a]",
					     ":2",	"n1 slots=0", "n[1:2]", "n[99999999999]",
					     "]n[" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK_STR(list(wrong[i]), "invalid");
}

static void there_is_a_limit(void)
{
	struct hosts hosts = { 0 };

	CHECK_INT(hosts_parse(&hosts, "n[0-99999]", 10), ==, -E2BIG);
	CHECK_INT(hosts.n, ==, HOSTS_N_MAX);
	hosts_deinit(&hosts);
}

/* What hosts_read says of a file with that in it; the line where it is wrong. */
static int read_file(const char *text, size_t *ret_n, unsigned *ret_line)
{
	char path[] = "/tmp/pulc-hosts-XXXXXX";
	struct hosts hosts = { 0 };
	int fd = mkstemp(path), r;

	CHECK_INT(write(fd, text, strlen(text)), ==, (ssize_t)strlen(text));
	(void)close(fd);
	r = hosts_read(&hosts, path, ret_line);
	*ret_n = hosts.n;
	(void)unlink(path);
	hosts_deinit(&hosts);
	return r;
}

/* As schedulers write them: many ranges in a word, many nodes in a line. */
static void long_ones(void)
{
	enum { N = 2000 };
	char *text = malloc(N * 16), *p = text + sprintf(text, "n[0");
	unsigned line = 0;
	size_t n;

	for (int i = 1; i < N; i++)
		p += sprintf(p, ",%d", 2 * i);
	(void)strcpy(p, "] slots=3\nlast\n");
	CHECK_INT(read_file(text, &n, &line), ==, 0);
	CHECK_INT(n, ==, N + 1);
	p = text;
	for (int i = 0; i < N; i++)
		p += sprintf(p, "node%d%c", i, i == N - 1 ? '\n' : ' ');
	CHECK_INT(read_file(text, &n, &line), ==, 0);
	CHECK_INT(n, ==, N);
	(void)sprintf(p, "%0*d[1-2]\n", (int)HOSTS_SIZE_NAME, 0);
	CHECK_INT(read_file(text, &n, &line), ==, -EINVAL);
	CHECK_INT(line, ==, 2);
	free(text);
}

static void files(void)
{
	unsigned line = 0;
	size_t n;

	CHECK_INT(read_file("# three\nn1 slots=2\n\nn[2-3] # and two\n", &n, &line), ==, 0);
	CHECK_INT(n, ==, 3);
	CHECK_INT(line, ==, 0);
	CHECK_INT(read_file("n1\n\nn2 slots=x\n", &n, &line), ==, -EINVAL);
	CHECK_INT(line, ==, 3);
	CHECK_INT(read_file("# nobody\n", &n, &line), ==, -ENODATA);
	CHECK_INT(hosts_read(&(struct hosts){ 0 }, "/no/such/file", &line), ==, -ENOENT);
}

static const struct test tests[] = { TEST(lists), TEST(wrong_lists), TEST(there_is_a_limit),
				     TEST(long_ones), TEST(files) };

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
