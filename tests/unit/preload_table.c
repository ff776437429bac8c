/* The shim's table of descriptors, on a fake libpulc: who is tracked, what is shared, when a stream
 * ends. */
#include <limits.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "harness.h"
#include "preload_fake.h"
#include "rawsys.h"

static void sockets_become_streams(void)
{
	int fds[2], fd = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0);

	REQUIRE(pre_file_at(fd) == &pre_file_tcp);
	CHECK(pre_file_at(datagram) == NULL);
	close(fd);
	close(datagram);
	CHECK(pre_file_at(fd) == NULL);
	fake_pair(fds);
	REQUIRE(fake_of(fds[0]) && fake_of(fds[1]));
	CHECK_INT(fake_of(fds[0])->role, ==, PULC_CONNECTED);
	CHECK_INT(fake_of(fds[1])->role, ==, PULC_ACCEPTED);
	close(fds[0]);
	close(fds[1]);
	CHECK_INT(fake.n_streams, ==, 0);
}

static void failed_connect_makes_no_stream(void)
{
	struct sockaddr_in nobody = { .sin_family = AF_INET,
				      .sin_port = htons(1),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE_INT(connect(fd, (struct sockaddr *)&nobody, sizeof(nobody)), ==, -1);
	CHECK_INT(errno, ==, ECONNREFUSED);
	CHECK(fake_of(fd) == NULL);
	close(fd);
}

static void duplicates_share_one_stream(void)
{
	int fds[2], copies[4];
	pulc_stream *s;

	fake_pair(fds);
	s = pulc_stream_ref(fake_of(fds[0]));
	copies[0] = dup(fds[0]);
	copies[1] = dup2(fds[0], 60);
	copies[2] = dup3(fds[0], 61, O_CLOEXEC);
	copies[3] = fcntl(fds[0], F_DUPFD, 62);
	for (int i = 0; i < 4; i++)
		CHECK(fake_of(copies[i]) == s);
	close(fds[0]);
	for (int i = 0; i < 3; i++)
		close(copies[i]);
	CHECK_INT(s->fd_kept, ==, copies[3]);
	CHECK_INT(s->n_closings, ==, 0);
	close(copies[3]);
	CHECK_INT(s->n_closings, ==, 1);
	CHECK_INT(s->n_refs, ==, 1);
	pulc_stream_unref(s);
	close(fds[1]);
}

static void dup2_over_a_stream_closes_it(void)
{
	int fds[2], other = open("/dev/null", O_RDONLY);
	pulc_stream *s;

	fake_pair(fds);
	s = pulc_stream_ref(fake_of(fds[0]));
	REQUIRE(s != NULL);
	CHECK_INT(dup2(999, fds[0]), ==, -1);
	CHECK_INT(errno, ==, EBADF);
	CHECK(fake_of(fds[0]) == s);
	CHECK_INT(dup2(other, fds[0]), ==, fds[0]);
	CHECK(pre_file_at(fds[0]) == NULL);
	CHECK_INT(s->n_closings, ==, 1);
	CHECK_INT(s->n_refs, ==, 1);
	pulc_stream_unref(s);
	close(other);
	close(fds[0]);
	close(fds[1]);
}

/* By a system call that nobody has heard of: its number is another file's when it is noticed. */
static void closed_behind_our_back(void)
{
	int fds[2], next;
	pulc_stream *s;

	fake_pair(fds);
	s = pulc_stream_ref(fake_of(fds[0]));
	REQUIRE_INT(raw_syscall(SYS_close, fds[0]), ==, 0);
	next = socket(AF_INET, SOCK_STREAM, 0);
	if (next != fds[0]) {
		CHECK_INT(fcntl(next, F_DUPFD, fds[0]), ==, fds[0]);
		close(next);
	}
	CHECK_INT(s->n_closings, ==, 1000);
	CHECK_INT(s->n_refs, ==, 1);
	pulc_stream_unref(s);
	close(fds[0]);
	close(fds[1]);
}

static void dup_of_an_unconnected_socket_follows_it(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0),
	    copy = dup(fd);

	REQUIRE_INT(listen(listener, 1), ==, 0);
	getsockname(listener, (struct sockaddr *)&addr, &len);
	REQUIRE_INT(connect(fd, (struct sockaddr *)&addr, len), ==, 0);
	CHECK(fake_of(fd) != NULL);
	CHECK(fake_of(copy) == fake_of(fd));
	close(fd);
	close(copy);
	close(listener);
}

