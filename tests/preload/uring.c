/* Programs with a ring of the kernel's own: all that goes through it passes everybody by. */
#include "epoll_case.h"

#include <dlfcn.h>
#include <liburing.h>
#include <sys/syscall.h>

static int wait_for(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int result = io_uring_submit_and_wait(ring, 1);

	if (result >= 0)
		result = io_uring_wait_cqe(ring, &cqe);
	if (result < 0)
		return result;
	result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return result;
}

static int send_by_ring(struct io_uring *ring, int fd, const char *text)
{
	io_uring_prep_send(io_uring_get_sqe(ring), fd, text, strlen(text), 0);
	return wait_for(ring);
}

static void recv_by_ring(struct play *p, struct io_uring *ring, size_t len)
{
	char buf[64];
	int n;

	io_uring_prep_recv(io_uring_get_sqe(ring), FD, buf, len, MSG_WAITALL);
	n = wait_for(ring);
	say_bytes(p, "by ring", buf, n > 0 ? (size_t)n : 0);
}

CASE(uring_transfers, ANY)
{
	struct io_uring ring;

	A {
		T(io_uring_queue_init(8, &ring, 0) == 0);
		SEND("by call");
		T(send_by_ring(&ring, FD, " by ring") == 8);
	}
	B {
		settle(p, FD, 15);
		RECV(20);
		SEND("answer and more");
	}
	A {
		recv_by_ring(p, &ring, 6);
		RECV(20);
	}
	B { close(FD); }
	A {
		recv_by_ring(p, &ring, 1);
		io_uring_queue_exit(&ring);
	}
}

CASE(uring_made_with_bytes_on_the_way, PROCESS)
{
	struct io_uring ring;

	B { SEND("before the ring"); }
	A {
		settle(p, FD, 15);
		SEND("mine");
		T(io_uring_queue_init(8, &ring, 0) == 0);
		recv_by_ring(p, &ring, 15);
		T(send_by_ring(&ring, FD, " and more") == 9);
	}
	WITH_B {
		settle(p, FD, 13);
		RECV(20);
		SEND("end");
	}
	A {
		recv_by_ring(p, &ring, 3);
		io_uring_queue_exit(&ring);
	}
}

CASE(uring_waits_for_a_member_of_a_set, ANY)
{
	struct io_uring ring;
	int ep = -1;

	A {
		ep = epoll_create1(0);
		ADD(ep, FD, EPOLLIN, 1);
		EXPECT_NONE(ep);
		T(io_uring_queue_init(8, &ring, 0) == 0);
	}
	B { SEND("event"); }
	A {
		io_uring_prep_poll_add(io_uring_get_sqe(&ring), ep, POLLIN);
		T(wait_for(&ring) == POLLIN);
		EXPECT(ep);
		RECV(10);
		EXPECT_NONE(ep);
		io_uring_queue_exit(&ring);
		close(ep);
	}
}

CASE(uring_by_system_call, ANY)
{
	A {
		struct io_uring_params params = { 0 };
		long fd = syscall(SYS_io_uring_setup, 4, &params);

		T(fd >= 0);
		SEND("on");
		close((int)fd);
	}
	B {
		RECV(10);
		SEND("back");
	}
	A { RECV(10); }
}

/* libuv makes one, and does without where there is none: its programs are served. */
CASE_TRAITS(uring_of_libuv, SELF, OWN_PAIR)
{
	A {
		void *library = dlopen("uv.so", RTLD_NOW);
		int (*make_ring)(unsigned) =
			library ? (int (*)(unsigned))dlsym(library, "uv_make_ring") : NULL;
		int fds[2], ring = make_ring ? make_ring(256) : 0;

		T(make_ring != NULL);
		if (ring > 0)
			close(ring);
		pair_local(fds);
		warm(p, fds);
		say_send(p, fds[0], "served", 0);
		say_recv(p, fds[1], 6, 0);
		close(fds[0]);
		say_recv(p, fds[1], 1, 0);
		close(fds[1]);
	}
}
