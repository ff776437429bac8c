/*
 * Fake slabs under a real connection. What psid does at an upgrade is done here by hand: a sealed
 * memfd with a header and the first control words, mapped writable by its owner and read-only by
 * the other end.
 */
#include "tcp_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "tcp_connect.h"

const uint32_t tcp_pair_small_rings[SHM_N_RINGS] = { 64, 256, 512, 1024, 4096 };
const uint32_t tcp_pair_usual_rings[SHM_N_RINGS] = { 4096, 65536, 256 << 10, 1 << 20, 4 << 20 };

enum tcp_credit tcp_pair_grant_everything(uint64_t size)
{
	(void)size;
	return TCP_CREDIT_GRANTED;
}

int slab_make(const uint32_t size_ring[SHM_N_RINGS], uint32_t n_slots, uint64_t *ret_size)
{
	int fd = shm_slab_new(size_ring, n_slots, ret_size);

	REQUIRE(fd >= 0);
	return fd;
}

void tcp_pair_init(struct tcp_pair *p, const uint32_t size_ring[SHM_N_RINGS])
{
	uint64_t size;

	memset(p, 0, sizeof(*p));
	tcp_connect_pair(p->fd, AF_INET);
	for (int i = 0; i < 2; i++) {
		p->slab_fd[i] = slab_make(size_ring, 1, &size);
		REQUIRE_INT(shm_slab_map(p->slab_fd[i], size, true, &p->own[i]), ==, 0);
		REQUIRE_INT(shm_slab_map(p->slab_fd[i], size, false, &p->seen[i]), ==, 0);
	}
	tcp_take_credit = tcp_pair_grant_everything;
	for (int i = 0; i < 2; i++) {
		REQUIRE_INT(shm_stream_bind(&p->tcp[i].ring, &p->own[i], 0, &p->seen[1 - i], 0), ==,
			    0);
		p->tcp[i].role = i == 0 ? PULC_CONNECTED : PULC_ACCEPTED;
		tcp_attach(&p->tcp[i], p->fd[i]);
	}
}

void tcp_pair_watch(struct tcp_pair *p)
{
	CHECK(tcp_watch(&p->tcp[0]));
	CHECK(tcp_watch(&p->tcp[1]));
}

void tcp_pair_deinit(struct tcp_pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->fd[i] >= 0)
			(void)close(p->fd[i]);
		(void)close(p->slab_fd[i]);
		shm_slab_unmap(&p->own[i]);
		shm_slab_unmap(&p->seen[i]);
	}
}

ssize_t pair_push(struct tcp_pair *p, int end, const void *buf, size_t len)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	unsigned did = 0;

	return tcp_push(&p->tcp[end], p->fd[end], &iov, 1, 0, &did);
}

ssize_t pair_pull(struct tcp_pair *p, int end, void *buf, size_t len, int flags)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	unsigned did = 0;

	return tcp_pull(&p->tcp[end], p->fd[end], &iov, 1, flags, true, &did);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

#define SIZE_PIECE 4096
#define N_TRIES 1000000

static unsigned char byte_at(uint64_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

void bytes_fill(unsigned char *buf, uint64_t at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_at(at + i);
}

bool bytes_match(const unsigned char *buf, uint64_t at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != byte_at(at + i))
			return false;
	return true;
}

void pair_send(struct tcp_pair *p, int end, uint64_t at, size_t len)
{
	unsigned char buf[SIZE_PIECE];

	bytes_fill(buf, at, len);
	REQUIRE_INT(pair_push(p, end, buf, len), ==, (ssize_t)len);
}

void pair_send_kernel(struct tcp_pair *p, int end, uint64_t at, size_t len)
{
	unsigned char buf[SIZE_PIECE];

	bytes_fill(buf, at, len);
	REQUIRE_INT(write(p->fd[end], buf, len), ==, (ssize_t)len);
}

void pair_expect(struct tcp_pair *p, int end, uint64_t at, size_t len)
{
	unsigned char buf[SIZE_PIECE];
	size_t got = 0;

	for (unsigned tries = 0; got < len && tries < N_TRIES; tries++) {
		ssize_t n = pair_pull(p, end, buf + got, len - got, 0);

		REQUIRE(n > 0 || n == -EAGAIN);
		got += n > 0 ? (size_t)n : 0;
	}
	REQUIRE_INT(got, ==, len);
	CHECK(bytes_match(buf, at, len));
}

void pair_expect_kernel(struct tcp_pair *p, int end, uint64_t at, size_t len)
{
	unsigned char buf[SIZE_PIECE];

	REQUIRE_INT(recv(p->fd[end], buf, len, MSG_WAITALL), ==, (ssize_t)len);
	CHECK(bytes_match(buf, at, len));
}
