/*
 * Descriptor numbers: PULC's own descriptors never take one that the program would have got, and
 * a program that closes what it does not know takes nothing from PULC.
 */
#include "epoll_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int open_file(void)
{
	return open("/dev/null", O_RDWR);
}

static void say_open_low(struct play *p)
{
	char line[400] = "";

	for (int fd = 0; fd < 100; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			(void)snprintf(line + strlen(line), sizeof(line) - strlen(line), " %d", fd);
	say(p, "open:%s", line);
}

CASE_TRAITS(fdnumbers_sequence, SELF, OWN_PAIR)
{
	int fds[2], pipes[2];

	A {
		say(p, "%d", open_file());
		pair_local(fds);
		say(p, "%d %d", fds[0], fds[1]);
		say(p, "%d", open_file());
		warm(p, fds);
		say(p, "%d", open_file());
		T(pipe(pipes) == 0);
		say(p, "%d %d", pipes[0], pipes[1]);
		say(p, "%d", dup(fds[0]));
		say(p, "%d", epoll_create1(0));
		close(fds[0]);
		say(p, "%d", open_file());
		close(fds[1]);
		say(p, "%d", socket(AF_INET, SOCK_STREAM, 0));
		say(p, "%d", eventfd(0, 0));
		say(p, "%d", open_file());
		say_open_low(p);
	}
}

CASE_TRAITS(fdnumbers_of_many_pairs, SELF, OWN_PAIR)
{
	int fds[20][2];

	A {
		for (int i = 0; i < 20; i++) {
			pair_local(fds[i]);
			warm(p, fds[i]);
			say(p, "%d %d", fds[i][0], fds[i][1]);
			if (i % 3 == 0)
				close(fds[i][i % 2]);
		}
		say_open_low(p);
	}
}

CASE_TRAITS(fdnumbers_after_waiting, SELF, OWN_PAIR)
{
	int fds[2], ep;

	A {
		pair_local(fds);
		warm(p, fds);
		R(poll(&(struct pollfd){ .fd = fds[0], .events = POLLIN }, 1, 5));
		ep = epoll_create1(0);
		say(p, "%d", ep);
		R(epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &(struct epoll_event){ .events = EPOLLIN }));
		R(epoll_wait(ep, &(struct epoll_event){ 0 }, 1, 5));
		say(p, "%d", open_file());
		say_open_low(p);
	}
}

static void *open_and_close(void *arg)
{
	long worst = 0;

	for (int i = 0; i < 3000; i++) {
		int fd = open_file();

		if (fd > worst)
			worst = fd;
		close(fd);
	}
	*(long *)arg = worst;
	return NULL;
}

/* A thread that watches the lowest free number while connections are upgraded beside it. */
CASE_TRAITS(fdnumbers_seen_by_another_thread, SELF, OWN_PAIR)
{
	pthread_t thread;
	long worst = 0;
	int fds[2], expected;

	A {
		pair_local(fds);
		expected = open_file();
		close(expected);
		pthread_create(&thread, NULL, open_and_close, &worst);
		warm(p, fds);
		for (int i = 0; i < 200; i++)
			if (send(fds[0], "x", 1, 0) != 1 || recv(fds[1], &(char){ 0 }, 1, 0) != 1)
				say(p, "exchange %d fails", i);
		pthread_join(thread, NULL);
		say(p, "worst number is %s", worst == expected ? "the lowest free one" : "another");
	}
}

CASE(fdnumbers_close_loop_before_fork_of_life, ANY)
{
	A {
		for (int fd = 3; fd < 2000; fd++)
			if (fd != FD && (p->mode == PROCESS || fd != p->fds[SIDE_B]) &&
			    p->mode != THREAD)
				close(fd);
		SEND("still there");
	}
	B {
		RECV_FLAGS(11, MSG_WAITALL);
		SEND("and here");
	}
	A {
		RECV_FLAGS(8, MSG_WAITALL);
		say(p, "%zu", stuff(FD) > 100000 ? (size_t)1 : (size_t)0);
	}
}

CASE(fdnumbers_close_range_around, SELF)
{
	A {
		int low = p->fds[0] < p->fds[1] ? p->fds[0] : p->fds[1];
		int high = p->fds[0] < p->fds[1] ? p->fds[1] : p->fds[0];

		if (low > 3)
			R(close_range(3, (unsigned)low - 1, 0));
		if (high > low + 1)
			close_range((unsigned)low + 1, (unsigned)high - 1, 0);
		R(close_range((unsigned)high + 1, ~0U, 0));
		SEND("still there");
	}
	B {
		RECV_FLAGS(11, MSG_WAITALL);
		SEND("and here");
	}
	A {
		RECV_FLAGS(8, MSG_WAITALL);
		say(p, "next is %d", open_file());
	}
}

