/*
 * The test harness: CUnit runs the tests and counts their assertions, this file gives them a
 * table instead of a registry, values in their messages, and one result line each.
 *
 * A line is printed when its test ends and flushed at once, so a crash loses no verdict before
 * it; the crash itself is tests/run's to notice. CUnit's own output is not used. A failed REQUIRE
 * leaves the test by longjmp, without running cleanup attributes.
 */
#include "harness.h"

#include <CUnit/Basic.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>

static char skip_reason[256];
static char program[64];

void test_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(skip_reason, sizeof(skip_reason), format, args);
	va_end(args);
}

void tests_hide_psids(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return;
	(void)mount("none", "/tmp", "tmpfs", 0, "mode=1777");
	(void)mount("none", "/run", "tmpfs", 0, "mode=755");
}

void test_assert(bool holds, struct test_site site, const char *format, ...)
{
	char text[1024] = "";
	va_list args;

	if (!holds) {
		va_start(args, format);
		(void)vsnprintf(text, sizeof(text), format, args);
		va_end(args);
	}
	(void)CU_assertImplementation(holds, site.line, text, site.file, "", site.fatal);
}

void test_end(struct test_site site, const char *format, ...)
{
	char text[1024] = "";
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)CU_assertImplementation(CU_FALSE, site.line, text, site.file, "", CU_TRUE);
	abort(); /* outside of a test */
}

void test_assert_mem(const void *a, const void *b, size_t len, struct test_site site,
		     const char *text)
{
	const unsigned char *x = a, *y = b;
	size_t i = 0;

	while (i < len && x[i] == y[i])
		i++;
	if (i == len)
		test_assert(true, site, "%s", text);
	else
		test_assert(false, site, "%s: byte %zu of %zu is 0x%02x against 0x%02x", text, i,
			    len, x[i], y[i]);
}

static void print_result(const CU_pTest test, const CU_pSuite suite,
			 const CU_pFailureRecord failure)
{
	(void)suite;
	if (failure)
		printf("not ok %s.%s: %s:%u: %s\n", program, test->pName, failure->strFileName,
		       failure->uiLineNumber, failure->strCondition);
	else if (skip_reason[0])
		printf("skip %s.%s: %s\n", program, test->pName, skip_reason);
	else
		printf("ok %s.%s\n", program, test->pName);
	for (CU_pFailureRecord f = failure ? failure->pNext : NULL; f; f = f->pNext)
		printf("\talso %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
	(void)fflush(stdout);
	skip_reason[0] = 0;
}

static bool is_chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

int tests_run(const struct test *tests, size_t n_tests, int argc, char **argv)
{
	CU_pSuite suite;
	unsigned n_failed;

	(void)snprintf(program, sizeof(program), "%s", program_invocation_short_name);
	if (CU_initialize_registry() != CUE_SUCCESS)
		abort();
	suite = CU_add_suite(program, NULL, NULL);
	for (size_t i = 0; i < n_tests; i++) {
		if (argc == 2 && strcmp(argv[1], "--list") == 0)
			puts(tests[i].name);
		else if (is_chosen(tests[i].name, argc, argv) &&
			 !CU_add_test(suite, tests[i].name, tests[i].run))
			abort();
	}
	CU_set_test_complete_handler(print_result);
	if (CU_run_all_tests() != CUE_SUCCESS)
		abort();
	n_failed = CU_get_number_of_tests_failed();
	CU_cleanup_registry();
	return n_failed ? 1 : 0;
}
