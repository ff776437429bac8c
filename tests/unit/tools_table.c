/*
 * tools/pulcctl/table.c: alignment, shrinking, and what does not fit.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "pulcctl/table.h"
#include "shared/text.h"

static const struct ctl_column columns[] = {
	{ .title = "PID", .right = true },
	{ .title = "PROGRAM", .shrinks = true },
	{ .title = "PATH" },
};

static char *text;

static const char *print(size_t n_rows, struct ctl_room room)
{
	static const char *const rows[][3] = {
		{ "1", "init", "kernel" },
		{ "12345", "a-rather-long-name", NULL },
		{ "7", "\xc3\xa4\xc3\xa4", "rings" },
	};
	struct ctl_table *table = NULL;
	size_t len;
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &len);
	REQUIRE(out != NULL);
	REQUIRE_INT(ctl_table_new(columns, 3, &table), ==, 0);
	for (size_t i = 0; i < n_rows; i++)
		REQUIRE_INT(ctl_table_add(table, rows[i]), ==, 0);
	ctl_table_print(table, out, &room);
	(void)ctl_table_free(table);
	(void)fclose(out);
	return text;
}

static void columns_are_aligned(void)
{
	CHECK_STR(print(3, (struct ctl_room){ 0 }),
		  "  PID  PROGRAM             PATH\n"
		  "    1  init                kernel\n"
		  "12345  a-rather-long-name  -\n"
		  "    7  \xc3\xa4\xc3\xa4                  rings\n");
}

static void header_can_be_left_out(void)
{
	CHECK_STR(print(1, (struct ctl_room){ .no_header = true }), "1  init  kernel\n");
	CHECK_STR(print(0, (struct ctl_room){ .no_header = true }), "");
	CHECK_STR(print(0, (struct ctl_room){ 0 }), "PID  PROGRAM  PATH\n");
}

static void narrow_terminals_cut_names(void)
{
	CHECK_STR(print(2, (struct ctl_room){ .n_columns = 25 }),
		  "  PID  PROGRAM     PATH\n"
		  "    1  init        kernel\n"
		  "12345  a-rather-\xe2\x80\xa6  -\n");
	/* Columns that must not shrink stay whole, however narrow the terminal is. */
	CHECK_STR(print(1, (struct ctl_room){ .n_columns = 3, .no_header = true }),
		  "1  init  kernel\n");
}

/* A character of two columns, and one of none, which combines with the one before it. */
static void columns_are_of_the_terminal(void)
{
	static const struct ctl_column two[] = { { .title = "P", .shrinks = true },
						 { .title = "N", .right = true } };
	static const char *const wide[] = { "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97",
					    "1" };
	static const char *const thin[] = { "u\xcc\x88"
					    "b",
					    "2" };
	struct ctl_table *table = NULL;
	struct ctl_room room = { .n_columns = 10 };
	size_t len;
	FILE *out;

	(void)setenv("LC_ALL", "C.UTF-8", 1);
	ctl_text_start();
	free(text);
	text = NULL;
	out = open_memstream(&text, &len);
	REQUIRE(out != NULL);
	REQUIRE_INT(ctl_table_new(two, 2, &table), ==, 0);
	REQUIRE_INT(ctl_table_add(table, wide), ==, 0);
	REQUIRE_INT(ctl_table_add(table, thin), ==, 0);
	ctl_table_print(table, out, &(struct ctl_room){ 0 });
	ctl_table_print(table, out, &room);
	(void)ctl_table_free(table);
	(void)fclose(out);
	CHECK_STR(text, "P         N\n"
			"\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97  1\n"
			"u\xcc\x88"
			"b        2\n"
			"P        N\n"
			"\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe2\x80\xa6  1\n"
			"u\xcc\x88"
			"b       2\n");
}

static void low_terminals_count_the_rest(void)
{
	CHECK_STR(print(3, (struct ctl_room){ .n_lines = 3 }), "  PID  PROGRAM             PATH\n"
							       "    1  init                kernel\n"
							       "... and 2 more\n");
	CHECK(strstr(print(3, (struct ctl_room){ .n_lines = 4 }), "more") == NULL);
}

static void too_many_columns_are_refused(void)
{
	struct ctl_table *table = NULL;

	CHECK_INT(ctl_table_new(columns, 0, &table), ==, -EINVAL);
	CHECK_INT(ctl_table_new(columns, 1000, &table), ==, -EINVAL);
	CHECK(ctl_table_free(NULL) == NULL);
}

static const struct test tests[] = {
	TEST(columns_are_aligned),	    TEST(header_can_be_left_out),
	TEST(narrow_terminals_cut_names),   TEST(columns_are_of_the_terminal),
	TEST(low_terminals_count_the_rest), TEST(too_many_columns_are_refused),
};

int main(int argc, char **argv)
{
	int status = TESTS_RUN(tests, argc, argv);

	free(text);
	return status;
}
