/*
 * Every kind of descriptor that a client can have, with every message that brings one. psid asks
 * none of them for anything that could wait, takes none for what it is not, and keeps none: the
 * witness is answered after each, and in the end psid has as many descriptors as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "macros.h"
#include "psid/scene.h"
#include "psid/slow_file.h"

#define UID_HOSTILE 65532u
#define N_OPEN_MORE 4u /* a slab for each of the two ends of a connection, and who asks just now */

static struct fake_client hostile;

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Each returns a descriptor, or -1 where there are none of its kind. */

static int sealed(int fd, size_t size)
{
	if (fd < 0)
		return -1;
	(void)fchmod(fd, 0600);
	(void)ftruncate(fd, (off_t)size);
	(void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return fd;
}

static int memory_without_seals(void)
{
	int fd = memfd_create("kind", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)ftruncate(fd, 4096);
	return fd;
}

static int memory_without_content(void)
{
	return sealed(memfd_create("kind", MFD_CLOEXEC | MFD_ALLOW_SEALING), 1 << 20);
}

static int memory_of_a_page(void)
{
	return sealed(memfd_create("kind", MFD_CLOEXEC | MFD_ALLOW_SEALING), 4096);
}

static int memory_of_nothing(void)
{
	return sealed(memfd_create("kind", MFD_CLOEXEC | MFD_ALLOW_SEALING), 0);
}

static int memory_of_huge_pages(void)
{
	return sealed(memfd_create("kind", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB), 2 << 20);
}

static int memory_read_only(void)
{
	int fd = memory_without_content(), again;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	(void)close(fd);
	return again;
}

static int secret_memory(void)
{
	return (int)syscall(SYS_memfd_secret, 0);
}

static int faults(void)
{
	return (int)syscall(SYS_userfaultfd, O_CLOEXEC);
}

static int process(void)
{
	return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

static int uring(void)
{
	struct io_uring_params params = { 0 };

	return (int)syscall(SYS_io_uring_setup, 8, &params);
}

static int semaphore_event(void)
{
	return eventfd(7, EFD_CLOEXEC | EFD_SEMAPHORE);
}

static int inotify(void)
{
	return inotify_init1(IN_CLOEXEC);
}

static int timer(void)
{
	return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

static int signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* It looks at the very channel by which it comes. */
static int set_with_the_channel(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	(void)epoll_ctl(fd, EPOLL_CTL_ADD, hostile.fd, &event);
	return fd;
}

/* The channel itself: it is on its way through itself. */
static int channel(void)
{
	return fcntl(hostile.fd, F_DUPFD_CLOEXEC, 0);
}

/* Two sockets, each of which lies unread in the other. */
static int loop_of_sockets(void)
{
	int ends[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	REQUIRE_INT(wire_send(ends[0], "x", 1, &ends[0], 1), ==, 0);
	REQUIRE_INT(wire_send(ends[1], "x", 1, &ends[1], 1), ==, 0);
	(void)close(ends[1]);
	return ends[0];
}

static int socket_of_nowhere(void)
{
	int old = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), fd = -1;

	if (unshare(CLONE_NEWNET) == 0) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		REQUIRE(setns(old, CLONE_NEWNET) == 0);
	}
	(void)close(old);
	return fd;
}

static int listener(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)listen(fd, 1);
	return fd;
}

static int multipath(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262 /* IPPROTO_MPTCP */);
}

