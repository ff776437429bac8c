/* PULC's own descriptors: at high numbers, whatever the program does with its limit, and known as
 * its own. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pulc/fds.h>

#include "harness.h"

static void limit_to(rlim_t n)
{
	struct rlimit limit;

	REQUIRE_INT(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	limit.rlim_cur = n;
	REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
}

static int adopted(int *home)
{
	*home = open("/dev/null", O_RDWR | O_CLOEXEC);
	return pulc_fd_adopt(home);
}

static void live_at_high_numbers(void)
{
	int home;

	limit_to(1024);
	REQUIRE_INT(adopted(&home), ==, 0);
	CHECK_INT(home, >=, 1024 - 1024 / 8);
	CHECK(pulc_fd_is_own(home));
	CHECK_INT(pulc_fd_next_own(0), ==, home);
	pulc_fd_release(&home);
	CHECK_INT(home, ==, -1);
	CHECK_INT(pulc_fd_next_own(0), ==, -1);
}

/* A fork copies the kernel's table up to the highest number. */
static void are_no_higher_than_needed(void)
{
	int home;

	limit_to(4096);
	REQUIRE_INT(adopted(&home), ==, 0);
	CHECK_INT(home, <, 1024);
	pulc_fd_release(&home);
}

/* The program has every number of the first window. */
static void live_above_a_program_with_many(void)
{
	enum { N = 1600 };
	int first, above, number, n = 0, numbers[N];

	limit_to(4096);
	REQUIRE_INT(adopted(&first), ==, 0);
	while (n < N && (number = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		numbers[n++] = number;
	REQUIRE_INT(n, ==, N);
	REQUIRE_INT(adopted(&above), ==, 0);
	CHECK_INT(above, >, numbers[N - 1]);
	CHECK(pulc_fd_is_own(first) && pulc_fd_is_own(above));
	CHECK_INT(pulc_fd_next_own(first + 1), ==, above);
	while (n > 0)
		CHECK_INT(close(numbers[--n]), ==, 0);
	pulc_fd_release(&above);
	pulc_fd_release(&first);
	CHECK_INT(pulc_fd_next_own(0), ==, -1);
	limit_to(1024);
}

/* Its limit leaves no room for a second window. */
static void are_refused_where_there_is_no_number(void)
{
	enum { N = 1000 };
	int home, n = 0, numbers[N];

	limit_to(N);
	while (n < N && (numbers[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	REQUIRE_INT(n, >, N / 2);
	REQUIRE_INT(close(numbers[--n]), ==, 0);
	REQUIRE_INT(adopted(&home), ==, -EMFILE);
	CHECK_INT(home, ==, -1);
	while (n > 0)
		CHECK_INT(close(numbers[--n]), ==, 0);
	limit_to(1024);
}

/* More than most processes have, of which the first few are kept apart. */
static void are_known_however_many(void)
{
	enum { N = 20 };
	int homes[N], from = 0;

	limit_to(1024);
	for (unsigned i = 0; i < N; i++)
		REQUIRE_INT(adopted(&homes[i]), ==, 0);
	for (unsigned i = 0; i < N; i++) {
		from = pulc_fd_next_own(from);
		CHECK_INT(from, ==, homes[i]);
		CHECK(pulc_fd_is_own(from++));
	}
	CHECK_INT(pulc_fd_next_own(from), ==, -1);
	for (unsigned i = 0; i < N; i++)
		pulc_fd_release(&homes[i]);
	CHECK_INT(pulc_fd_next_own(0), ==, -1);
}

static void follow_a_limit_that_falls(void)
{
	int high, low, high_number;

	limit_to(1024);
	REQUIRE_INT(adopted(&high), ==, 0);
	high_number = high;
	limit_to(200);
	REQUIRE_INT(adopted(&low), ==, 0);
	CHECK_INT(low, >=, 200 - 200 / 8);
	CHECK_INT(low, <, 200);
	CHECK_INT(high, ==, high_number);
	CHECK(pulc_fd_is_own(high) && pulc_fd_is_own(low));
	CHECK_INT(pulc_fd_next_own(0), ==, low);
	CHECK_INT(pulc_fd_next_own(low + 1), ==, high);
	pulc_fd_release(&low);
	CHECK_INT(pulc_fd_next_own(0), ==, high);
	limit_to(1024);
	pulc_fd_release(&high);
}

static void are_moved_for_the_program(void)
{
	int home, number;

	limit_to(1024);
	REQUIRE_INT(adopted(&home), ==, 0);
	number = home;
	limit_to(300);
	CHECK_INT(pulc_fd_evict(number), ==, 0);
	CHECK_INT(home, <, 300);
	CHECK(fcntl(home, F_GETFD) >= 0 && fcntl(number, F_GETFD) < 0);
	CHECK(pulc_fd_is_own(home) && !pulc_fd_is_own(number));
	pulc_fd_release(&home);
	limit_to(1024);
}

static const struct test tests[] = {
	TEST(live_at_high_numbers),	      TEST(are_no_higher_than_needed),
	TEST(live_above_a_program_with_many), TEST(are_refused_where_there_is_no_number),
	TEST(are_known_however_many),	      TEST(follow_a_limit_that_falls),
	TEST(are_moved_for_the_program),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
