/* The order of an epoll set's events: what was sent before something in an answer is in it too, or
 * was told before. */
#include <pthread.h>
#include <sched.h>

#include "epoll_set.h"
#include "harness.h"
#include "preload_epoll_bed.h"
#include "rawsys.h"

#define KERNELS 1
#define RINGS 2

/* A set with a connection on the kernel and one on rings. */
struct both {
	int ep;
	int kernels[2], rings[2];
	pulc_stream *s;
	struct epoll_event events[N_EVENTS];
};

static void begin_both(struct both *b, uint32_t events)
{
	b->ep = epoll_create1(EPOLL_CLOEXEC);
	fake_pair(b->kernels);
	fake_pair(b->rings);
	b->s = fake_of(b->rings[0]);
	add(b->ep, b->kernels[0], events, KERNELS);
	add(b->ep, b->rings[0], events, RINGS);
	fake_attach(b->s);
	while (epoll_wait(b->ep, b->events, N_EVENTS, 0) > 0)
		;
}

static void end_both(struct both *b)
{
	for (int i = 0; i < 2; i++) {
		close(b->kernels[i]);
		close(b->rings[i]);
	}
	close(b->ep);
	CHECK_INT(fake.n_streams, ==, 0);
}

static struct pre_set *set_of(int ep)
{
	return pre_file_at(ep)->set;
}

static unsigned near_of(int ep)
{
	unsigned n = 0;

	for (int i = 0; i < PRE_N_NEAR; i++)
		n += set_of(ep)->n_near[i];
	return n;
}

static void send_to_kernel(struct both *b)
{
	CHECK_INT(send(b->kernels[1], "x", 1, 0), ==, 1);
}

static void send_in_order(struct both *b)
{
	send_to_kernel(b);
	fake_arrive(b->s, 1);
}

static void take(struct both *b)
{
	char buf[8];

	CHECK_INT(recv(b->kernels[0], buf, sizeof(buf), MSG_DONTWAIT), ==, 1);
	CHECK_INT(recv(b->rings[0], buf, sizeof(buf), MSG_DONTWAIT), ==, 1);
}

static void play_both(uint32_t events)
{
	struct both b;

	begin_both(&b, events);
	for (int i = 0; i < 100; i++) {
		send_in_order(&b);
		REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, i % 2 ? -1 : 0), ==, 2);
		CHECK_INT(b.events[0].data.u64, ==, KERNELS);
		CHECK_INT(b.events[1].data.u64, ==, RINGS);
		take(&b);
	}
	end_both(&b);
}

static void kernel_goes_first(void)
{
	play_both(EPOLLIN);
	play_both(EPOLLIN | EPOLLET);
}

/* Room for one: what a ring has waits, and is told once. */
static void what_has_no_room_waits(void)
{
	static const uint32_t kinds[] = { EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT };
	struct both b;

	for (unsigned i = 0; i < 3; i++) {
		begin_both(&b, EPOLLIN | kinds[i]);
		send_in_order(&b);
		REQUIRE_INT(epoll_wait(b.ep, b.events, 1, 0), ==, 1);
		CHECK_INT(b.events[0].data.u64, ==, KERNELS);
		REQUIRE_INT(epoll_wait(b.ep, b.events, 1, 0), ==, 1);
		CHECK_INT(b.events[0].data.u64, ==, RINGS);
		CHECK_INT(epoll_wait(b.ep, b.events, 1, 0), ==, 0);
		end_both(&b);
	}
}

/* The kernel has something all the time, and there is room for one. */
static void rings_do_not_starve(void)
{
	int n_rings = 0;
	struct both b;

	begin_both(&b, EPOLLIN);
	send_in_order(&b);
	for (int i = 0; i < 100; i++) {
		REQUIRE_INT(epoll_wait(b.ep, b.events, 1, 0), ==, 1);
		n_rings += b.events[0].data.u64 == RINGS;
	}
	CHECK_INT(n_rings, >=, 40);
	CHECK_INT(n_rings, <=, 60);
	end_both(&b);
}

