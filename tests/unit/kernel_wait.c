/* libpulc/kernel_wait.c: a receive or an accept on the kernel looks before it sleeps. Here it looks
 * for an hour, so that a test ends only if it has seen what it looks for. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <pulc/process.h>
#include <pulc/signals.h>

#include "harness.h"
#include "private.h"
#include "processors.h"
#include "tcp_connect.h"

static int fds[2];
static pulc_stream *stream;

static void begin_as(enum pulc_role role)
{
	(void)setenv("PULC_SPIN_USEC", "3600000000", 1);
	(void)setenv("PULC_RUNTIME_DIR", "/nonexistent", 1);
	tcp_connect_pair(fds, AF_INET);
	REQUIRE_INT(pulc_stream_new(fds[0], role, &stream), ==, 0);
}

static void begin(void)
{
	begin_as(PULC_CONNECTED);
}

static void end(void)
{
	pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static int n_there(void)
{
	int n = -1;

	REQUIRE_INT(ioctl(fds[0], FIONREAD, &n), ==, 0);
	return n;
}

/* Until the other thread's receive has begun. */
static void await_receiver(void)
{
	while (!atomic_load(&stream->tcp.n_native_receives))
		(void)sched_yield();
}

static void *send_byte(void *fd)
{
	await_receiver();
	return send(*(int *)fd, "x", 1, 0) == 1 ? fd : NULL;
}

static pthread_t start(void *(*what)(void *), void *arg)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, what, arg) == 0);
	return thread;
}

static ssize_t receive(int flags)
{
	char buf[8];

	return pulc_stream_recv(stream, fds[0], buf, sizeof(buf), flags);
}

static void kernel_call_ends(ssize_t n)
{
	pulc_stream_recv_end(stream, fds[0], n);
	CHECK_INT(atomic_load(&stream->tcp.n_native_receives), ==, 0);
}

/* The receive looks until something is there. */
static void it_waits(void)
{
	pthread_t sender = start(send_byte, &fds[1]);

	CHECK_INT(receive(0), ==, PULC_USE_KERNEL);
	CHECK_INT(n_there(), ==, 1);
	REQUIRE(pthread_join(sender, NULL) == 0);
	kernel_call_ends(recv(fds[0], &(char){ 0 }, 1, 0));
}

/* It is left to the kernel with nothing there. */
static void it_does_not_wait(int flags)
{
	CHECK_INT(receive(flags), ==, PULC_USE_KERNEL);
	CHECK_INT(n_there(), ==, 0);
	kernel_call_ends(-EAGAIN);
}

static void first_receive_waits(void)
{
	begin();
	it_waits();
	end();
}

static void who_has_received_does_not(void)
{
	begin();
	it_waits();
	it_does_not_wait(0);
	end();
}

static void *send_byte_from_elsewhere(void *fd)
{
	processors_run_on(1);
	return send_byte(fd);
}

/* The peer's last segment comes from another processor. */
static void hear_from_elsewhere(void)
{
	pthread_t sender = start(send_byte_from_elsewhere, &fds[1]);

	CHECK_INT(receive(0), ==, PULC_USE_KERNEL);
	REQUIRE(pthread_join(sender, NULL) == 0);
	kernel_call_ends(recv(fds[0], &(char){ 0 }, 1, 0));
}

static void *waits_behind_a_send(void *arg)
{
	(void)arg;
	processors_run_on(0);
	hear_from_elsewhere();
	CHECK_INT(pulc_stream_send(stream, fds[0], "y", 1, 0), ==, PULC_USE_KERNEL);
	pulc_stream_send_end(stream, fds[0], send(fds[0], "y", 1, 0));
	hear_from_elsewhere();
	return NULL;
}

static void who_has_sent_since_waits(void)
{
	if (!processors_are_two())
		return;
	begin();
	REQUIRE(pthread_join(start(waits_behind_a_send, NULL), NULL) == 0);
	end();
}

static void *beside_the_peer(void *arg)
{
	processors_run_on(0);
	begin_as(PULC_ACCEPTED);
	it_does_not_wait(0);
	end();
	return arg;
}

static void peer_on_this_processor_is_not_waited_for(void)
{
	REQUIRE(pthread_join(start(beside_the_peer, NULL), NULL) == 0);
}

static void far_peer_is_not_waited_for(void)
{
	begin();
	atomic_store(&stream->far, true);
	it_does_not_wait(0);
	end();
}

static void nobody_waits_who_must_not(void)
{
	begin();
	it_does_not_wait(MSG_DONTWAIT);
	it_does_not_wait(MSG_OOB);
	it_does_not_wait(MSG_ERRQUEUE);
	REQUIRE(ioctl(fds[0], FIONBIO, &(int){ 1 }) == 0);
	it_does_not_wait(0);
	end();
}

