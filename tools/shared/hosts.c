/*
 * Host lists.
 *
 * A word is PREFIX[RANGES]SUFFIX:SLOTS, of which all but PREFIX may be missing. A range written
 * with leading zeros keeps its width: n[08-11] is n08, n09, n10, n11. A name that is listed twice
 * has the slots of both. In files, "slots=2" behind a name is the same as ":2".
 */
#include "hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

/* Digits at *p, which moves behind them. Returns 0, -EINVAL: none, or too many. */
static int parse_number(const char **p, uint32_t *ret)
{
	uint64_t value = 0;
	const char *start = *p;

	while (isdigit((unsigned char)**p) && *p - start < 10)
		value = value * 10 + (uint64_t)(*(*p)++ - '0');
	if (*p == start || value > UINT32_MAX || isdigit((unsigned char)**p))
		return -EINVAL;
	*ret = (uint32_t)value;
	return 0;
}

static int add(struct hosts *hosts, const char *name, uint32_t slots)
{
	if (!*name || strlen(name) >= HOSTS_SIZE_NAME)
		return -EINVAL;
	for (const char *p = name; *p; p++)
		if (!is_name_char(*p))
			return -EINVAL;
	if (hosts->n == HOSTS_N_MAX)
		return -E2BIG;
	if ((hosts->n & (hosts->n - 1)) == 0) { /* grows at powers of two */
		size_t n = hosts->n ? 2 * hosts->n : 1;
		struct host *items = reallocarray(hosts->items, n, sizeof(*items));

		if (!items)
			return -ENOMEM;
		hosts->items = items;
	}
	(void)strcpy(hosts->items[hosts->n].name, name);
	hosts->items[hosts->n].slots = slots;
	hosts->n++;
	return 0;
}

/* One range of "2-4,7" at *p. */
static int parse_range(const char **p, uint32_t *ret_first, uint32_t *ret_last, int *ret_width)
{
	const char *start = *p;
	int r = parse_number(p, ret_first);

	if (r < 0)
		return r;
	*ret_width = *start == '0' ? (int)(*p - start) : 0;
	*ret_last = *ret_first;
	if (**p != '-')
		return 0;
	(*p)++;
	r = parse_number(p, ret_last);
	return r < 0 || *ret_last < *ret_first ? -EINVAL : 0;
}

/* A word whose brackets are at `open` and `close`. */
static int add_ranges(struct hosts *hosts, const char *word, const char *open, const char *close,
		      uint32_t slots)
{
	const char *p = open + 1;
	char name[HOSTS_SIZE_NAME + 1]; /* longer ones are none */
	uint32_t first, last;
	int width, r;

	while (p < close) {
		r = parse_range(&p, &first, &last, &width);
		if (r < 0)
			return r;
		for (uint64_t i = first; i <= last; i++) {
			(void)snprintf(name, sizeof(name), "%.*s%0*u%s", (int)(open - word), word,
				       width, (unsigned)i, close + 1);
			r = add(hosts, name, slots);
			if (r < 0)
				return r;
		}
		if (*p == ',')
			p++;
		else if (p != close)
			return -EINVAL;
	}
	return open + 1 == close ? -EINVAL : 0;
}

/* One word, which may be scribbled on. */
static int add_word(struct hosts *hosts, char *word)
{
	char *colon = strrchr(word, ':'), *open = strchr(word, '['), *close = strchr(word, ']');
	uint32_t slots = 0;

	if (colon) {
		const char *p = colon + 1;

		if (parse_number(&p, &slots) < 0 || *p || slots == 0)
			return -EINVAL;
		*colon = '\0';
	}
	if (!open && !close)
		return add(hosts, word, slots);
	if (!open || !close || close < open || (colon && close > colon))
		return -EINVAL;
	return add_ranges(hosts, word, open, close, slots);
}

/* "slots=2" behind a word, whose names begin at `from`. */
static int add_slots(struct hosts *hosts, size_t from, const char *word)
{
	const char *p = word + strlen("slots=");
	uint32_t slots;

	if (hosts->n == from || parse_number(&p, &slots) < 0 || *p || slots == 0)
		return -EINVAL;
	for (size_t i = from; i < hosts->n; i++)
		hosts->items[i].slots = slots;
	return 0;
}

/* Commas and white space separate words, but not inside of brackets. */
static size_t word_length(const char *text, size_t len)
{
	bool inside = false;
	size_t n = 0;

	for (; n < len; n++) {
		if (!inside && (text[n] == ',' || isspace((unsigned char)text[n])))
			break;
		inside = text[n] == '[' || (inside && text[n] != ']');
	}
	return n;
}

int hosts_parse(struct hosts *hosts, const char *text, size_t len)
{
	size_t n_before = hosts->n; /* the last word's names begin there */
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n = word_length(text, len);
		CLEANUP_FREE char *word = strndup(text, n);

		if (!word)
			return -ENOMEM;
		if (strlen(word) < n)
			return -EINVAL;
		if (strncmp(word, "slots=", 6) == 0) {
			r = add_slots(hosts, n_before, word);
		} else if (n > 0) {
			n_before = hosts->n;
			r = add_word(hosts, word);
		}
		text += n < len ? n + 1 : n;
		len -= n < len ? n + 1 : n;
	}
	return r;
}

int hosts_read(struct hosts *hosts, const char *path, unsigned *ret_line)
{
	FILE *file = fopen(path, "re");
	size_t n_before = hosts->n, size = 0;
	CLEANUP_FREE char *line = NULL;
	unsigned n_lines = 0;
	ssize_t len;
	int r = 0;

	if (!file)
		return -errno;
	for (; r == 0 && (len = getline(&line, &size, file)) >= 0; n_lines++) {
		const char *comment = memchr(line, '#', (size_t)len);

		r = hosts_parse(hosts, line, comment ? (size_t)(comment - line) : (size_t)len);
	}
	if (r == 0 && !feof(file))
		r = ferror(file) ? -EIO : -ENOMEM;
	(void)fclose(file);
	if (r == -EINVAL)
		*ret_line = n_lines;
	return r == 0 && hosts->n == n_before ? -ENODATA : r;
}

void hosts_deinit(struct hosts *hosts)
{
	free(hosts->items);
	*hosts = (struct hosts){ 0 };
}
