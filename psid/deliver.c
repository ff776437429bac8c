/*
 * A sender that closes has done with its bytes: the kernel sends them for as long as the receiver
 * takes to read, whether the sender still lives or not. What is in a ring when the receiver goes
 * back to the kernel is the sender's to send once more (docs/upgrade.md), and if the kernel has no
 * room for all of it then and the sender ends, nobody would be left who has them. So it hands them
 * to us, as a file in memory, with the socket.
 *
 * A delivery is a thread: whoever holds a descriptor of the socket can hold its lock for as long as
 * he likes, and a send waits for that. At most N_USER of a user and N_MAX of all are under way, and
 * the bytes and both descriptors are on the user's account.
 *
 * The sender waits for our word that we send. Where a limit is reached it goes on by itself. So it
 * does if it has given up waiting: the word cannot be sent any more then, and we send nothing.
 *
 * Until all has been sent the socket resets its connection when it is closed. So a receiver gets
 * all of the stream or an error, whatever happens to a sender that dies before it has our word, or
 * to us. Then the socket gets back how it lingered. A sender that keeps a socket which it has shut
 * down resets it when it has lost us (libpulc/deliver.c).
 *
 * A receiver that takes nothing for SEC_PATIENCE is treated as the kernel treats one that keeps its
 * window shut to a connection that nobody holds: it is reset.
 */
#include "deliver.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "client.h"
#include "lifecycle.h"
#include "log.h"
#include "macros.h"
#include "memory.h"
#include "psid.h"
#include "thread.h"
#include "user.h"

#define N_USER 16u
#define N_MAX 256u
#define N_DESCRIPTORS 2u /* the socket, the file */
#define SIZE_PIECE 16384u
#define SEC_PATIENCE 300

struct psid_delivery {
	TAILQ_ENTRY(psid_delivery) link;
	struct psid *psid;
	struct psid_user *user;
	int socket, memory;
	uint64_t size;
	bool shut; /* its sender has ended the stream, and keeps the socket */
	struct linger linger;
	bool is_ours; /* its sender has heard that we send; else it does so itself */
	bool delivered;
};

/* ---- in a thread ----------------------------------------------------------------------------- */

/* What the receiver's side has not taken. */
static int queued(int fd)
{
	int size = 0;

	(void)ioctl(fd, SIOCOUTQ, &size);
	return size;
}

/* Waits until the socket takes bytes: there may be room only long after the receiver took some. An
 * error is left to whoever else holds the socket. */
