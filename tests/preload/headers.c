/*
 * The headers of messages: what sendmsg and recvmsg, and their forms for several, read in them and
 * write there, and what they refuse for them.
 */
#include "case.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

/* Room for everything that recvmsg may write, and what it has written. */
struct room {
	struct sockaddr_storage name;
	struct msghdr header;
	struct iovec piece;
	char bytes[16], control[64];
};

static struct msghdr *make_room(struct room *r)
{
	memset(r, 0, sizeof(*r));
	r->piece = (struct iovec){ r->bytes, sizeof(r->bytes) };
	r->header = (struct msghdr){ .msg_name = &r->name,
				     .msg_namelen = 77,
				     .msg_iov = &r->piece,
				     .msg_iovlen = 1,
				     .msg_control = r->control,
				     .msg_controllen = sizeof(r->control),
				     .msg_flags = 0x1234 };
	return &r->header;
}

static void say_header(struct play *p, const struct room *r)
{
	bool has_name = r->header.msg_namelen == PEER_SIZE;

	say(p, "namelen %s, controllen %zu, flags %x, \"%.16s\"",
	    r->header.msg_namelen == 0	  ? "none"
	    : r->header.msg_namelen == 77 ? "untouched"
	    : has_name			  ? "of the peer's"
					  : "another",
	    r->header.msg_controllen, (unsigned)r->header.msg_flags, r->bytes);
}

/* Memory of which the kernel says EFAULT, and which the program cannot read either. */
static void *out_of_reach(void)
{
	return mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* ---- what is written ------------------------------------------------------------------------- */

static void fail_each_way(struct play *p)
{
	struct room r;

	R(recvmsg(FD, make_room(&r), MSG_DONTWAIT));
	say_header(p, &r);
	R(recvmsg(FD, make_room(&r), MSG_DONTWAIT | MSG_ERRQUEUE));
	say_header(p, &r);
	R(recvmsg(-1, make_room(&r), 0));
	say_header(p, &r);
	make_room(&r)->msg_iovlen = IOV_MAX + 1;
	R(recvmsg(FD, &r.header, 0));
	say_header(p, &r);
	make_room(&r);
	r.piece.iov_base = bad_address;
	R(recvmsg(FD, &r.header, MSG_DONTWAIT));
	say_header(p, &r);
}

CASE(headers_stay_as_they_are_if_it_fails, ANY)
{
	struct room r;

	A { fail_each_way(p); }
	B { SEND("abc"); }
	A {
		settle(p, FD, 3);
		make_room(&r);
		r.piece.iov_base = bad_address;
		R(recvmsg(FD, &r.header, 0));
		say_header(p, &r);
		R(recvmsg(FD, make_room(&r), 0));
		say_header(p, &r);
	}
}

CASE_TRAITS(headers_stay_as_they_are_if_a_datagram_fails, ANY, DATAGRAMS)
{
	struct room r;

	A { fail_each_way(p); }
	B { SEND("abc"); }
	A {
		R(recvmsg(FD, make_room(&r), 0));
		say_header(p, &r);
	}
}

CASE(headers_stay_as_they_are_behind_a_reset, ANY)
{
	struct room r;

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		R(recvmsg(FD, make_room(&r), 0));
		say_header(p, &r);
		R(recvmsg(FD, make_room(&r), 0));
		say_header(p, &r);
	}
}

