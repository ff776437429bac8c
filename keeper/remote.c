/*
 * Keepers of several nodes talk with their head keeper only, over TCP and TLS under the key of the
 * job.
 *
 * A caller is nobody until it has said Attach over a connection that the key has opened; who does
 * not within MSEC_ATTACH, or says anything else, is hung up on. Beyond N_CALLERS_MAX of them the
 * next ones wait in the kernel until one has been told apart: all keepers of a job call at once. So
 * they do for a while when there are no descriptors left, of which the poll would tell without end.
 *
 * Keep-alives tell of a node that has died in silence: after SEC_IDLE seconds without a word it is
 * asked N_PROBES times, a second apart.
 */
#include "remote.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "head.h"
#include "macros.h"
#include "keeper_tls.h"

#define SEC_CONNECT 10
#define SEC_IDLE 1
#define N_PROBES 3
#define MSEC_UNACKNOWLEDGED 4000
#define MSEC_ATTACH 10000
#define MSEC_PAUSE 100
#define N_CALLERS_MAX 64u /* that have not said who they are */

struct caller {
	struct keeper *keeper;
	struct channel channel;
	struct tls *tls;
	uv_timer_t timer;
	bool attached;
};

static const struct keeper_tls *plug_in;
static uv_poll_t listener;
static uv_timer_t listener_pause;
static int listener_fd = -EBADF;
static unsigned n_callers;

/* Beside our own program. */
static int load_tls(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	void *library;

	if (plug_in)
		return 0;
	path[MAX(n, 0)] = '\0';
	strcat(path, "-tls.so");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library)
		plug_in = dlsym(library, TLS_SYMBOL);
	if (!plug_in)
		(void)fprintf(stderr, "keeper: %s\n", dlerror());
	return plug_in ? 0 : -ELIBACC;
}

void keeper_remote_prepare(void)
{
	if (load_tls() == 0)
		plug_in->prepare();
}

static void set_option(int fd, int level, int name, int value)
{
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_options(int fd)
{
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, SEC_IDLE);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, N_PROBES);
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, MSEC_UNACKNOWLEDGED);
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* ---- calling --------------------------------------------------------------------------------- */

static int connect_head(const Pulc__Job__Start *start, int *ret_fd)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)start->port) };
	struct timeval patience = { .tv_sec = SEC_CONNECT };
	CLEANUP_FD int fd = -EBADF;

	if (inet_pton(AF_INET6, start->address, &sa.sin6_addr) != 1)
		return -EBADMSG;
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	set_options(fd);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int keeper_remote_call(struct keeper *k)
{
	Pulc__Job__Attach attach = PULC__JOB__ATTACH__INIT;
	JOB_MESSAGE(msg, ATTACH, attach) = &attach;
	struct tls *tls;
	int fd = -EBADF, r;

	if (k->start->key.len != TLS_SIZE_KEY)
		return -EBADMSG;
	r = load_tls();
	if (r == 0)
		r = connect_head(k->start, &fd);
	if (r < 0)
		return r;
	tls = plug_in->open(fd, k->start->key.data, false);
	if (!tls) {
		(void)close_own(fd);
		return -ENOMEM;
	}
	r = channel_open_ops(&k->owner, &k->channels, fd, &plug_in->io, tls);
	attach.here = k->start->here;
	if (r == 0)
		channel_put(&k->owner, &msg);
	return r;
}

/* ---- being called ---------------------------------------------------------------------------- */

static void on_freed(uv_handle_t *handle)
{
	struct caller *caller = CONTAINER_OF(handle, struct caller, timer);

	plug_in->close(caller->tls);
	free(caller);
}

static void on_closed(struct channel *channel)
{
	struct caller *caller = CONTAINER_OF(channel, struct caller, channel);

	uv_close((uv_handle_t *)&caller->timer, on_freed);
}

static void on_call(uv_poll_t *poll, int status, int events);

static void listen_if_room(void)
{
	if (n_callers < N_CALLERS_MAX && !uv_is_active((uv_handle_t *)&listener_pause))
		(void)uv_poll_start(&listener, UV_READABLE, on_call);
	else
		(void)uv_poll_stop(&listener);
}

static void on_pause_over(uv_timer_t *timer)
{
	(void)timer;
	listen_if_room();
}

static void forget(struct caller *caller)
{
	if (caller->attached)
		return;
	n_callers--;
	listen_if_room();
}

static void on_caller_end(struct channel *channel, int reason)
{
	struct caller *caller = CONTAINER_OF(channel, struct caller, channel);

	(void)reason;
	if (caller->attached)
		keeper_head_detached(caller->keeper, channel);
	forget(caller);
}

static void on_silence(uv_timer_t *timer)
{
	struct caller *caller = CONTAINER_OF(timer, struct caller, timer);

	channel_close(&caller->channel);
	forget(caller);
}

/* The first word of a caller. Afterwards its frames are the head's. */
static void on_first(struct channel *channel, const struct frame *frame)
{
	struct caller *caller = CONTAINER_OF(channel, struct caller, channel);
	Pulc__Job__Message *msg = frame->kind == FRAME_MESSAGE ? frame_unpack(frame) : NULL;

	if (msg && msg->body_case == PULC__JOB__MESSAGE__BODY_ATTACH &&
	    keeper_head_attached(caller->keeper, msg->attach->here, channel) == 0) {
		forget(caller); /* as one that is nobody */
		caller->attached = true;
		(void)uv_timer_stop(&caller->timer);
	} else {
		channel_close(channel);
		forget(caller);
	}
	if (msg)
		pulc__job__message__free_unpacked(msg, NULL);
}

static void take_call(struct keeper *k, int fd)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	if (caller)
		caller->tls = plug_in->open(fd, k->start->key.data, true);
	if (!caller || !caller->tls) {
		free(caller);
		(void)close_own(fd);
		return;
	}
	set_options(fd);
	caller->keeper = k;
	caller->channel.on_frame = on_first;
	caller->channel.on_end = on_caller_end;
	caller->channel.on_closed = on_closed;
	if (channel_open_ops(&caller->channel, &k->channels, fd, &plug_in->io, caller->tls) < 0)
		keeper_fail("a keeper's call", -ENOMEM);
	(void)uv_timer_init(&k->loop, &caller->timer);
	(void)uv_timer_start(&caller->timer, on_silence, MSEC_ATTACH, 0);
	n_callers++;
}

static void on_call(uv_poll_t *poll, int status, int events)
{
	struct keeper *k = poll->data;
	int fd;

	(void)status;
	(void)events;
	while (n_callers < N_CALLERS_MAX &&
	       (fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		take_call(k, fd);
	if (n_callers < N_CALLERS_MAX && errno != EAGAIN)
		(void)uv_timer_start(&listener_pause, on_pause_over, MSEC_PAUSE, 0);
	listen_if_room();
}

int keeper_remote_listen(struct keeper *k, int fd)
{
	int r;

	if (k->start->key.len != TLS_SIZE_KEY)
		return -EBADMSG;
	r = load_tls();
	if (r < 0)
		return r;
	listener_fd = fd;
	listener.data = k;
	(void)uv_timer_init(&k->loop, &listener_pause);
	r = uv_poll_init(&k->loop, &listener, fd);
	if (r == 0)
		listen_if_room();
	return r;
}
