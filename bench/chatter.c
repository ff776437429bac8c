/*
 * Chatter: a task that writes as fast as it can, and a reader that misses nothing.
 *
 * `chatter tell N` writes N lines of SIZE_LINE bytes, each with its rank and number, many with each
 * call. `chatter hear RANKS N` reads what so many of them have written, in whatever order their
 * lines come, and counts what is not as it should be: a line that is torn, missing, doubled or
 * before its time. Both do as little as that can be done with, for it is what lies between them
 * that is measured.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_LINE 64u
#define SIZE_RANK 4u
#define SIZE_NUMBER 10u
#define SIZE_HEAD (SIZE_RANK + SIZE_NUMBER)
#define N_RANKS_MAX 1000ul
#define N_LINES 1024u /* with one call */

static void fill(char *line, unsigned long rank)
{
	(void)snprintf(line, SIZE_LINE, "%0*lu%0*u", (int)SIZE_RANK, rank, (int)SIZE_NUMBER, 0u);
	for (unsigned i = SIZE_HEAD; i < SIZE_LINE - 1; i++)
		line[i] = (char)('a' + i % 26);
	line[SIZE_LINE - 1] = '\n';
}

/* To the next number. */
static void count(char *line)
{
	char *digit = line + SIZE_HEAD - 1;

	while (*digit == '9')
		*digit-- = '0';
	(*digit)++;
}

static int write_all(const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, bytes, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		bytes += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int tell(unsigned long n_lines)
{
	static char block[N_LINES * SIZE_LINE];
	const char *rank = getenv("PULC_RANK");
	char line[SIZE_LINE];
	int r = 0;

	fill(line, rank ? strtoul(rank, NULL, 10) : 0);
	while (r == 0 && n_lines > 0) {
		size_t n = n_lines < N_LINES ? n_lines : N_LINES;

		for (size_t i = 0; i < n; i++) {
			memcpy(block + i * SIZE_LINE, line, SIZE_LINE);
			count(line);
		}
		r = write_all(block, n * SIZE_LINE);
		n_lines -= n;
	}
	return r;
}

struct hearer {
	char next[N_RANKS_MAX][SIZE_LINE]; /* what each is to say */
	unsigned long n_ranks, n_lines, n_bad;
};

static void hear_line(struct hearer *hearer, const char *line)
{
	unsigned long rank = 0;

	for (unsigned i = 0; i < SIZE_RANK; i++)
		rank = rank * 10 + (unsigned long)(line[i] - '0');
	if (rank < hearer->n_ranks && memcmp(line, hearer->next[rank], SIZE_LINE) == 0)
		count(hearer->next[rank]);
	else
		hearer->n_bad++;
	hearer->n_lines++;
}

static int hear(struct hearer *hearer)
{
	static char block[4 * N_LINES * SIZE_LINE];
	size_t len = 0, at;
	ssize_t n;

	while ((n = read(STDIN_FILENO, block + len, sizeof(block) - len)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		len += (size_t)n;
		for (at = 0; len - at >= SIZE_LINE; at += SIZE_LINE)
			hear_line(hearer, block + at);
		memmove(block, block + at, len - at);
		len -= at;
	}
	hearer->n_bad += len > 0;
	return 0;
}

static int check(unsigned long n_ranks, unsigned long n_lines)
{
	static struct hearer hearer;
	int r;

	hearer.n_ranks = n_ranks;
	for (unsigned long i = 0; i < n_ranks; i++)
		fill(hearer.next[i], i);
	r = hear(&hearer);
	if (r < 0)
		return r;
	if (hearer.n_lines != n_ranks * n_lines)
		hearer.n_bad++;
	(void)printf("lines=%lu bad=%lu\n", hearer.n_lines, hearer.n_bad);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	int r;

	if (argc == 3 && strcmp(argv[1], "tell") == 0) {
		r = tell(n);
	} else if (argc == 4 && strcmp(argv[1], "hear") == 0 && n <= N_RANKS_MAX) {
		r = check(n, strtoul(argv[3], NULL, 10));
	} else {
		(void)fprintf(stderr, "usage: chatter tell LINES | chatter hear RANKS LINES\n");
		return 2;
	}
	if (r < 0)
		(void)fprintf(stderr, "chatter: %s\n", strerror(-r));
	return r < 0;
}