/* As an event loop does, which receives only what is there. */
static void who_never_waits_is_asked_all_the_same(void)
{
	begin();
	REQUIRE(ioctl(fds[0], FIONBIO, &(int){ 1 }) == 0);
	REQUIRE(send(fds[1], "x", 1, 0) == 1);
	CHECK_INT(receive(0), ==, PULC_USE_KERNEL);
	CHECK(atomic_load(&stream->kernel_wait.is_nonblocking));
	kernel_call_ends(recv(fds[0], &(char){ 0 }, 1, 0));
	end();
}

static void who_blocks_again_waits(void)
{
	begin();
	REQUIRE(ioctl(fds[0], FIONBIO, &(int){ 1 }) == 0);
	it_does_not_wait(0);
	REQUIRE(ioctl(fds[0], FIONBIO, &(int){ 0 }) == 0);
	pulc_stream_nonblock_changed(stream, false);
	it_waits();
	end();
}

static void who_is_told_does_not_ask(void)
{
	begin();
	pulc_stream_nonblock_changed(stream, true);
	CHECK(atomic_load(&stream->kernel_wait.is_known));
	it_does_not_wait(0);
	end();
}

/* The end is something, too. */
static void end_is_seen(void)
{
	begin();
	REQUIRE(shutdown(fds[1], SHUT_WR) == 0);
	CHECK_INT(receive(0), ==, PULC_USE_KERNEL);
	kernel_call_ends(recv(fds[0], &(char){ 0 }, 1, 0));
	end();
}

/* ---- handlers -------------------------------------------------------------------------------- */

static bool restarts;

/* As the shim's own in front of the program's; what this one does is to send a byte. */
static void handler(int signal, siginfo_t *info, void *context)
{
	uint32_t answer = pulc_signal_begins(signal, info, context, restarts);

	REQUIRE(send(fds[1], "z", 1, 0) == 1);
	pulc_signal_done(answer);
}

static void *interrupt(void *receiver)
{
	await_receiver();
	REQUIRE(pthread_kill(*(pthread_t *)receiver, SIGUSR1) == 0);
	return receiver;
}

static ssize_t receive_interrupted(bool with_restart)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	pthread_t self = pthread_self(), other;
	ssize_t n;

	restarts = with_restart;
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	other = start(interrupt, &self);
	n = receive(0);
	REQUIRE(pthread_join(other, NULL) == 0);
	return n;
}

/* A handler that runs before the receive has begun to look has run before the call: such a one does
 * not count. */
static ssize_t receive_interrupted_in_time(bool with_restart)
{
	ssize_t n = PULC_USE_KERNEL;
	char byte;

	for (unsigned i = 0; i < 1000 && n == PULC_USE_KERNEL; i++) {
		n = receive_interrupted(with_restart);
		if (n == PULC_USE_KERNEL)
			pulc_stream_recv_end(stream, fds[0], -EINTR);
		CHECK_INT(recv(fds[0], &byte, 1, 0), ==, 1);
	}
	CHECK_INT(atomic_load(&stream->tcp.n_native_receives), ==, 0);
	return n;
}

/* The kernel would have been asleep, and told of the handler first, whatever that has sent. */
static void handler_interrupts(void)
{
	begin();
	CHECK_INT(receive_interrupted_in_time(false), ==, -EINTR);
	end();
}

/* As the kernel's call: its descriptor may be another file's by now, or one that does not wait. */
static void handler_that_restarts_has_it_begin_again(void)
{
	begin();
	CHECK_INT(receive_interrupted_in_time(true), ==, PULC_BEGIN_AGAIN);
	end();
}

static void with_a_time_out_it_interrupts(void)
{
	const struct timeval hour = { .tv_sec = 3600 };

	begin();
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &hour, sizeof(hour)) == 0);
	CHECK_INT(receive_interrupted_in_time(true), ==, -EINTR);
	end();
}

/* ---- closed meanwhile ------------------------------------------------------------------------ */

static int others[2];

/* The descriptor under which the call is to go on. That the old one is closed as well would be
 * another race. */
static void *move(void *arg)
{
	await_receiver();
	pulc_stream_moved(stream, &others[0]);
	REQUIRE(send(others[1], "ab", 2, 0) == 2);
	return arg;
}

static void closed_file_is_received_from(void)
{
	pthread_t mover;

	begin();
	tcp_connect_pair(others, AF_INET);
	mover = start(move, NULL);
	CHECK_INT(receive(0), ==, 2);
	CHECK_INT(atomic_load(&stream->tcp.n_native_receives), ==, 0);
	REQUIRE(pthread_join(mover, NULL) == 0);
	pulc_stream_moved(stream, NULL);
	(void)close(others[0]);
	(void)close(others[1]);
	end();
}

/* ---- accept ---------------------------------------------------------------------------------- */

static int listener;
static struct sockaddr_in at;