CASE(headers_stay_as_they_are_if_interrupted, DUO)
{
	A {
		struct room r;

		count_signal(SIGUSR1, 0);
		R(recvmsg(FD, make_room(&r), 0));
		say_header(p, &r);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

/* Nobody asks for the name: the length of one says nothing. */
static void receive_nameless(struct play *p)
{
	struct room r;

	make_room(&r)->msg_name = NULL;
	R(recvmsg(FD, &r.header, 0));
	say_header(p, &r);
	make_room(&r)->msg_control = NULL;
	R(recvmsg(FD, &r.header, MSG_CMSG_CLOEXEC));
	say_header(p, &r);
	R(recvmsg(FD, make_room(&r), MSG_CMSG_CLOEXEC | MSG_TRUNC));
	say_header(p, &r);
}

CASE(headers_without_a_name, ANY)
{
	for (int i = 0; i < 3; i++) {
		A { SEND("abc"); }
		B { settle(p, FD, 3 * (i + 1)); }
	}
	B {
		struct room r;

		make_room(&r)->msg_name = NULL;
		r.piece.iov_len = 3;
		R(recvmsg(FD, &r.header, 0));
		say_header(p, &r);
		make_room(&r)->msg_control = NULL;
		r.piece.iov_len = 3;
		R(recvmsg(FD, &r.header, MSG_CMSG_CLOEXEC));
		say_header(p, &r);
		make_room(&r)->msg_name = bad_address;
		r.header.msg_control = bad_address;
		R(recvmsg(FD, &r.header, 0));
		say_header(p, &r);
	}
	A { R(shutdown(FD, SHUT_WR)); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		receive_nameless(p);
	}
}

CASE_TRAITS(headers_of_datagrams_without_a_name, ANY, DATAGRAMS)
{
	A {
		for (int i = 0; i < 5; i++) SEND("abc");
	}
	B {
		struct room r;

		receive_nameless(p);
		/* Whether the length of the name is written then depends on the kernel. */
		make_room(&r)->msg_name = bad_address;
		R(recvmsg(FD, &r.header, 0));
		make_room(&r)->msg_control = bad_address;
		R(recvmsg(FD, &r.header, 0));
		say_header(p, &r);
	}
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* R(), but the lengths are no constants to the compiler. */
static void send_wrongly(struct play *p)
{
	static char many[4096];
	volatile socklen_t negative = (socklen_t)-1, large = 1000, usual = 16;
	struct iovec piece = { "abc", 3 };
	struct msghdr m = { .msg_iov = &piece, .msg_iovlen = 1 };

	memcpy(many, PEER, PEER_SIZE);
	R(sendto(FD, "x", 1, 0, (struct sockaddr *)many, negative));
	R(sendto(FD, "x", 1, 0, (struct sockaddr *)many, large));
	R(sendto(FD, "x", 1, 0, (struct sockaddr *)bad_address, usual));
	R(sendto(FD, "no length", 9, 0, (struct sockaddr *)bad_address, 0));
	m.msg_name = many;
	m.msg_namelen = negative;
	R(sendmsg(FD, &m, 0));
	m.msg_namelen = large;
	R(sendmsg(FD, &m, 0));
	m.msg_name = bad_address;
	R(sendmsg(FD, &m, 0));
	m.msg_namelen = 0;
	R(sendmsg(FD, &m, 0));
	m.msg_name = NULL;
	m.msg_namelen = negative;
	R(sendmsg(FD, &m, 0));
	m.msg_control = bad_address;
	m.msg_controllen = 16;
	R(sendmsg(FD, &m, 0));
	m.msg_control = many;
	m.msg_controllen = (size_t)INT_MAX + 1;
	R(sendmsg(FD, &m, 0));
	m.msg_controllen = 4;
	R(sendmsg(FD, &m, 0));
}

static void receive_wrongly(struct play *p)
{
	volatile socklen_t negative = (socklen_t)-1;
	socklen_t size = negative;
	struct room r;

	make_room(&r)->msg_namelen = negative;
	R(recvmsg(FD, &r.header, MSG_DONTWAIT));
	R(recvfrom(FD, r.bytes, 4, MSG_DONTWAIT, (struct sockaddr *)&r.name, &size));
	R(recvfrom(FD, r.bytes, 4, MSG_DONTWAIT, (struct sockaddr *)&r.name,
		   (socklen_t *)bad_address));
	size = sizeof(r.name);
	R(recvfrom(FD, r.bytes, 4, MSG_DONTWAIT, (struct sockaddr *)bad_address, &size));
	RECV_FLAGS(32, MSG_DONTWAIT);
}

CASE(headers_with_wrong_lengths, ANY)
{
	A { send_wrongly(p); }
	B {
		settle(p, FD, 18);
		receive_wrongly(p);
		receive_wrongly(p);
	}
}

CASE_TRAITS(headers_with_wrong_lengths_of_datagrams, ANY, DATAGRAMS)
{
	A { send_wrongly(p); }
	B {
		receive_wrongly(p);
		receive_wrongly(p);
	}
}

/* One by one from the middle of a page on that ends where no memory is: the last of them cannot be
 * read. */
static struct mmsghdr *beyond_the_end(int n, struct iovec *piece)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mmsghdr *msgs = (struct mmsghdr *)(pages + 4096 - (size_t)n * sizeof(*msgs));

	munmap(pages + 4096, 4096);
	for (int i = 0; i < n; i++)
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = piece, .msg_iovlen = 1 };
	return msgs;
}

static void pass_bad_headers(struct play *p, int fd)
{
	void *far = out_of_reach();
	struct msghdr *volatile nobody = NULL;
	struct iovec piece = { "abc", 3 };
	struct msghdr m = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = far, .msg_controllen = 64
	};
	struct timespec *limit = far;
	struct sockaddr name;
	char byte[1];

	R(sendmsg(fd, far, MSG_NOSIGNAL));
	R(sendmsg(fd, nobody, MSG_NOSIGNAL));
	R(sendmmsg(fd, far, 2, MSG_NOSIGNAL));
	R(sendmsg(fd, &m, MSG_NOSIGNAL));
	m = (struct msghdr){ .msg_iov = far, .msg_iovlen = 1 };
	R(sendmsg(fd, &m, MSG_NOSIGNAL));
	R(sendmmsg(fd, beyond_the_end(2, &piece), 3, MSG_NOSIGNAL));
	R(recvmsg(fd, far, MSG_DONTWAIT));
	R(recvmmsg(fd, far, 2, MSG_DONTWAIT, NULL));
	R(recvmmsg(fd, beyond_the_end(1, &piece), 1, MSG_DONTWAIT, limit));
	R(recvfrom(fd, byte, 1, MSG_DONTWAIT, &name, far));
	munmap(far, 4096);
}

