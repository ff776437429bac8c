/*
 * A program that confines itself after a link of HAL tcp was opened, so that the kernel refuses
 * every call for the link's ring: the link ends, which is told, and can be closed.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "macros.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define N_TURNS 100000u
#define SEC_LONG 20u

static int confine(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { .len = ARRAY_SIZE(code), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0
		       ? -errno
		       : 0;
}

static int send_to(struct hal_link *link, uint64_t word)
{
	static char buf[30000];
	const struct iovec iov = { buf, sizeof(buf) };
	const struct hal_frame f = { .word = word, .len = sizeof(buf), .protocol = 7 };

	return link->ops->send(link, &f, &iov, 1);
}

/* In a process of its own. 0; or which step went wrong. */
static int be_confined(struct hal_link *link, struct hal_link *other)
{
	struct hal_frame f;
	int e = 0;

	(void)alarm(SEC_LONG);
	if (send_to(other, 1) < 0 || confine() < 0)
		return 1;
	for (unsigned i = 0; i < N_TURNS && e == 0; i++)
		e = send_to(link, i);
	if (e >= 0)
		return 2;
	e = 0;
	for (unsigned i = 0, n = 0; i < N_TURNS && e >= 0; i++) {
		(void)link->ops->progress(link);
		e = link->ops->next(link, &f);
		if (e == 1 && n++ == 0 && f.word != 1)
			return 3;
		if (e == 1)
			link->ops->drop(link);
	}
	if (e != -EPIPE || !link->ops->pending(link))
		return 4;
	link->ops->close(link);
	return 0;
}

static void the_link_ends(void)
{
	struct hal_link *link, *other;
	int fd[2], status = -1;
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		tcp_connect_pair(fd, AF_INET);
		if (hal_tcp_open(fd[0], HAL_TCP_URING, &link) < 0)
			_exit(0); /* there are no rings here */
		if (hal_tcp_open(fd[1], HAL_TCP_PLAIN, &other) < 0)
			_exit(5);
		_exit(be_confined(link, other));
	}
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

static const struct test tests[] = {
	TEST(the_link_ends),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