static bool has_room(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int n, before;

	do {
		before = queued(fd);
		n = poll(&p, 1, SEC_PATIENCE * 1000);
	} while ((n < 0 && errno == EINTR) || (n == 0 && queued(fd) != before));
	return n > 0 && !(p.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static bool send_piece(int fd, const char *piece, size_t len)
{
	ssize_t n;

	while (len > 0) {
		if (!has_room(fd))
			return false;
		n = send(fd, piece, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		piece += MAX(n, 0);
		len -= (size_t)MAX(n, 0);
	}
	return true;
}

static bool send_all(const struct psid_delivery *d)
{
	char piece[SIZE_PIECE];
	ssize_t n;

	for (uint64_t at = 0; at < d->size; at += (uint64_t)n) {
		n = pread(d->memory, piece, MIN(sizeof(piece), d->size - at), (off_t)at);
		if (n <= 0 || !send_piece(d->socket, piece, (size_t)n))
			return false;
	}
	return true;
}

static void send_and_end(struct psid_delivery *d)
{
	d->delivered = send_all(d);
	if (d->delivered && d->shut)
		(void)shutdown(d->socket, SHUT_WR);
	if (d->delivered)
		(void)setsockopt(d->socket, SOL_SOCKET, SO_LINGER, &d->linger, sizeof(d->linger));
	else if (d->shut) /* its sender would keep it open */
		(void)connect(d->socket, &(struct sockaddr){ .sa_family = AF_UNSPEC },
			      sizeof(struct sockaddr));
}

static void *deliver(void *arg)
{
	struct psid_delivery *d = arg;
	struct psid_deliveries *all = &d->psid->deliveries;

	(void)pthread_mutex_lock(&all->lock); /* its sender hears of it */
	(void)pthread_mutex_unlock(&all->lock);
	if (d->is_ours)
		send_and_end(d);
	(void)raw_close(d->socket);
	(void)raw_close(d->memory);
	(void)pthread_mutex_lock(&all->lock);
	TAILQ_INSERT_TAIL(&all->done, d, link);
	(void)uv_async_send(&all->finished);
	(void)pthread_mutex_unlock(&all->lock);
	return NULL;
}

/* ---- in the loop ----------------------------------------------------------------------------- */

/* On the user's account. False: it has as much as it may have. */
static bool take(struct psid_user *user, uint64_t size)
{
	if (user->n_deliveries >= N_USER || user->psid->deliveries.n >= N_MAX ||
	    psid_user_take_descriptors(user, N_DESCRIPTORS) != 0)
		return false;
	if (psid_user_take_bytes(user, size) != 0) {
		psid_user_give_descriptors(user, N_DESCRIPTORS);
		return false;
	}
	user->n_deliveries++;
	user->psid->deliveries.n++;
	return true;
}

static void give(struct psid_user *user, uint64_t size)
{
	psid_user_give_bytes(user, size);
	psid_user_give_descriptors(user, N_DESCRIPTORS);
	user->n_deliveries--;
	user->psid->deliveries.n--;
}

static void forget(struct psid_delivery *d)
{
	give(d->user, d->size);
	psid_lifecycle_idle(d->psid);
	psid_user_unref(d->user);
	free(d);
}

static void on_finished(uv_async_t *async)
{
	struct psid_deliveries *all = CONTAINER_OF(async, struct psid_deliveries, finished);
	struct psid_delivery *d;

	for (;;) {
		(void)pthread_mutex_lock(&all->lock);
		d = TAILQ_FIRST(&all->done);
		if (d)
			TAILQ_REMOVE(&all->done, d, link);
		(void)pthread_mutex_unlock(&all->lock);
		if (!d)
			return;
		if (d->is_ours && psid_may_remark(&d->psid->remarks, d->user->uid, PSID_INFO))
			psid_log(PSID_INFO, "uid %u: the last %llu bytes of a connection %s",
				 d->user->uid, (unsigned long long)d->size,
				 d->delivered ? "are delivered" : "are not wanted: reset");
		forget(d);
	}
}

int psid_deliveries_start(struct psid_deliveries *deliveries, uv_loop_t *loop)
{
	TAILQ_INIT(&deliveries->done);
	(void)pthread_mutex_init(&deliveries->lock, NULL);
	return uv_async_init(loop, &deliveries->finished, on_finished);
}

bool psid_deliveries_stop(struct psid_deliveries *deliveries)
{
	if (deliveries->n > 0)
		return false;
	uv_close((uv_handle_t *)&deliveries->finished, NULL);
	return true;
}

static int ask_int(int fd, int option)
{
	int value = 0;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -errno : value;
}

/* What the kernel answers without the socket's lock: see proof.c. */
static bool is_tcp(int fd)
{
	int domain = ask_int(fd, SO_DOMAIN);

	return (domain == AF_INET || domain == AF_INET6) && ask_int(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

/* A file in memory of that size, which no file system of the client's has to be asked for. */
static bool is_memory(int fd, uint64_t size)
{
	struct stat st;

	return psid_memory_is(fd) && fstat(fd, &st) == 0 && size > 0 &&
	       (uint64_t)st.st_size == size;
}

static struct psid_delivery *new_delivery(struct psid_client *client,
					  const Pulc__Wire__Deliver *msg)
{
	struct psid_user *user = client->user;
	struct psid_delivery *d;

	if (!take(user, msg->size))
		return NULL;
	d = malloc(sizeof(*d));
	if (!d) {
		give(user, msg->size);
		return NULL;
	}
	*d = (struct psid_delivery){
		.psid = client->psid,
		.user = psid_user_ref(user),
		.size = msg->size,
		.shut = msg->shut,
		.linger = { .l_onoff = msg->lingers, .l_linger = (int)msg->sec_linger },
	};
	psid_lifecycle_busy(client->psid);
	return d;
}

/* True: the client has the answer, or will have it. */
static bool say_delivering(struct psid_client *client)
{
	Pulc__Wire__Delivering delivering = PULC__WIRE__DELIVERING__INIT;
	PSID_MESSAGE(msg, DELIVERING, delivering) = &delivering;

	return psid_client_send(client, &msg, NULL, 0) == 0;
}

static void say_undelivered(struct psid_client *client)
{
	Pulc__Wire__Undelivered undelivered = PULC__WIRE__UNDELIVERED__INIT;
	PSID_MESSAGE(msg, UNDELIVERED, undelivered) = &undelivered;

	(void)psid_client_send(client, &msg, NULL, 0);
}

/* False: there is no thread to be had. The sender must not hear of a delivery before there is one,
 * nor may that begin before it has heard. */
static bool begin(struct psid_client *client, struct psid_delivery *d)
{
	pthread_mutex_t *lock = &client->psid->deliveries.lock;
	bool begun;

	(void)pthread_mutex_lock(lock);
	begun = psid_thread_start(deliver, d) == 0;
	d->is_ours = begun && say_delivering(client);
	(void)pthread_mutex_unlock(lock);
	return begun;
}

int psid_deliver(struct psid_client *client, const Pulc__Wire__Deliver *msg, int *fds)
{
	struct psid_delivery *d;

	if (!is_tcp(fds[0]) || !is_memory(fds[1], msg->size))
		return -EBADMSG;
	d = new_delivery(client, msg);
	if (!d) {
		say_undelivered(client);
		return 0;
	}
	d->socket = fds[0];
	d->memory = fds[1];
	if (!begin(client, d)) {
		forget(d);
		say_undelivered(client);
		return 0;
	}
	fds[0] = fds[1] = -EBADF;
	return 0;
}