/* Of descriptors that are no connections the kernel judges. */
CASE_TRAITS(headers_out_of_reach_elsewhere, SELF, NO_PAIR | STAYS_KERNEL)
{
	A {
		struct address address;
		int unix_fds[2], pipe_fds[2], epfd = epoll_create1(0),
					      listener = listen_on("127.0.0.1", &address);

		socketpair(AF_UNIX, SOCK_STREAM, 0, unix_fds);
		if (pipe(pipe_fds) < 0)
			say(p, "no pipe");
		say(p, "unix");
		pass_bad_headers(p, unix_fds[0]);
		RECV_FLAGS(0, MSG_DONTWAIT);
		say_recv(p, unix_fds[1], 32, MSG_DONTWAIT);
		say(p, "pipe");
		pass_bad_headers(p, pipe_fds[1]);
		say(p, "epoll");
		pass_bad_headers(p, epfd);
		say(p, "listener");
		pass_bad_headers(p, listener);
		say(p, "none");
		pass_bad_headers(p, -1);
		for (int i = 0; i < 2; i++) {
			close(unix_fds[i]);
			close(pipe_fds[i]);
		}
		close(epfd);
		close(listener);
	}
}

/* A socket is passed by the message before one that is out of reach. */
CASE(headers_out_of_reach_behind_one_that_passes, SELF)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec piece = { "p", 1 };
	struct mmsghdr *msgs = beyond_the_end(1, &piece);
	int fds[2], passed;

	A {
		socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
		memcpy(CMSG_DATA(&control.header), &FD, sizeof(int));
		msgs[0].msg_hdr.msg_control = &control;
		msgs[0].msg_hdr.msg_controllen = sizeof(control);
		R(sendmmsg(fds[0], msgs, 2, 0));
		passed = take_fd(fds[1]);
		T(passed >= 0);
		R(write(passed, "by the passed one", 17));
		close(passed);
		close(fds[0]);
		close(fds[1]);
	}
	B { RECV_FLAGS(17, MSG_WAITALL); }
}

/* ---- several messages ------------------------------------------------------------------------ */

#define N_SEVERAL 3

static struct mmsghdr *make_several(struct room rooms[N_SEVERAL], size_t size)
{
	static struct mmsghdr msgs[N_SEVERAL];

	for (int i = 0; i < N_SEVERAL; i++) {
		msgs[i] = (struct mmsghdr){ .msg_hdr = *make_room(&rooms[i]), .msg_len = 99 };
		rooms[i].piece.iov_len = size;
	}
	return msgs;
}