static int packets(void)
{
	return socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int netlink(void)
{
	return socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int path_only(void)
{
	return open("/", O_PATH | O_CLOEXEC);
}

static int folder(void)
{
	return open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int own_memory(void)
{
	return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
}

static int name_space(void)
{
	return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

static int terminal(void)
{
	return posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static int full_device(void)
{
	return open("/dev/full", O_RDWR | O_CLOEXEC);
}

static int full_pipe(void)
{
	int ends[2];

	REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	while (write(ends[1], "full", 4) > 0)
		;
	(void)fcntl(ends[1], F_SETFL, 0);
	(void)close(ends[0]);
	return ends[1];
}

static int (*const kinds[])(void) = {
	memory_without_seals,
	memory_without_content,
	memory_of_a_page,
	memory_of_nothing,
	memory_of_huge_pages,
	memory_read_only,
	secret_memory,
	faults,
	process,
	uring,
	semaphore_event,
	inotify,
	timer,
	signals,
	set_with_the_channel,
	channel,
	loop_of_sockets,
	socket_of_nowhere,
	listener,
	multipath,
	packets,
	netlink,
	path_only,
	folder,
	own_memory,
	name_space,
	terminal,
	full_device,
	full_pipe,
	slow_file_open,
};

/* ---- messages -------------------------------------------------------------------------------- */

/* Rings of io_uring the kernel does not let pass. */
static void send_with(const Pulc__Wire__FromClient *msg, const int *fds, size_t n_fds)
{
	int r = wire_send_from_client(hostile.fd, msg, fds, n_fds);

	CHECK(r == 0 || r == -EINVAL);
}

static void as_socket(int fd)
{
	Pulc__Wire__Socket socket = PULC__WIRE__SOCKET__INIT;
	FROM_CLIENT(msg, SOCKET, socket) = &socket;

	send_with(&msg, &fd, 1);
}

static void as_stray(int fd)
{
	Pulc__Wire__Attach attach = PULC__WIRE__ATTACH__INIT;
	FROM_CLIENT(msg, ATTACH, attach) = &attach;

	send_with(&msg, &fd, 1);
}

static void as_bell(int fd)
{
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	FROM_CLIENT(msg, BELL, bell) = &bell;

	send_with(&msg, &fd, 1);
}

static void as_slab(int fd)
{
	Pulc__Wire__Return body = PULC__WIRE__RETURN__INIT;
	FROM_CLIENT(msg, COME_BACK, come_back) = &body;
	Pulc__Wire__Kept kept = PULC__WIRE__KEPT__INIT, *sides = &kept;
	struct fake_hint h;
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	fake_hint_fill(&h, fds[0], 1, true);
	kept.tuple = &h.tuple;
	kept.cookie = h.hint.cookie;
	body.sides = &sides;
	body.n_sides = 1;
	send_with(&msg, &fd, 1);
	tcp_close_pair(fds);
}

static void as_semaphore(int fd)
{
	Pulc__Wire__SemJoin join = PULC__WIRE__SEM_JOIN__INIT;
	FROM_CLIENT(msg, SEM_JOIN, sem_join) = &join;

	join.count = 1;
	send_with(&msg, &fd, 1);
}

static void as_owner(int fd)
{
	Pulc__Wire__Host host = PULC__WIRE__HOST__INIT, *hosts = &host;
	Pulc__Wire__Submit submit = PULC__WIRE__SUBMIT__INIT;
	FROM_CLIENT(msg, SUBMIT, submit) = &submit;

	host.name = (char *)"nowhere";
	submit.n_tasks = 1;
	submit.hosts = &hosts;
	submit.n_hosts = 1;
	submit.program = (char *)"true";
	send_with(&msg, &fd, 1);
}

static void deliver(int socket, int memory)
{
	Pulc__Wire__Deliver body = PULC__WIRE__DELIVER__INIT;
	FROM_CLIENT(msg, DELIVER, deliver) = &body;

	body.size = 4096;
	send_with(&msg, (int[]){ socket, memory }, 2);
}

static void as_socket_to_deliver(int fd)
{
	int memory = memory_without_seals();

	deliver(fd, memory);
	(void)close(memory);
}

static void as_memory_to_deliver(int fd)
{
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	deliver(fds[0], fd);
	tcp_close_pair(fds);
}

static const struct {
	void (*send)(int fd);
	Pulc__Wire__Role role;
} messages[] = {
	{ as_socket, PULC__WIRE__ROLE__ROLE_PROCESS },
	{ as_stray, PULC__WIRE__ROLE__ROLE_PROCESS },
	{ as_bell, PULC__WIRE__ROLE__ROLE_PROCESS },
	{ as_slab, PULC__WIRE__ROLE__ROLE_PROCESS },
	{ as_semaphore, PULC__WIRE__ROLE__ROLE_PROCESS },
	{ as_owner, PULC__WIRE__ROLE__ROLE_OWNER },
	{ as_socket_to_deliver, PULC__WIRE__ROLE__ROLE_CONTROL },
	{ as_memory_to_deliver, PULC__WIRE__ROLE__ROLE_CONTROL },
};

/* ---- all of them ----------------------------------------------------------------------------- */

static void play(int (*kind)(void), size_t message)
{
	int fd;

	fake_open(&hostile, &psid, geteuid() == 0 ? UID_HOSTILE : FAKE_SELF);
	fake_hello(&hostile, messages[message].role);
	(void)EXPECT(&hostile, WELCOME);
	fd = kind();
	if (fd >= 0)
		messages[message].send(fd);
	(void)close(fd); /* psid's is the last one */
	CHECK(fake_is_quiet(&a));
	fake_close(&hostile);
}

static void every_kind_by_every_message(void)
{
	static const struct timespec moment = { .tv_nsec = 10000000 };
	unsigned before;

	scene_begin(geteuid() == 0, NULL);
	slow_file_init();
	scene_check_upgrade(2);
	before = daemon_n_open(&psid);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
			play(kinds[k], i);
	scene_check_upgrade(4);
	slow_file_deinit();
	for (unsigned i = 0; i < 1000 && daemon_n_open(&psid) > before + N_OPEN_MORE; i++)
		(void)nanosleep(&moment, NULL);
	CHECK_INT(daemon_n_open(&psid), <=, before + N_OPEN_MORE);
	fake_wait_counts(&psid, 2, 2);
	scene_end();
}

static const struct test tests[] = {
	TEST(every_kind_by_every_message),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