static void listen_anew(void)
{
	socklen_t len = sizeof(at);

	(void)setenv("PULC_SPIN_USEC", "3600000000", 1);
	at = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listener = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(listener >= 0);
	REQUIRE(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
	REQUIRE(listen(listener, 8) == 0);
	REQUIRE(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
}

static bool has_connection(void)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void *connect_to_it(void *ret_fd)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	*(int *)ret_fd = fd;
	return ret_fd;
}

static void accept_ends(int fd)
{
	pulc_accept_ended(fd);
	(void)close(fd);
}

static void accept_waits(void)
{
	int fd = -1;
	pthread_t peer;

	listen_anew();
	peer = start(connect_to_it, &fd);
	CHECK_INT(pulc_accept_begins(listener), ==, 0);
	CHECK(has_connection());
	REQUIRE(pthread_join(peer, NULL) == 0);
	accept_ends(accept(listener, NULL, NULL));
	(void)close(fd);
	(void)close(listener);
}

/* Behind the others: a thread remembers the number of one that does not block. */
static void accept_that_must_not_does_not(void)
{
	listen_anew();
	REQUIRE(ioctl(listener, FIONBIO, &(int){ 1 }) == 0);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_INT(pulc_accept_begins(listener), ==, 0);
		CHECK(!has_connection());
		pulc_accept_ended(-EAGAIN);
	}
	(void)close(listener);
}

/* The thread is a new one, which remembers no listener. That it blocks again is told to nobody: so
 * what is remembered shows. */
static void *accepts_what_is_there(void *arg)
{
	int peer, fd;

	listen_anew();
	REQUIRE(ioctl(listener, FIONBIO, &(int){ 1 }) == 0);
	(void)connect_to_it(&peer);
	CHECK_INT(pulc_accept_begins(listener), ==, 0);
	fd = accept(listener, NULL, NULL);
	REQUIRE(fd >= 0);
	accept_ends(fd);
	REQUIRE(ioctl(listener, FIONBIO, &(int){ 0 }) == 0);
	CHECK_INT(pulc_accept_begins(listener), ==, 0);
	CHECK(!has_connection());
	pulc_accept_ended(-EAGAIN);
	(void)close(peer);
	(void)close(listener);
	return arg;
}

static void listener_that_never_waits_is_asked_once(void)
{
	REQUIRE(pthread_join(start(accepts_what_is_there, NULL), NULL) == 0);
}

static _Atomic bool is_answered;

/* Again and again: one that runs before the call has begun is none of its business. */
static void *interrupt_until_answered(void *accepter)
{
	while (!atomic_load(&is_answered)) {
		REQUIRE(pthread_kill(*(pthread_t *)accepter, SIGUSR1) == 0);
		(void)poll(NULL, 0, 1);
	}
	return accepter;
}

static void handler_interrupts_accept(void)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	pthread_t self = pthread_self(), other;

	begin();
	listen_anew();
	restarts = false;
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	atomic_store(&is_answered, false);
	other = start(interrupt_until_answered, &self);
	CHECK_INT(pulc_accept_begins(listener), ==, -EINTR);
	atomic_store(&is_answered, true);
	REQUIRE(pthread_join(other, NULL) == 0);
	(void)close(listener);
	end();
}

/* For good, so this comes last. */
static void who_is_confined_asks_nothing(void)
{
	pulc_process_confined();
	begin();
	it_does_not_wait(0);
	end();
	listen_anew();
	CHECK_INT(pulc_accept_begins(listener), ==, 0);
	CHECK(!has_connection());
	(void)close(listener);
}

/* Fewer bytes than the low-water mark are something for a receive, and nothing for poll. */
static void low_water_mark_is_left_to_the_kernel(void)
{
	int low = 10;

	begin();
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)) == 0);
	it_does_not_wait(0);
	end();
}

static void message_of_a_closed_file_is_received(void)
{
	char buf[8];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_flags = -1 };
	pthread_t mover;

	begin();
	tcp_connect_pair(others, AF_INET);
	mover = start(move, NULL);
	CHECK_INT(pulc_stream_recvmsg(stream, fds[0], &msg, 0), ==, 2);
	CHECK_INT(msg.msg_flags, ==, 0);
	REQUIRE(pthread_join(mover, NULL) == 0);
	pulc_stream_moved(stream, NULL);
	(void)close(others[0]);
	(void)close(others[1]);
	end();
}

static const struct test tests[] = {
	TEST(first_receive_waits),
	TEST(who_has_received_does_not),
	TEST(who_has_sent_since_waits),
	TEST(peer_on_this_processor_is_not_waited_for),
	TEST(far_peer_is_not_waited_for),
	TEST(nobody_waits_who_must_not),
	TEST(who_never_waits_is_asked_all_the_same),
	TEST(who_blocks_again_waits),
	TEST(who_is_told_does_not_ask),
	TEST(end_is_seen),
	TEST(handler_interrupts),
	TEST(handler_that_restarts_has_it_begin_again),
	TEST(with_a_time_out_it_interrupts),
	TEST(closed_file_is_received_from),
	TEST(message_of_a_closed_file_is_received),
	TEST(low_water_mark_is_left_to_the_kernel),
	TEST(accept_waits),
	TEST(handler_interrupts_accept),
	TEST(accept_that_must_not_does_not),
	TEST(listener_that_never_waits_is_asked_once),
	TEST(who_is_confined_asks_nothing),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
