/*
 * Programs behind a seccomp filter that knows exactly the calls which they make themselves, and
 * kills for any other. A forked child is confined, for what a filter does to a process is for good.
 */
#include "epoll_case.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define N_ALLOWED 16
/* Ends the list; no system call has this number. */
#define END (-1)

/* A filter that lets these pass; by prctl or by seccomp(2). The other end of the pair is not the
 * child's. */
static int confine(struct play *p, const int *allowed, bool by_prctl)
{
	struct sock_filter code[2 + 2 * N_ALLOWED] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { .len = 1, .filter = code };

	if (p->mode == THREAD && !(p->tcase->traits & NO_PAIR))
		close((int)*stage_word(p, 1));
	for (; *allowed != END; allowed++) {
		code[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								   (uint32_t)*allowed, 0, 1);
		code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
								   SECCOMP_RET_ALLOW);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							   SECCOMP_RET_KILL_PROCESS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
			: (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* What malloc asks for. */
#define MEMORY SYS_brk, SYS_mmap, SYS_munmap, SYS_getrandom

static const int transfers[] = { SYS_sendto,   SYS_recvfrom,   SYS_read, SYS_write, SYS_close,
				 SYS_shutdown, SYS_exit_group, MEMORY,	 END };

CASE(confined_transfers, DUO)
{
	B { *stage_word(p, 1) = FD; }
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			R(confine(p, transfers, true));
			SEND("from inside");
			RECV(20);
			R(write(FD, "more", 4));
			R(shutdown(FD, SHUT_WR));
			RECV(1);
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		settle(p, FD, 11);
		RECV(20);
		SEND("answer");
		settle(p, FD, 4);
		RECV(20);
		RECV(1);
		R(shutdown(FD, SHUT_WR));
	}
}

CASE(confined_by_seccomp_with_bytes_on_the_way, DUO)
{
	B {
		*stage_word(p, 1) = FD;
		T(put_pattern(FD, 30000, 1000) == 30000);
	}
	A {
		pid_t pid;

		settle(p, FD, 30000);
		T(put_pattern(FD, 20000, 1000) == 20000);
		pid = fork_logged(p);
		if (pid == 0) {
			R(confine(p, transfers, false));
			T(take_pattern(FD, 30000, 7000) == 30000);
			SEND("end");
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		T(take_pattern(FD, 20000, 7000) == 20000);
		settle(p, FD, 3);
		RECV(10);
	}
}

CASE(confined_waits, DUO)
{
	static const int waits[] = { SYS_poll,	     SYS_epoll_wait, SYS_recvfrom, SYS_sendto,
				     SYS_exit_group, MEMORY,	     END };

	B { *stage_word(p, 1) = FD; }
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			struct pollfd pfd = { .fd = FD, .events = POLLIN };
			int ep = epoll_create1(0);

			ADD(ep, FD, EPOLLIN, 1);
			R(confine(p, waits, true));
			SEND("1");
			EXPECT(ep);
			RECV(10);
			EXPECT_NONE(ep);
			SEND("2");
			R(poll(&pfd, 1, 10000));
			RECV(10);
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		RECV(1);
		SEND("a");
		RECV(1);
		SEND("b");
	}
}

CASE(confined_forks, DUO)
{
	static const int forks[] = { SYS_clone,	   SYS_set_robust_list, SYS_wait4, SYS_sendto,
				     SYS_recvfrom, SYS_exit_group,	MEMORY,	   END };

	B { *stage_word(p, 1) = FD; }
	A {
		pid_t inner, pid = fork_logged(p);
		int status = -1;

		if (pid == 0) {
			R(confine(p, forks, true));
			inner = fork();
			if (inner == 0)
				_exit(send(FD, "from a child", 12, 0) == 12 ? 0 : 1);
			T(waitpid(inner, &status, 0) == inner);
			R(status);
			SEND(" and me");
			RECV(20);
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		settle(p, FD, 19);
		RECV(20);
		SEND("answer");
	}
}

CASE(confined_strictly, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			char buf[8] = "";

			R(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
			R(write(FD, "in", 2));
			R(read(FD, buf, 3));
			say_bytes(p, "read", buf, 3);
			syscall(SYS_exit, 0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		settle(p, FD, 2);
		RECV(10);
		SEND("out");
	}
}

CASE_TRAITS(confined_connects, THREAD, NO_PAIR)
{
	static const int connects[] = { SYS_socket, SYS_connect,    SYS_sendto, SYS_recvfrom,
					SYS_close,  SYS_exit_group, MEMORY,	END };
	struct address address;

	A { *stage_word(p, 1) = listen_on("127.0.0.1", &address); }
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			int fd;

			R(confine(p, connects, true));
			fd = socket(AF_INET, SOCK_STREAM, 0);
			R(connect(fd, (struct sockaddr *)&address.storage, address.size));
			for (int i = 0; i < 20; i++) {
				say_send(p, fd, "ping", 0);
				say_recv(p, fd, 4, MSG_WAITALL);
			}
			close(fd);
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		int fd = accept((int)*stage_word(p, 1), NULL, NULL);
		char buf[4];

		while (recv(fd, buf, 4, MSG_WAITALL) == 4) (void)!send(fd, buf, 4, 0);
		close(fd);
		close((int)*stage_word(p, 1));
	}
}

/* Programs ask that way whether there is seccomp: nobody is confined by it. */
CASE(confined_not_by_asking, ANY)
{
	A {
		R(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
		R(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
		SEND("as before");
	}
	B { RECV(20); }
}

CASE_TRAITS(confined_datagrams, DUO, DATAGRAMS)
{
	B { *stage_word(p, 1) = FD; }
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			R(confine(p, transfers, true));
			SEND("from inside");
			RECV(20);
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		RECV(20);
		SEND("answer");
	}
}
