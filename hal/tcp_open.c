/*
 * Which way a TCP link moves its bytes. The one file of HAL tcp that knows both.
 *
 * Source: DESIGN 5 (io_uring, and epoll where it is forbidden).
 */
#include "tcp_link_private.h"

static int start_best(struct hal_tcp *h)
{
	int e = tcp_uring_start(h);

	return e < 0 ? tcp_plain_start(h) : e;
}

int hal_tcp_open(int fd, enum hal_tcp_way way, struct hal_link **ret_link)
{
	static int (*const starts[])(struct hal_tcp *) = {
		[HAL_TCP_BEST] = start_best,
		[HAL_TCP_PLAIN] = tcp_plain_start,
		[HAL_TCP_URING] = tcp_uring_start,
	};

	return tcp_open(fd, starts[way], ret_link);
}
