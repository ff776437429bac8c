/*
 * Holds a connection back until psid has had time to answer, so that suites whose connections are
 * over after a call or two reach rings as well: what a test does to a connection then happens to
 * rings.
 *
 * Preloaded before the shim it stands in the place of connect, accept and accept4, and calls the
 * next one's, which is the shim's. A new TCP connection is looked at every NSEC_LOOK until PATIENCE
 * of them have gone by: a look is a receive that asks for no byte and does not wait. To the shim it
 * is a data call, at which an end hints (PULC_HINT_AFTER=0) and reads what psid says; to the
 * connection it is nothing, for it takes no byte, no end and no error.
 *
 * Often one process is both ends, and its connect has returned, or is under way, before it accepts.
 * So the connections that this process has begun last are looked at as well, by number: one that
 * has been closed meanwhile, and whatever has its number by now, is no TCP connection or bears a
 * look. No state is locked: a number that is lost costs one connection its ring.
 *
 * The program sees an accept and a connect that take a millisecond or two. It sees no order that a
 * slow network could not make.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#define N_LOOKS 10
#define NSEC_LOOK 200000 /* psid answers both ends within some 300 us of an idle machine */
#define N_BEGUN 64

static _Atomic int
	begun[N_BEGUN]; /* numbers of connections begun here, each more by one: 0 is none */
static _Atomic unsigned n_begun;

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* A look at one that is still being made would be a hint too early. */
static bool is_connected(int fd)
{
	struct sockaddr_storage peer;
	int protocol = 0;
	socklen_t size = sizeof(protocol), size_peer = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
	       protocol == IPPROTO_TCP &&
	       getpeername(fd, (struct sockaddr *)&peer, &size_peer) == 0;
}

static void look(int fd)
{
	char none;

	if (fd >= 0 && is_connected(fd))
		(void)recv(fd, &none, 0, MSG_DONTWAIT | MSG_PEEK);
}

static void wait_for_psid(int fd)
{
	static const struct timespec pause = { .tv_nsec = NSEC_LOOK };

	for (int i = 0; i < N_LOOKS; i++) {
		look(fd);
		for (int k = 0; k < N_BEGUN; k++)
			look(atomic_load(&begun[k]) - 1);
		(void)nanosleep(&pause, NULL);
	}
	look(fd);
}

/* A connection that connect or accept has made: neither errno nor a cancellation comes of holding
 * it back. */
static void hold(int fd)
{
	int error = errno, state;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (is_connected(fd))
		wait_for_psid(fd);
	(void)pthread_setcancelstate(state, NULL);
	errno = error;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int r = NEXT(connect)(fd, addr, len);

	if (r == 0 || errno == EINPROGRESS)
		atomic_store(&begun[atomic_fetch_add(&n_begun, 1) % N_BEGUN], fd + 1);
	if (r == 0)
		hold(fd);
	return r;
}

int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	int r = NEXT(accept)(fd, addr, len);

	if (r >= 0)
		hold(r);
	return r;
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int r = NEXT(accept4)(fd, addr, len, flags);

	if (r >= 0)
		hold(r);
	return r;
}
