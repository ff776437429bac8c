/*
 * Tables as ss and systemctl print them: every column as wide as its widest cell, two spaces
 * between, numbers to the right.
 *
 * On a terminal that is too narrow, the columns that may shrink are cut, the widest first, and the
 * cut is marked; whatever reads a pipe gets every character. A character is as wide as wcwidth(3)
 * says; one that combines with the one before it takes no column.
 */
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"
#include "text.h"

#define N_COLUMNS_MAX 24
#define GAP 2
#define WIDTH_SHRUNK_MIN 6

struct ctl_table {
	const struct ctl_column *columns;
	size_t n_columns;
	char **cells; /* row by row */
	size_t n_rows;
};

int ctl_table_new(const struct ctl_column *columns, size_t n, struct ctl_table **ret_table)
{
	struct ctl_table *t;

	if (n == 0 || n > N_COLUMNS_MAX)
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->columns = columns;
	t->n_columns = n;
	*ret_table = t;
	return 0;
}

struct ctl_table *ctl_table_free(struct ctl_table *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
	return NULL;
}

void ctl_table_cleanup(struct ctl_table **table)
{
	*table = ctl_table_free(*table);
}

int ctl_table_add(struct ctl_table *t, const char *const *cells)
{
	size_t used = t->n_rows * t->n_columns;
	char **grown = reallocarray(t->cells, used + t->n_columns, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	t->cells = grown;
	for (size_t i = 0; i < t->n_columns; i++) {
		grown[used + i] = strdup(cells[i] && cells[i][0] ? cells[i] : "-");
		if (!grown[used + i]) {
			while (i > 0)
				free(grown[used + --i]);
			return -ENOMEM;
		}
	}
	t->n_rows++;
	return 0;
}

static size_t width_of(const char *text)
{
	size_t n = 0;

	while (*text)
		n += ctl_text_width(&text);
	return n;
}

static void measure(const struct ctl_table *t, const struct ctl_room *room, size_t *widths)
{
	for (size_t c = 0; c < t->n_columns; c++) {
		widths[c] = room->no_header ? 0 : width_of(t->columns[c].title);
		for (size_t r = 0; r < t->n_rows; r++)
			widths[c] = MAX(widths[c], width_of(t->cells[r * t->n_columns + c]));
	}
}

/* Takes width from the widest of the columns that may shrink until a line fits, or nothing is left
 * to take. */
static void shrink(const struct ctl_table *t, size_t room, size_t *widths)
{
	size_t total = GAP * (t->n_columns - 1);

	for (size_t c = 0; c < t->n_columns; c++)
		total += widths[c];
	while (total > room) {
		size_t widest = t->n_columns;

		for (size_t c = 0; c < t->n_columns; c++)
			if (t->columns[c].shrinks && widths[c] > WIDTH_SHRUNK_MIN &&
			    (widest == t->n_columns || widths[c] > widths[widest]))
				widest = c;
		if (widest == t->n_columns)
			return;
		widths[widest]--;
		total--;
	}
}

/* As much of text as has room in n columns. Returns what is left of them. */
static size_t print_start(FILE *out, const char *text, size_t n)
{
	const char *end = text;

	for (const char *next = text; *next; end = next) {
		size_t width = ctl_text_width(&next);

		if (width > n)
			break;
		n -= width;
	}
	fwrite(text, 1, (size_t)(end - text), out);
	return n;
}

static void print_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
	size_t own = width_of(text);
	int pad = own < width ? (int)(width - own) : 0;

	if (right)
		fprintf(out, "%*s", pad, "");
	if (own > width) {
		pad = (int)print_start(out, text, width - 1);
		fputs(ctl_text_cut(), out);
	} else {
		fputs(text, out);
	}
	if (!right && !last)
		fprintf(out, "%*s", pad, "");
	if (!last)
		fprintf(out, "%*s", GAP, "");
}

static void print_row(FILE *out, const struct ctl_table *t, char *const *cells,
		      const size_t *widths)
{
	for (size_t c = 0; c < t->n_columns; c++) {
		const char *text = cells ? cells[c] : t->columns[c].title;

		print_cell(out, text, widths[c], t->columns[c].right, c + 1 == t->n_columns);
	}
	fputc('\n', out);
}

void ctl_table_print(const struct ctl_table *t, FILE *out, const struct ctl_room *room)
{
	size_t widths[N_COLUMNS_MAX];
	size_t n_shown = t->n_rows, n_header = room->no_header ? 0 : 1;

	measure(t, room, widths);
	if (room->n_columns > 0)
		shrink(t, room->n_columns, widths);
	if (room->n_lines > 0 && n_header + t->n_rows > room->n_lines)
		n_shown = room->n_lines > n_header + 1 ? room->n_lines - n_header - 1 : 0;
	if (n_header)
		print_row(out, t, NULL, widths);
	for (size_t r = 0; r < n_shown; r++)
		print_row(out, t, t->cells + r * t->n_columns, widths);
	if (n_shown < t->n_rows)
		fprintf(out, "... and %zu more\n", t->n_rows - n_shown);
}

struct ctl_room ctl_room_of(int fd)
{
	const char *columns = getenv("COLUMNS");
	struct ctl_room room = { 0 };
	struct winsize size;

	if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) < 0)
		return room;
	room.n_columns = size.ws_col;
	room.n_lines = size.ws_row;
	if (columns && atoi(columns) > 0)
		room.n_columns = (unsigned)atoi(columns);
	return room;
}
