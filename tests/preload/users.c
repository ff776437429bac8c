/*
 * Programs that change what they are after their start: their user, their root, their limits, their
 * descriptors. All in a forked child, for most of it is for good. Without the right to do so the
 * kernel refuses, here and there alike.
 */
#include "case.h"

#include <arpa/inet.h>
#include <grp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define NOBODY 65534
#define LEN 200000

/* Bytes both ways on an old connection and on one that is made now. */
static void talk(struct play *p)
{
	T(put_pattern(FD, LEN, 7000) == LEN);
	T(take_pattern(FD, LEN, 9000) == LEN);
}

static void answer(struct play *p)
{
	T(take_pattern(FD, LEN, 9000) == LEN);
	T(put_pattern(FD, LEN, 7000) == LEN);
}

/* B's listener: its port, and its descriptor in B's process. */
#define PORT (*stage_word(p, 1))
#define LISTENER (*stage_word(p, 2))

static void expect_call(struct play *p)
{
	struct address address;

	LISTENER = listen_on("127.0.0.1", &address);
	PORT = ntohs(((struct sockaddr_in *)&address.storage)->sin_port);
}

static void call(struct play *p)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)PORT) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	R(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	for (int i = 0; i < 20; i++) {
		say_send(p, fd, "ping", 0);
		say_recv(p, fd, 4, MSG_WAITALL);
	}
	close(fd);
}

static void take_call(struct play *p)
{
	int fd = accept((int)LISTENER, NULL, NULL);
	char buf[4];

	while (recv(fd, buf, 4, MSG_WAITALL) == 4) (void)!send(fd, buf, 4, 0);
	close(fd);
	close((int)LISTENER);
}

/* The dialogue of all cases here: A's child changes, then talks as before, then calls anew. */
#define CHANGED_CHILD(...)                                                                         \
	B { expect_call(p); }                                                                      \
	A {                                                                                        \
		pid_t pid_ = fork_logged(p);                                                       \
		if (pid_ == 0) {                                                                   \
			__VA_ARGS__;                                                               \
			talk(p);                                                                   \
			call(p);                                                                   \
			_exit(0);                                                                  \
		}                                                                                  \
		reap(p, "child", pid_);                                                            \
	}                                                                                          \
	WITH_B {                                                                                   \
		answer(p);                                                                         \
		take_call(p);                                                                      \
	}

CASE(users_another_user, DUO){ CHANGED_CHILD({
	R(setgroups(0, NULL));
	R(setgid(NOBODY));
	R(setuid(NOBODY));
}) }

CASE(users_another_effective_user_and_back, DUO){ CHANGED_CHILD({
	R(seteuid(NOBODY));
	SEND("");
	R(seteuid(getuid()));
}) }

CASE(users_another_root, DUO){ CHANGED_CHILD({
	R(chroot("/usr/share"));
	R(chdir("/"));
}) }

CASE(users_small_limit, DUO)
{
	CHANGED_CHILD({
		struct rlimit limit = { 12, 12 };

		R(setrlimit(RLIMIT_NOFILE, &limit));
	})
}

#define SIZE_FREE (900ul << 20)
#define SIZE_ASKED (600ul << 20)

/* What this process has, and SIZE_FREE. */
static int limit_address_space(void)
{
	struct rlimit limit;
	unsigned long n_pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	bool known = f && fscanf(f, "%lu", &n_pages) == 1;

	if (f)
		fclose(f);
	if (!known || getrlimit(RLIMIT_AS, &limit) < 0)
		return -1;
	limit.rlim_cur = n_pages * 4096 + SIZE_FREE;
	return setrlimit(RLIMIT_AS, &limit);
}

static bool has_address_space(void)
{
	void *at = mmap(NULL, SIZE_ASKED, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at != MAP_FAILED && munmap(at, SIZE_ASKED) == 0;
}

/* What it leaves itself is for itself, whatever connections it makes. */
CASE(users_small_address_space, DUO)
{
	B { expect_call(p); }
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			R(limit_address_space());
			talk(p);
			call(p);
			T(has_address_space());
			_exit(0);
		}
		reap(p, "child", pid);
	}
	WITH_B {
		answer(p);
		take_call(p);
	}
}

CASE(users_no_limit_at_all, DUO)
{
	CHANGED_CHILD({
		struct rlimit limit;

		T(getrlimit(RLIMIT_NOFILE, &limit) == 0);
		limit.rlim_cur = limit.rlim_max;
		T(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	})
}

void close_raw(int fd)
{
#if defined(__x86_64__)
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(SYS_close), "D"(fd) : "rcx", "r11", "memory");
#else
	syscall(SYS_close, fd);
#endif
}

CASE(users_everything_else_closed, DUO){ CHANGED_CHILD({
	for (int fd = 0; fd < 5000; fd++)
		if (fd != FD)
			close(fd);
}) }

CASE(users_everything_else_closed_behind_the_back, DUO)
{
	CHANGED_CHILD({
		for (int fd = 0; fd < 5000; fd++)
			if (fd != FD)
				close_raw(fd);
	})
}
