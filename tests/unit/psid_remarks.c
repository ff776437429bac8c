/* psid/remarks: how many lines about users are written, and when there are more again. */
#include "harness.h"
#include "remarks.h"

#define N_LINES 64u

static struct psid_remarks remarks;

/* Returns how many of n are written. */
static unsigned remark(uid_t uid, unsigned n)
{
	unsigned n_written = 0;

	while (n-- > 0)
		n_written += psid_may_remark(&remarks, uid, PSID_WARNING);
	return n_written;
}

/* That minute is over. */
static void age(unsigned place)
{
	remarks.users[place].usec_began -= 60000000;
}

static void so_many_a_minute(void)
{
	remarks = (struct psid_remarks){ 0 };
	CHECK_INT(remark(1, N_LINES + 5), ==, N_LINES);
	CHECK_INT(remarks.users[0].n_left_out, ==, 5);
	CHECK_INT(remark(2, 3), ==, 3);
	age(0);
	CHECK_INT(remark(1, N_LINES + 1), ==, N_LINES);
}

static void so_many_users(void)
{
	remarks = (struct psid_remarks){ 0 };
	for (uid_t uid = 0; uid < PSID_N_REMARKED; uid++)
		CHECK_INT(remark(uid, 1), ==, 1);
	CHECK_INT(remark(1000, 2), ==, 0);
	CHECK_INT(remarks.n_left_out, ==, 2);
	age(7);
	CHECK_INT(remark(1000, 2), ==, 2);
	CHECK_INT(remarks.n_left_out, ==, 0);
	CHECK_INT(remark(1001, 1), ==, 0);
}

/* What is not shown is not counted. */
static void what_is_not_shown(void)
{
	remarks = (struct psid_remarks){ 0 };
	psid_log_init(PSID_ERROR);
	CHECK_INT(remark(1, N_LINES), ==, 0);
	psid_log_init(PSID_INFO);
	CHECK_INT(remark(1, N_LINES), ==, N_LINES);
}

static const struct test tests[] = {
	TEST(so_many_a_minute),
	TEST(so_many_users),
	TEST(what_is_not_shown),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