/* It comes between the two looks of a wait that does not sleep. */
static struct both *midst;

static void arrive_once(pulc_stream *s)
{
	if (s != midst->s)
		return;
	fake.looked = NULL;
	send_in_order(midst);
}

/* The kernel was asked, and says a second time what it said then. */
static void nothing_is_told_twice(void)
{
	struct both b;

	begin_both(&b, EPOLLIN);
	send_to_kernel(&b);
	midst = &b;
	fake.looked = arrive_once;
	REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 0), ==, 2);
	CHECK_INT(b.events[0].data.u64, ==, KERNELS);
	CHECK_INT(b.events[1].data.u64, ==, RINGS);
	CHECK_INT(fake.looked == NULL, ==, true);
	end_both(&b);
}

/* A set without members on the kernel does not ask; nor does it for those of other nodes, once they
 * are known. */
static void only_what_is_near_is_asked_for(void)
{
	struct both b;

	begin_both(&b, EPOLLIN);
	CHECK_INT(near_of(b.ep), ==, 1);
	fake_of(b.kernels[0])->far = true;
	for (int i = 0; i < 100; i++) {
		fake_arrive(b.s, 1);
		REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 0), ==, 1);
	}
	CHECK_INT(near_of(b.ep), ==, 0);
	end_both(&b);
}

static void near_members_are_counted(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int inner = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0);
	struct both b;

	begin_both(&b, EPOLLIN);
	add(b.ep, listener, EPOLLIN, 3);
	CHECK_INT(near_of(b.ep), ==, 2);
	add(b.ep, inner, 0, 4);
	CHECK_INT(near_of(b.ep), ==, 2);
	CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, inner, &event), ==, 0);
	CHECK_INT(near_of(b.ep), ==, 3);
	close(inner);
	close(listener);
	CHECK_INT(near_of(b.ep), ==, 1);
	fake_attach(fake_of(b.kernels[0]));
	CHECK_INT(near_of(b.ep), ==, 0);
	end_both(&b);
}

/* Upgraded, but its peer has not begun to send through its ring. */
static void who_has_not_begun_is_near(void)
{
	struct both b;

	begin_both(&b, EPOLLIN);
	CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_DEL, b.kernels[0], NULL), ==, 0);
	CHECK_INT(near_of(b.ep), ==, 0);
	b.s->on_kernel = POLLIN;
	fake_arrive(b.s, 1);
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 0), >=, 0);
	CHECK_INT(near_of(b.ep), ==, 1);
	CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_DEL, b.rings[0], NULL), ==, 0);
	CHECK_INT(near_of(b.ep), ==, 0);
	add(b.ep, b.rings[0], EPOLLIN, RINGS);
	CHECK_INT(near_of(b.ep), ==, 1);
	b.s->on_kernel = 0;
	CHECK_INT(epoll_wait(b.ep, b.events, N_EVENTS, 0), ==, 1);
	CHECK_INT(near_of(b.ep), ==, 0);
	end_both(&b);
}

#define N_MANY 2000

/* A connection that nobody sends over: upgraded, then its peer begins. */
static void come_along(pulc_stream *s)
{
	if (s->n_advances == 3) {
		s->on_kernel = POLLIN;
		fake_attach(s);
	} else if (s->n_advances == 6) {
		s->on_kernel = 0;
	}
}

static void answer_many(struct both *b)
{
	for (int i = 0; i < N_MANY; i++) {
		fake_arrive(b->s, 1);
		REQUIRE_INT(epoll_wait(b->ep, b->events, N_EVENTS, 0), ==, 1);
	}
}

/* Its other end hears through its ring before it has begun to send through one: it is not near, and
 * is the one to be taken further. */
