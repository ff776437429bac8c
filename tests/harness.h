/*
 * What a unit test needs: a table of CUnit tests, assertions that print both values, and the
 * result lines that tests/run reads ("ok NAME", "not ok NAME: why", "skip NAME: why").
 *
 * 	static void wraps(void) { CHECK_INT(ring_used(&r), ==, 3); }
 * 	static const struct test tests[] = { TEST(wraps), ... };
 * 	int main(int argc, char **argv) { return TESTS_RUN(tests, argc, argv); }
 *
 * Arguments of the program choose tests by name; --list lists them.
 */
#ifndef PULC_TESTS_HARNESS_H
#define PULC_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
};

#define TEST(function)                                                                             \
	{                                                                                          \
		.name = #function, .run = (function)                                               \
	}
#define TESTS_RUN(table, argc, argv)                                                               \
	tests_run((table), sizeof(table) / sizeof((table)[0]), (argc), (argv))

/* Runs the chosen tests and prints their lines. Returns main's exit status: 0, or 1 if any
 * failed. */
int tests_run(const struct test *tests, size_t n_tests, int argc, char **argv);

/* The running test cannot be done here; return from it afterwards. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Gives this process, and what it starts, an empty /tmp and /run of its own, so that no psid of
 * this machine is found at its usual places. Before the first test. Where it may not (it takes
 * CAP_SYS_ADMIN), nothing changes.
 */
void tests_hide_psids(void);

/* Where an assertion stands and whether its failure ends the test. */
struct test_site {
	const char *file;
	unsigned line;
	bool fatal;
};
void test_assert(bool holds, struct test_site site, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The test ends here: a required condition does not hold. */
__attribute__((noreturn, format(printf, 2, 3))) void test_end(struct test_site site,
							      const char *format, ...);
void test_assert_mem(const void *a, const void *b, size_t len, struct test_site site,
		     const char *text);

#define TEST_SITE(is_fatal) ((struct test_site){ __FILE__, __LINE__, (is_fatal) })

/* A condition that does not hold ends the test where it is fatal, which analyzers must see. */
#define TEST_HOLDS_(holds, is_fatal, ...)                                                          \
	do {                                                                                       \
		if (!(holds) && (is_fatal))                                                        \
			test_end(TEST_SITE(true), __VA_ARGS__);                                    \
		test_assert((holds), TEST_SITE(false), __VA_ARGS__);                               \
	} while (0)
#define TEST_INT_(a, op, b, is_fatal)                                                              \
	do {                                                                                       \
		__int128 test_a_ = (a); /* holds every integer, signed or not */                   \
		__int128 test_b_ = (b);                                                            \
		TEST_HOLDS_(test_a_ op test_b_, is_fatal,                                          \
			    "%s %s %s: %lld (0x%llx) against %lld (0x%llx)", #a, #op, #b,          \
			    (long long)test_a_, (unsigned long long)test_a_, (long long)test_b_,   \
			    (unsigned long long)test_b_);                                          \
	} while (0)
#define TEST_STR_(a, b, is_fatal)                                                                  \
	do {                                                                                       \
		const char *test_a_ = (a), *test_b_ = (b);                                         \
		test_assert(test_a_ != NULL && test_b_ != NULL && strcmp(test_a_, test_b_) == 0,   \
			    TEST_SITE(is_fatal), "%s equals %s: \"%s\" against \"%s\"", #a, #b,    \
			    test_a_ ? test_a_ : "(null)", test_b_ ? test_b_ : "(null)");           \
	} while (0)

/* CHECK goes on after a failure, REQUIRE ends the test. */
#define CHECK(expr) test_assert((expr), TEST_SITE(false), "%s", #expr)
#define CHECK_INT(a, op, b) TEST_INT_(a, op, b, false)
#define CHECK_STR(a, b) TEST_STR_(a, b, false)
#define CHECK_MEM(a, b, len) test_assert_mem((a), (b), (len), TEST_SITE(false), #a " equals " #b)
#define REQUIRE(expr)                                                                              \
	do {                                                                                       \
		bool test_holds_ = (expr);                                                         \
		TEST_HOLDS_(test_holds_, true, "%s", #expr);                                       \
	} while (0)
#define REQUIRE_INT(a, op, b) TEST_INT_(a, op, b, true)
#define REQUIRE_STR(a, b) TEST_STR_(a, b, true)

#endif
