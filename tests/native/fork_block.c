/*
 * fork with blocks: the child reads and frees what its parent had taken, which is not told; blocks
 * of the parent's own are the child's to read. Prints "child" and "parent" when all is well with
 * them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/block.h>

#define SIZE 100000u

static const struct pulc_tag anything = { 0, 0, PULC_ANY_PEER };
static void *own, *given;
static const void *taken;

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

/* Gives a block to itself and takes it. */
static int give_and_take(const void **ret_taken)
{
	if (pulc_alloc(SIZE, 0, &given) != 0)
		return failed(__LINE__);
	memset(given, 'g', SIZE);
	if (pulc_tag_give(0, 1, given, SIZE) != SIZE ||
	    pulc_tag_take(&anything, SIZE, ret_taken, NULL) != SIZE)
		return failed(__LINE__);
	return 0;
}

static int is_taken(const void *block)
{
	const char *at = block;

	return at[0] == 'g' && memcmp(at, at + 1, SIZE - 1) == 0;
}

/* The kernel says so: a write of ours would be our end. */
static int is_only_read(void *block)
{
	int ends[2];

	return pipe(ends) == 0 && write(ends[1], "x", 1) == 1 && read(ends[0], block, 1) == -1 &&
	       errno == EFAULT;
}

static int be_child(void)
{
	const void *again;

	if (!is_taken(taken) || pulc_free(taken) != 0 || pulc_free(taken) != -EINVAL)
		return failed(__LINE__);
	if (pulc_free(own) != -EINVAL || pulc_tag_give(0, 1, own, 10) != -EINVAL)
		return failed(__LINE__);
	if (!is_only_read(own))
		return failed(__LINE__);
	if (give_and_take(&again) != 0 || !is_taken(again) || pulc_free(again) != 0)
		return failed(__LINE__);
	puts("child");
	return 0;
}

int main(void)
{
	struct pulc_alloc_state state;
	int status;
	pid_t pid;

	if (pulc_alloc(SIZE, 0, &own) != 0 || give_and_take(&taken) != 0)
		return failed(__LINE__);
	pid = fork();
	if (pid == 0) {
		status = be_child();
		(void)fflush(stdout);
		_exit(status);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0 || !is_taken(taken))
		return failed(__LINE__);
	if (pulc_free(taken) != 0 || pulc_free(own) != 0)
		return failed(__LINE__);
	if (pulc_alloc_state(&state) != 0 || state.size_used != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