static void descriptors_used_as_stdio_stay_on_the_kernel(void)
{
	int fds[2], saved = dup(0);

	fake_pair(fds);
	dup2(fds[0], 0);
	CHECK_INT(fake_of(fds[0])->reason, ==, 17);
	dup2(saved, 0);
	close(saved);
	close(fds[0]);
	close(fds[1]);
}

static void own_descriptors_are_not_there(void)
{
	int own = eventfd(0, EFD_CLOEXEC), file = open("/dev/null", O_RDONLY), number;

	REQUIRE_INT(pulc_fd_adopt(&own), ==, 0);
	number = own;
	CHECK_INT(close(number), ==, -1);
	CHECK_INT(errno, ==, EBADF);
	CHECK_INT(dup2(number, 70), ==, -1);
	CHECK_INT(close_range((unsigned)number, (unsigned)number + 3, 0), ==, 0);
	CHECK_INT(fcntl(number, F_GETFD), >=, 0);
	CHECK_INT(dup2(file, number), ==, number);
	CHECK_INT(own, !=, number);
	CHECK_INT(fcntl(own, F_GETFD), >=, 0);
	close(number);
	close(file);
	pulc_fd_release(&own);
}

static void close_range_ends_streams(void)
{
	int fds[2], low, high;
	pulc_stream *s[2];

	fake_pair(fds);
	low = fds[0] < fds[1] ? fds[0] : fds[1];
	high = fds[0] < fds[1] ? fds[1] : fds[0];
	for (int i = 0; i < 2; i++)
		s[i] = pulc_stream_ref(fake_of(fds[i]));
	CHECK_INT(close_range((unsigned)low, (unsigned)high, CLOSE_RANGE_CLOEXEC), ==, 0);
	CHECK(fake_of(low) != NULL);
	CHECK_INT(close_range((unsigned)low, UINT_MAX, 0), ==, 0);
	for (int i = 0; i < 2; i++) {
		CHECK(pre_file_at(fds[i]) == NULL);
		CHECK_INT(s[i]->n_closings, ==, 1);
		CHECK_INT(s[i]->n_refs, ==, 1);
		pulc_stream_unref(s[i]);
	}
}

/* Known to this thread alone: as if the kernel had no such call. */
static void take_close_range_away(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	REQUIRE_INT(raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ==, 0);
	REQUIRE_INT(raw_syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), ==, 0);
}

static int close_all_without_close_range(void)
{
	int own = eventfd(0, EFD_CLOEXEC), number;

	take_close_range_away();
	REQUIRE_INT(pulc_fd_adopt(&own), ==, 0);
	number = own;
	REQUIRE_INT(dup2(0, number - 1), ==, number - 1);
	REQUIRE_INT(dup2(0, number - 2), ==, number - 2);
	closefrom(number - 1);
	return fcntl(number, F_GETFD) >= 0 && fcntl(number - 1, F_GETFD) < 0 &&
	       fcntl(number - 2, F_GETFD) >= 0;
}

static void closefrom_leaves_own_descriptors_without_close_range(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(close_all_without_close_range());
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 1 << 8);
}

static void stdio_of_a_socket_moves_through_the_shim(void)
{
	int fds[2];
	pulc_stream *s;
	char line[8];
	FILE *file;

	fake_pair(fds);
	s = fake_of(fds[0]);
	atomic_store(&s->attached, true);
	s->room = 100;
	file = fdopen(fds[0], "r+");
	REQUIRE(file != NULL);
	CHECK_INT(fileno(file), ==, fds[0]);
	CHECK_INT(fprintf(file, "hello\n"), ==, 6);
	CHECK_INT(fflush(file), ==, 0);
	CHECK_INT(s->n_sent, ==, 6);
	fake_arrive(s, 3);
	CHECK_INT(fread(line, 1, 3, file), ==, 3);
	CHECK_MEM(line, "rrr", 3);
	CHECK_INT(fseek(file, 0, SEEK_SET), ==, -1);
	CHECK_INT(fprintf(file, "bye"), ==, 3);
	fclose(file);
	CHECK(pre_file_at(fds[0]) == NULL);
	CHECK_INT(fcntl(fds[0], F_GETFD), ==, -1);
	close(fds[1]);
	CHECK_INT(fake.n_streams, ==, 0);
}

