/*
 * A process that locks all of its memory (mlockall) allocates no more of the area of its blocks
 * than these.
 *
 *   locked hold	has a block, and locks nothing, until its input ends
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <pulc/block.h>

#define SIZE (1u << 20)
#define KIB_MAX (256ul << 10)

/* Memory that is shared and there. */
static unsigned long kib_shared(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long kib = KIB_MAX;
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, "RssShmem: %lu", &kib);
	if (f)
		(void)fclose(f);
	return kib;
}

/* Until its input ends. */
static int hold(void)
{
	void *block;

	if (pulc_alloc(SIZE, 0, &block) < 0)
		return 1;
	puts("held");
	(void)fflush(stdout);
	while (getchar() != EOF)
		;
	return pulc_free(block) != 0;
}

int main(int argc, char **argv)
{
	void *block;
	int e;

	if (argc > 1 && strcmp(argv[1], "hold") == 0)
		return hold();

	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0) {
		puts("may not lock memory");
		return 0;
	}
	e = pulc_alloc(SIZE, 0, &block);
	if (e < 0) {
		puts("may not lock so much memory");
		return 0;
	}
	memset(block, 'x', SIZE);
	if (kib_shared() >= KIB_MAX) {
		printf("%lu KiB for a block\n", kib_shared());
		return 1;
	}
	puts("no more memory than blocks");
	return pulc_free(block) != 0;
}