static void who_is_quiet_is_taken_further(void)
{
	pulc_stream *quiet, *other;
	struct both b;

	begin_both(&b, EPOLLIN);
	quiet = fake_of(b.kernels[0]);
	other = fake_of(b.kernels[1]);
	other->on_kernel = POLLOUT;
	fake_attach(other);
	add(b.ep, b.kernels[1], EPOLLIN, 3);
	fake.advanced = come_along;
	answer_many(&b);
	CHECK_INT(quiet->n_advances, ==, 6);
	CHECK_INT(other->n_advances, >=, 6);
	CHECK_INT(near_of(b.ep), ==, 0);
	fake_arrive(quiet, 1);
	REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 0), ==, 2);
	fake.advanced = NULL;
	end_both(&b);
}

static struct {
	int fd;
	_Atomic bool now;
	bool had_it; /* until the end of the call that was told of it */
} closing;

static void *close_it(void *arg)
{
	(void)arg;
	while (!atomic_load(&closing.now))
		(void)usleep(100);
	close(closing.fd);
	return NULL;
}

static bool is_being_closed(int fd)
{
	const struct pre_file *f = pre_file_at(fd);

	return !f || f == &pre_file_changing;
}

static void close_meanwhile(pulc_stream *s)
{
	if (!atomic_load(&s->attached) || atomic_exchange(&closing.now, true))
		return;
	while (!is_being_closed(closing.fd))
		(void)sched_yield();
	/* Who closes it has begun. */
	for (int i = 0; i < 20; i++)
		(void)usleep(1000);
	closing.had_it = raw_syscall(SYS_fcntl, closing.fd, F_GETFD) >= 0;
}

/* What went through its socket is counted by number: that must not become another one's. */
static void who_is_taken_further_is_not_closed_meanwhile(void)
{
	pulc_stream *quiet;
	pthread_t closer;
	struct both b;

	begin_both(&b, EPOLLIN);
	quiet = fake_of(b.kernels[0]);
	quiet->on_kernel = POLLIN;
	fake_attach(quiet);
	closing.fd = b.kernels[0];
	REQUIRE_INT(pthread_create(&closer, NULL, close_it, NULL), ==, 0);
	fake.advanced = close_meanwhile;
	for (int i = 0; i < N_MANY && !atomic_load(&closing.now); i++) {
		fake_arrive(b.s, 1);
		REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 0), ==, 1);
	}
	fake.advanced = NULL;
	REQUIRE(atomic_load(&closing.now));
	REQUIRE_INT(pthread_join(closer, NULL), ==, 0);
	CHECK(closing.had_it);
	CHECK_INT(raw_syscall(SYS_fcntl, closing.fd, F_GETFD), ==, -EBADF);
	end_both(&b);
}

/* While the kernel is asked another thread's answer may have a member that this one holds, and the
 * kernel something to say of it. */
static void what_is_held_is_told_once(void)
{
	struct epoll_event events[N_EVENTS];
	uint64_t names[N_EVENTS];
	struct pre_answer held = { .events = events, .names = names, .max = N_EVENTS }, others,
			  heard;
	struct pre_set *set;
	struct both b;

	begin_both(&b, EPOLLIN);
	set = set_of(b.ep);
	fake_arrive(b.s, 1);
	pre_lock(&set->lock);
	held.number = ++set->n_answers;
	pre_ready_collect(set, &held);
	REQUIRE_INT(held.n, ==, 1);
	others = (struct pre_answer){ .events = b.events,
				      .max = N_EVENTS,
				      .number = ++set->n_answers };
	heard = (struct pre_answer){ .events = b.events, .max = N_EVENTS, .number = held.number };
	pre_ready_collect(set, &others);
	CHECK_INT(others.n, ==, 1);
	set->hot[0]->told = set->hot[0]->ask_kernel = true;
	pre_near_keep(set, &held);
	pre_ready_collect_heard(set, &heard);
	CHECK_INT(heard.n, ==, 0);
	pre_set_unlock(set);
	end_both(&b);
}