static void raw_calls_are_routed(void)
{
	struct iovec iov = { .iov_base = (char[4]){ 0 }, .iov_len = 4 };
	int fds[2];
	pulc_stream *s;

	fake_pair(fds);
	s = fake_of(fds[0]);
	atomic_store(&s->attached, true);
	s->room = 5;
	CHECK_INT(syscall(SYS_write, fds[0], "abc", 3L), ==, 3);
	CHECK_INT(s->n_sent, ==, 3);
	CHECK_INT(syscall(SYS_sendto, fds[0], "abc", 3L, MSG_DONTWAIT, NULL, 0L), ==, 2);
	CHECK_INT(syscall(SYS_write, fds[0], "x", 1L), ==, -1);
	CHECK_INT(errno, ==, EAGAIN);
	atomic_store(&s->n_in, 3);
	CHECK_INT(syscall(SYS_readv, fds[0], &iov, 1L), ==, 3);
	CHECK_INT(syscall(SYS_getpid), ==, getpid());
	CHECK_INT(syscall(SYS_close, fds[0]), ==, 0);
	CHECK(pre_file_at(fds[0]) == NULL);
	close(fds[1]);
}

static void kernel_calls_are_begun_and_ended(void)
{
	char buf[4] = "";
	int fds[2];

	fake_pair(fds);
	CHECK_INT(send(fds[0], "abc", 3, 0), ==, 3);
	CHECK_INT(recv(fds[1], buf, sizeof(buf), 0), ==, 3);
	CHECK_STR(buf, "abc");
	CHECK_INT(recv(fds[1], buf, sizeof(buf), MSG_DONTWAIT), ==, -1);
	CHECK_INT(errno, ==, EAGAIN);
	CHECK_INT(dprintf(fds[0], "%d", 42), ==, 2);
	CHECK_INT(read(fds[1], buf, sizeof(buf)), ==, 2);
	CHECK_INT(fake_of(fds[0])->n_begun, ==, 0);
	CHECK_INT(fake_of(fds[1])->n_begun, ==, 0);
	close(fds[0]);
	close(fds[1]);
}

static void sizes_asked_by_ioctl(void)
{
	int fds[2], n = -1;

	fake_pair(fds);
	atomic_store(&fake_of(fds[0])->attached, true);
	atomic_store(&fake_of(fds[0])->n_in, 77);
	CHECK_INT(ioctl(fds[0], FIONREAD, &n), ==, 0);
	CHECK_INT(n, ==, 77);
	CHECK_INT(ioctl(fds[0], FIONREAD, (int *)16), ==, -1);
	CHECK_INT(errno, ==, EFAULT);
	close(fds[0]);
	close(fds[1]);
}

static void passing_keeps_on_the_kernel(void)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	int fds[2], via[2];

	fake_pair(fds);
	REQUIRE_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, via), ==, 0);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fds[0], sizeof(int));
	CHECK_INT(sendmsg(via[0], &msg, 0), ==, 1);
	CHECK_INT(fake_of(fds[0])->reason, ==, 16);
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		close(via[i]);
	}
}

struct racer {
	int fd, other;
	_Atomic bool inside;
};

/* Who goes over the table for a fork, or passes a number, is overtaken by a thread that closes it:
 * the record may be another socket's by then. */
static void what_has_a_closed_one_s_record_is_not_shared(void)
{
	int fds[2], others[2];
	struct pre_file *seen;
	struct pre_use use;

	fake_pair(fds);
	seen = pre_file_at(fds[0]);
	close(fds[1]);
	close(fds[0]);
	fake_pair(others);
	REQUIRE(dup2(others[0], 60) == 60 && dup2(others[1], 61) == 61);
	close(others[0]);
	close(others[1]);
	REQUIRE(seen == pre_file_at(60) || seen == pre_file_at(61));
	CHECK(!pre_use_shared(&use, fds[0], seen));
	CHECK(!pre_file_at(60)->shared);
	CHECK(!pre_file_at(61)->shared);
	REQUIRE(pre_use_shared(&use, 60, pre_file_at(60)));
	REQUIRE(use.file && use.file == pre_file_at(60));
	CHECK(use.file->shared);
	pre_use_end(&use);
	close(60);
	close(61);
	CHECK_INT(fake.n_streams, ==, 0);
}

/* A call in flight keeps its stream although the descriptor is closed meanwhile. */
static void *receive(void *arg)
{
	struct racer *r = arg;
	struct pre_use use;

	if (pre_use_stream(&use, r->fd)) {
		atomic_store(&r->inside, true);
		while (atomic_load(&r->inside))
			usleep(100);
		(void)pulc_stream_ready(use.stream, r->fd, POLLIN);
		pre_use_end(&use);
	}
	return NULL;
}