/* The time that is left is written where messages came, and only there. */
static void say_left(struct play *p, const struct timespec *left)
{
	say(p, "left: %s",
	    left->tv_sec == 0 && left->tv_nsec == 0 ? "nothing"
	    : left->tv_sec == 30		    ? "all"
	    : left->tv_sec == 29		    ? "some"
	    : left->tv_sec > 1000000		    ? "very much"
						    : "another");
}

static void receive_several(struct play *p, struct timespec limit)
{
	struct room rooms[N_SEVERAL];

	R(recvmmsg(FD, make_several(rooms, 3), N_SEVERAL, MSG_WAITFORONE, &limit));
	say_left(p, &limit);
}

static void receive_by_time(struct play *p)
{
	struct room rooms[N_SEVERAL];
	struct timespec limit = { .tv_sec = 30 };

	receive_several(p, limit);
	limit = (struct timespec){ .tv_sec = 30 };
	R(recvmmsg(FD, make_several(rooms, 3), N_SEVERAL, MSG_DONTWAIT, &limit));
	say_left(p, &limit);
	R(recvmmsg(FD, make_several(rooms, 3), N_SEVERAL, MSG_DONTWAIT,
		   (struct timespec *)bad_address));
}

CASE(headers_tell_the_time_left, ANY)
{
	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		receive_by_time(p);
	}
	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		receive_several(p, (struct timespec){ 0, 0 });
		receive_several(p, (struct timespec){ 0, 1 });
	}
	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		receive_several(p, (struct timespec){ LONG_MAX, 0 });
	}
}

CASE_TRAITS(headers_tell_the_time_left_for_datagrams, ANY, DATAGRAMS)
{
	A {
		SEND("abc");
		SEND("def");
	}
	B { receive_by_time(p); }
	A {
		for (int i = 0; i < 4; i++) SEND("abc");
	}
	B {
		receive_several(p, (struct timespec){ 0, 0 });
		receive_several(p, (struct timespec){ 0, 1 });
		receive_several(p, (struct timespec){ LONG_MAX, 0 });
	}
}

/* The one behind the first message is told by the next call, whatever that is. */
CASE(headers_reset_behind_a_message, DUO)
{
	B {
		SEND("unread");
		SEND("abc");
	}
	A { settle(p, FD, 9); }
	A {
		struct room rooms[N_SEVERAL];

		SEND("unread as well");
		R(recv(FD, rooms[0].bytes, 6, 0));
		R(recvmmsg(FD, make_several(rooms, 3), N_SEVERAL, 0, NULL));
	}
	WITH_B {
		settle(p, FD, 14);
		until_other_sleeps(p);
		R(close(FD));
	}
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };

		R(poll(&pfd, 1, 0));
		say_poll(p, "behind it", pfd.revents);
		RECV(1);
		RECV(1);
	}
}

CASE(headers_reset_behind_a_message_is_the_sockets_error, DUO)
{
	B { SEND("abc"); }
	A { settle(p, FD, 3); }
	A {
		struct room rooms[N_SEVERAL];

		SEND("unread");
		R(recvmmsg(FD, make_several(rooms, 3), N_SEVERAL, 0, NULL));
	}
	WITH_B {
		settle(p, FD, 6);
		until_other_sleeps(p);
		R(close(FD));
	}
	A {
		say_error(p, FD);
		say_error(p, FD);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

/* A peer that is gone refuses what another thread sends to it meanwhile. */
CASE_TRAITS(headers_refusal_behind_a_datagram, THREAD, DATAGRAMS)
{
	B { SEND("abc"); }
	A { *stage_word(p, 1) = FD; }
	A {
		struct room rooms[N_SEVERAL];

		R(recvmmsg(FD, make_several(rooms, 3), N_SEVERAL, 0, NULL));
	}
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
		R(send((int)*stage_word(p, 1), "refused", 7, 0));
	}
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };

		R(poll(&pfd, 1, 0));
		say_poll(p, "behind it", pfd.revents);
		RECV_FLAGS(1, MSG_DONTWAIT);
		RECV_FLAGS(1, MSG_DONTWAIT);
	}
}