/* Many have much memory; those that are on rings, and those of other nodes, need nothing. */
static void many_are_not_taken_further(void)
{
	int more[8][2];
	struct both b;

	begin_both(&b, EPOLLIN);
	for (int i = 0; i < 8; i++) {
		fake_pair(more[i]);
		add(b.ep, more[i][0], EPOLLIN, KERNELS);
	}
	CHECK_INT(near_of(b.ep), ==, 9);
	answer_many(&b);
	for (int i = 0; i < 8; i++)
		CHECK_INT(fake_of(more[i][0])->n_advances, ==, 0);
	fake_of(b.kernels[0])->far = true;
	answer_many(&b);
	CHECK_INT(near_of(b.ep), ==, 8);
	for (int i = 0; i < 8; i++)
		CHECK_INT(fake_of(more[i][0])->n_advances, >, 1);
	CHECK_INT(fake_of(b.kernels[0])->n_advances, ==, 0);
	CHECK_INT(b.s->n_advances, ==, 0);
	for (int i = 0; i < 8; i++) {
		close(more[i][0]);
		close(more[i][1]);
	}
	end_both(&b);
}

/* By each of the calls that do so, in turn. */
static bool begin_connection(int i, int fd, struct sockaddr_in *addr)
{
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_name = addr,
					  .msg_namelen = sizeof(*addr),
					  .msg_iov = &iov,
					  .msg_iovlen = 1 } };

	switch (i % 4) {
	case 0:
		return connect(fd, (struct sockaddr *)addr, sizeof(*addr)) == 0;
	case 1:
		return sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)addr, sizeof(*addr)) ==
		       1;
	case 2:
		return sendmsg(fd, &m.msg_hdr, MSG_FASTOPEN) == 1;
	default:
		return sendmmsg(fd, &m, 1, MSG_FASTOPEN) == 1;
	}
}

/* For a listener's sake the kernel is asked only when somebody has connected, and then it goes
 * first. */
static void listeners_are_asked_for_after_a_connect(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), client;
	socklen_t len = sizeof(addr);
	struct both b;
	uint64_t name;
	struct pre_answer held = { .names = &name };
	char c;

	begin_both(&b, EPOLLIN);
	CHECK_INT(epoll_ctl(b.ep, EPOLL_CTL_DEL, b.kernels[0], NULL), ==, 0);
	REQUIRE_INT(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
	REQUIRE_INT(listen(listener, 8), ==, 0);
	(void)getsockname(listener, (struct sockaddr *)&addr, &len);
	add(b.ep, listener, EPOLLIN, KERNELS);
	for (int i = 0; i < 100; i++) {
		client = socket(AF_INET, SOCK_STREAM, 0);
		REQUIRE(begin_connection(i, client, &addr));
		fake_arrive(b.s, 1);
		REQUIRE_INT(epoll_wait(b.ep, b.events, N_EVENTS, 0), ==, 2);
		CHECK_INT(b.events[0].data.u64, ==, KERNELS);
		CHECK_INT(b.events[1].data.u64, ==, RINGS);
		close(accept(listener, NULL, NULL));
		close(client);
		CHECK_INT(recv(b.rings[0], &c, 1, 0), ==, 1);
	}
	held.n = 1;
	name = pre_member_name(set_of(b.ep)->hot[0]);
	CHECK(!pre_near_asks(set_of(b.ep), &held));
	fake.n_connects++;
	CHECK(pre_near_asks(set_of(b.ep), &held));
	CHECK(!pre_near_asks(set_of(b.ep), &held));
	close(listener);
	end_both(&b);
}

/* Two rings: one sends, and then the other, when the first was looked at already. */
static struct {
	pulc_stream *first, *second;
} pair;

