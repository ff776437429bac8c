/*
 * fork with tagged messages kept and under way: none of them is the child's, and the parent's go
 * on. Prints "child" and "parent" when all is well with them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/tag.h>

static const struct pulc_tag anything = { 0, 0, PULC_ANY_PEER };
static pulc_op *sending, *receiving, *cancelled;
static char out[100000], in[100000];

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

static int be_child(void)
{
	char got[8];

	if (pulc_op_test(sending) != 1 || pulc_op_test(receiving) != 1)
		return failed(__LINE__);
	if (pulc_op_cancel(sending) != 0 || pulc_tag_end(sending, NULL) != -ECHILD ||
	    pulc_op_end(receiving, NULL) != -ECHILD || pulc_tag_end(cancelled, NULL) != -ECHILD)
		return failed(__LINE__);
	/* What was kept for the parent is not here; messages of its own are. */
	if (pulc_tag_probe(&anything, 0, NULL) != 0)
		return failed(__LINE__);
	if (pulc_tag_send(0, 3, "own", 3) != 3 ||
	    pulc_tag_receive(&anything, got, sizeof(got), NULL) != 3)
		return failed(__LINE__);
	puts("child");
	return 0;
}

static int begin(void)
{
	const struct pulc_tag want = { 7, PULC_TAG_EXACT, 0 };

	if (pulc_tag_send(0, 1, "kept", 4) != 4 ||
	    pulc_tag_isend(0, 2, out, sizeof(out), &sending) != 0)
		return failed(__LINE__);
	if (pulc_tag_ireceive(&want, in, 8, &receiving) != 0 ||
	    pulc_tag_ireceive(&want, in, 8, &cancelled) != 0)
		return failed(__LINE__);
	return 0;
}

static int go_on(void)
{
	if (pulc_tag_receive(&anything, in, sizeof(in), NULL) != 4 || memcmp(in, "kept", 4) != 0)
		return failed(__LINE__);
	if (pulc_tag_receive(&anything, in, sizeof(in), NULL) != sizeof(in) ||
	    memcmp(in, out, sizeof(in)) != 0 || pulc_op_end(sending, NULL) != sizeof(out))
		return failed(__LINE__);
	if (pulc_tag_send(0, 7, "y", 1) != 1 || pulc_op_end(receiving, NULL) != 1)
		return failed(__LINE__);
	if (pulc_op_cancel(cancelled) != 0 || pulc_tag_end(cancelled, NULL) != -ECANCELED)
		return failed(__LINE__);
	return 0;
}

int main(void)
{
	int status;
	pid_t pid;

	memset(out, 'o', sizeof(out));
	if (begin() != 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		status = be_child();
		(void)fflush(stdout);
		_exit(status);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0 || go_on() != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