static void calls_in_flight_keep_the_stream(void)
{
	struct racer r = { 0 };
	pthread_t thread;
	int fds[2];

	fake_pair(fds);
	r.fd = fds[0];
	pthread_create(&thread, NULL, receive, &r);
	while (!atomic_load(&r.inside))
		usleep(100);
	close(fds[0]);
	CHECK(pre_file_at(fds[0]) == NULL);
	CHECK_INT(fake.n_streams, ==, 2);
	atomic_store(&r.inside, false);
	pthread_join(thread, NULL);
	close(fds[1]);
	CHECK_INT(fake.n_streams, ==, 0);
}

/* As a call whose thread was taken out of it by longjmp. */
static void *leave_calls(void *arg)
{
	struct racer *r = arg;
	struct pre_use use;

	if (!pre_use_stream(&use, r->fd))
		return NULL;
	atomic_store(&r->inside, true);
	while (atomic_load(&r->inside))
		usleep(100);
	for (int i = 1; i < PRE_N_USING; i++)
		(void)pre_use_file(&use, r->other);
	/* This one takes the first one's place. */
	if (pre_use_file(&use, r->other))
		pre_use_end(&use);
	atomic_store(&r->inside, true);
	while (atomic_load(&r->inside))
		usleep(100);
	return NULL;
}

static void calls_left_by_a_jump_are_forgotten(void)
{
	struct racer r = { 0 };
	pthread_t thread;
	pulc_stream *s;
	int fds[2];

	fake_pair(fds);
	s = pulc_stream_ref(fake_of(fds[0]));
	r.fd = fds[0];
	r.other = fds[1];
	pthread_create(&thread, NULL, leave_calls, &r);
	while (!atomic_load(&r.inside))
		usleep(100);
	close(fds[0]);
	atomic_store(&r.inside, false);
	while (!atomic_load(&r.inside))
		usleep(100);
	CHECK_INT(s->n_closings, ==, 1);
	atomic_store(&r.inside, false);
	pthread_join(thread, NULL);
	pulc_stream_unref(s);
	close(fds[1]);
}

/* What the kernel does not have is no reason to go back to it. */
static void an_unknown_upper_protocol_changes_nothing(void)
{
	int fds[2];

	fake_pair(fds);
	fake_attach(fake_of(fds[0]));
	CHECK_INT(setsockopt(fds[0], IPPROTO_TCP, TCP_ULP, "none", 4), ==, -1);
	CHECK_INT(errno, ==, ENOENT);
	CHECK_INT(fake_of(fds[0])->reason, ==, 0);
	CHECK(!pre_file_at(fds[0])->kept);
	close(fds[0]);
	close(fds[1]);
}

/* What is in a ring and stays there is nothing for the kernel to decrypt. */
static void ktls_is_refused_beside_a_ring(void)
{
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info = { .version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128 },
	};
	int fds[2];

	fake_pair(fds);
	CHECK_INT(setsockopt(fds[0], SOL_TLS, TLS_RX, &info, sizeof(info)), ==, -1);
	CHECK_INT(errno, ==, ENOPROTOOPT);
	fake_attach(fake_of(fds[0]));
	CHECK_INT(setsockopt(fds[0], SOL_TLS, TLS_TX, &info, sizeof(info)), ==, -1);
	CHECK_INT(errno, ==, ENOPROTOOPT);
	CHECK_INT(setsockopt(fds[0], SOL_TLS, TLS_RX, &info, sizeof(info)), ==, -1);
	CHECK_INT(errno, ==, EBUSY);
	CHECK_INT(fake_of(fds[0])->reason, ==, PULC_REASON_UNSUPPORTED);
	close(fds[0]);
	close(fds[1]);
}

static const struct test tests[] = {
	TEST(sockets_become_streams),
	TEST(failed_connect_makes_no_stream),
	TEST(duplicates_share_one_stream),
	TEST(dup2_over_a_stream_closes_it),
	TEST(closed_behind_our_back),
	TEST(dup_of_an_unconnected_socket_follows_it),
	TEST(descriptors_used_as_stdio_stay_on_the_kernel),
	TEST(own_descriptors_are_not_there),
	TEST(close_range_ends_streams),
	TEST(closefrom_leaves_own_descriptors_without_close_range),
	TEST(stdio_of_a_socket_moves_through_the_shim),
	TEST(raw_calls_are_routed),
	TEST(kernel_calls_are_begun_and_ended),
	TEST(sizes_asked_by_ioctl),
	TEST(passing_keeps_on_the_kernel),
	TEST(what_has_a_closed_one_s_record_is_not_shared),
	TEST(calls_in_flight_keep_the_stream),
	TEST(calls_left_by_a_jump_are_forgotten),
	TEST(an_unknown_upper_protocol_changes_nothing),
	TEST(ktls_is_refused_beside_a_ring),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