CASE(fdnumbers_closefrom, PROCESS)
{
	A {
		T(dup2(FD, 3) == 3);
		closefrom(4);
		p->fds[SIDE_A] = 3;
		say_send(p, 3, "still there", 0);
	}
	B {
		RECV_FLAGS(11, MSG_WAITALL);
		SEND("and here");
	}
	A {
		say_recv(p, 3, 8, MSG_WAITALL);
		say_open_low(p);
		say(p, "next is %d", open_file());
	}
	A { R(close(3)); }
	B { RECV(1); }
}

CASE(fdnumbers_closefrom_takes_the_socket, PROCESS)
{
	A {
		SEND("bye");
		closefrom(3);
		RECV(1);
	}
	B {
		RECV_FLAGS(3, MSG_WAITALL);
		RECV(1);
	}
}

CASE_TRAITS(fdnumbers_small_limit, SELF, OWN_PAIR)
{
	struct rlimit limit;
	int fds[2], n = 0;

	A {
		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = 64;
		R(setrlimit(RLIMIT_NOFILE, &limit));
		pair_local(fds);
		warm(p, fds);
		R(send(fds[0], "x", 1, 0));
		say_recv(p, fds[1], 1, 0);
		while (open_file() >= 0) n++;
		say(p, "%s after the same number of files: %d", errno_name(errno), n);
		R(send(fds[1], "y", 1, 0));
		say_recv(p, fds[0], 1, 0);
	}
}

/* As memcached does it: what a library opens from now on must lie below. */
CASE(fdnumbers_limit_falls, DUO)
{
	struct rlimit limit;
	int ep = -1;

	A {
		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = 200;
		R(setrlimit(RLIMIT_NOFILE, &limit));
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN | EPOLLRDHUP, 1);
		EXPECT_NONE(ep);
	}
	A {
		wait_events(p, ep, 64, -1);
		RECV(10);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
	A {
		wait_events(p, ep, 64, -1);
		RECV(10);
	}
	WITH_B {
		until_other_sleeps(p);
		R(shutdown(FD, SHUT_WR));
	}
}

CASE_TRAITS(fdnumbers_huge_limit, SELF, OWN_PAIR)
{
	struct rlimit limit;
	int fds[2];

	A {
		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = limit.rlim_max;
		R(setrlimit(RLIMIT_NOFILE, &limit));
		pair_local(fds);
		warm(p, fds);
		T(dup2(fds[0], 1000) == 1000);
		R(send(1000, "x", 1, 0));
		say_recv(p, fds[1], 1, 0);
		say_open_low(p);
	}
}

CASE_TRAITS(fdnumbers_proc_self_fd_low_part, SELF, OWN_PAIR)
{
	int fds[2], n_low = 0;
	struct dirent *entry;
	DIR *dir;

	A {
		pair_local(fds);
		warm(p, fds);
		dir = opendir("/proc/self/fd");
		while ((entry = readdir(dir)))
			n_low += entry->d_name[0] != '.' && atoi(entry->d_name) < 100;
		closedir(dir);
		say(p, "%d", n_low);
	}
}

CASE_TRAITS(fdnumbers_in_child, SELF, OWN_PAIR)
{
	int fds[2];
	pid_t pid;

	A {
		pair_local(fds);
		warm(p, fds);
		pid = fork_logged(p);
		if (pid == 0) {
			R(send(fds[0], "x", 1, 0));
			say(p, "%d", open_file());
			say_open_low(p);
			_exit(0);
		}
		reap(p, "child", pid);
		say_recv(p, fds[1], 1, 0);
		say(p, "%d", open_file());
	}
}

/* What an executed program inherits: nothing that the kernel would not have given it. */
CASE_TRAITS(fdnumbers_after_exec, SELF, OWN_PAIR)
{
	int fds[2];
	pid_t pid;

	A {
		pair_local(fds);
		warm(p, fds);
		pid = fork_logged(p);
		if (pid == 0) {
			fcntl(fds[0], F_SETFD, FD_CLOEXEC);
			fcntl(fds[1], F_SETFD, FD_CLOEXEC);
			unsetenv("LD_PRELOAD");
			execl("/bin/sh", "sh", "-c",
			      "n=0; for f in /proc/$$/fd/*; do n=$((n+1)); done; exit $n", NULL);
			_exit(99);
		}
		reap(p, "shell", pid);
	}
}
