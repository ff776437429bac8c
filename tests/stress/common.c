/* Random numbers, bytes, sockets and shared memory of the stress programs. */
#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A prime somewhat above a power of two: no ring or buffer size divides a displacement away. */
#define SIZE_PERIOD 1048583u

static unsigned char *bytes;

uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return rng_next(rng) % n;
}

uint64_t rng_size(struct rng *rng, uint64_t max)
{
	unsigned n_bits = 64 - (unsigned)__builtin_clzll(max);
	uint64_t size = 1 + rng_next(rng) % (1ull << rng_below(rng, n_bits + 1));

	return size < max ? size : max;
}

bool rng_one_in(struct rng *rng, unsigned n)
{
	return rng_below(rng, n) == 0;
}

void bytes_init(uint64_t seed)
{
	struct rng rng = { seed };

	bytes = malloc(SIZE_PERIOD + SIZE_PIECE_MAX);
	for (size_t i = 0; i < SIZE_PERIOD; i++)
		bytes[i] = (unsigned char)rng_next(&rng);
	memcpy(bytes + SIZE_PERIOD, bytes, SIZE_PIECE_MAX);
}

const unsigned char *bytes_at(uint64_t key, uint64_t offset)
{
	return bytes + (key + offset) % SIZE_PERIOD;
}

uint64_t nsec_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Mostly none, sometimes long enough for the other side to fall asleep. */
void pause_randomly(struct rng *rng)
{
	if (rng_one_in(rng, 300))
		usleep((useconds_t)rng_size(rng, 3000));
}

void fail(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "%s\n", line);
	_exit(1);
}

bool is_gone(int error)
{
	return error == EPIPE || error == ECONNRESET;
}

static socklen_t loopback(struct sockaddr_storage *address, uint16_t port, bool v6)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
	struct sockaddr_in *in = (struct sockaddr_in *)address;

	memset(address, 0, sizeof(*address));
	if (v6) {
		*in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					      .sin6_port = port,
					      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
		return sizeof(*in6);
	}
	*in = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_port = port,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return sizeof(*in);
}

int listen_somewhere(uint16_t *ret_port, bool v6)
{
	struct sockaddr_storage address;
	socklen_t size = loopback(&address, 0, v6);
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 64) < 0)
		fail("listen: %s", strerror(errno));
	getsockname(fd, (struct sockaddr *)&address, &size);
	*ret_port = ((struct sockaddr_in *)&address)->sin_port;
	return fd;
}

int connect_somewhere(uint16_t port, bool v6)
{
	struct sockaddr_storage address;
	socklen_t size = loopback(&address, port, v6);
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&address, size) < 0)
		fail("connect: %s", strerror(errno));
	return fd;
}

void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return memory;
}
