/* Aligned tables of text. */
#ifndef PULCCTL_TABLE_H
#define PULCCTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct ctl_column {
	const char *title;
	bool right;   /* numbers stand at the right */
	bool shrinks; /* may be cut when the lines are too long for the terminal */
};

struct ctl_table;

/* How much room there is; zero: no limit. */
struct ctl_room {
	unsigned n_columns; /* characters of a line */
	unsigned n_lines;   /* the header included */
	bool no_header;
};

/* A table with n columns, which must outlive it. Returns 0, -ENOMEM. */
int ctl_table_new(const struct ctl_column *columns, size_t n, struct ctl_table **ret_table);
struct ctl_table *ctl_table_free(struct ctl_table *table);
void ctl_table_cleanup(struct ctl_table **table);

/* Adds a row of n cells, copied; NULL is an empty cell and is shown as "-". Returns 0, -ENOMEM. */
int ctl_table_add(struct ctl_table *table, const char *const *cells);

/* Prints the table. Rows for which there is no room are counted in a last line. */
void ctl_table_print(const struct ctl_table *table, FILE *out, const struct ctl_room *room);

/* The room on fd if it is a terminal (COLUMNS wins), otherwise none of its limits. */
struct ctl_room ctl_room_of(int fd);

#endif