static void arrive_behind_the_look(pulc_stream *s)
{
	if (s != pair.first)
		return;
	fake.looked = NULL;
	fake_arrive(pair.first, 1);
	fake_arrive(pair.second, 1);
}

static void play_rings(uint32_t events, bool swapped, bool listed)
{
	int fds[2][2], ep = epoll_create1(0);
	struct epoll_event got[4];
	pulc_stream *s[2];
	char c;

	for (int i = 0; i < 2; i++) {
		fake_pair(fds[i]);
		s[i] = fake_of(fds[i][0]);
		fake_attach(s[i]);
		add(ep, fds[i][0], EPOLLIN | events, (uint64_t)i);
	}
	CHECK_INT(epoll_wait(ep, got, 4, 0), ==, 0);
	for (int i = 0; listed && i < 2; i++) {
		fake_arrive(s[i], 1);
		CHECK_INT(epoll_wait(ep, got, 4, 0), ==, 1);
		CHECK_INT(recv(fds[i][0], &c, 1, 0), ==, 1);
	}
	pair.first = s[swapped];
	pair.second = s[!swapped];
	fake.looked = arrive_behind_the_look;
	CHECK_INT(epoll_wait(ep, got, 4, 3000), ==, 2);
	CHECK_INT(fake.looked == NULL, ==, true);
	fake.looked = NULL;
	for (int i = 0; i < 2; i++) {
		close(fds[i][0]);
		close(fds[i][1]);
	}
	close(ep);
	CHECK_INT(fake.n_streams, ==, 0);
}

static void rings_are_told_together(void)
{
	for (int i = 0; i < 8; i++)
		play_rings(i & 1 ? EPOLLET : 0, i & 2, i & 4);
}

/* poll, too, asks the kernel for what came before. */
static void poll_asks_the_kernel(void)
{
	struct pollfd fds[2];
	struct both b;

	begin_both(&b, EPOLLIN);
	for (int i = 0; i < 100; i++) {
		fds[0] = (struct pollfd){ .fd = b.kernels[0], .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = b.rings[0], .events = POLLIN };
		send_in_order(&b);
		REQUIRE_INT(poll(fds, 2, i % 2 ? -1 : 0), ==, 2);
		take(&b);
	}
	end_both(&b);
}

/* While it spins. */
static void arrive_in_order_later(pulc_stream *s)
{
	static int n;

	if (s == midst->s && ++n % 100 == 0)
		arrive_once(s);
}

static void poll_that_spins_asks_the_kernel(void)
{
	struct pollfd fds[2];
	struct both b;

	begin_both(&b, EPOLLIN);
	fake.nsec_spin = 1000000000;
	midst = &b;
	for (int i = 0; i < 100; i++) {
		fds[0] = (struct pollfd){ .fd = b.kernels[0], .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = b.rings[0], .events = POLLIN };
		fake.looked = arrive_in_order_later;
		REQUIRE_INT(poll(fds, 2, -1), >=, 1);
		CHECK_INT(fds[0].revents, ==, POLLIN);
		while (fake.looked)
			(void)poll(fds, 2, 0);
		take(&b);
	}
	fake.nsec_spin = 0;
	end_both(&b);
}

static const struct test tests[] = {
	TEST(kernel_goes_first),
	TEST(what_has_no_room_waits),
	TEST(rings_do_not_starve),
	TEST(nothing_is_told_twice),
	TEST(only_what_is_near_is_asked_for),
	TEST(near_members_are_counted),
	TEST(who_has_not_begun_is_near),
	TEST(who_is_quiet_is_taken_further),
	TEST(who_is_taken_further_is_not_closed_meanwhile),
	TEST(what_is_held_is_told_once),
	TEST(many_are_not_taken_further),
	TEST(listeners_are_asked_for_after_a_connect),
	TEST(rings_are_told_together),
	TEST(poll_asks_the_kernel),
	TEST(poll_that_spins_asks_the_kernel),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
