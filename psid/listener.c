/*
 * One psid at one socket: a lock file beside it, held as long as psid lives and released by the
 * kernel however it ends, says whose it is; so a socket file found under the lock is a dead one's
 * and is replaced. A socket that the service manager gives us stays its own.
 *
 * When accept fails for want of descriptors or memory the backlog would be reported as ready for
 * ever; psid then does not look at it for a while. Clients don't notice: they go on with the
 * kernel.
 */
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cleanup.h"
#include "client.h"
#include "descriptors.h"
#include "log.h"
#include "macros.h"
#include "paths.h"
#include "psid.h"
#include "service.h"

#define N_BACKLOG 1024
#define N_ACCEPT_TURN 128
#define MSEC_PAUSE 200

static void on_knock(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
	struct psid *psid = CONTAINER_OF(timer, struct psid, listen_pause);

	(void)uv_poll_start(&psid->listen_poll, UV_READABLE, on_knock);
}

static void pause_listening(struct psid *psid, int e)
{
	static uint64_t msec_logged;

	if (msec_logged == 0 || uv_now(&psid->loop) - msec_logged > 60000)
		psid_log(PSID_WARNING, "can't accept clients: %s", strerror(e));
	msec_logged = uv_now(&psid->loop);
	(void)uv_poll_stop(&psid->listen_poll);
	(void)uv_timer_start(&psid->listen_pause, on_pause_over, MSEC_PAUSE, 0);
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
	struct psid *psid = CONTAINER_OF(poll, struct psid, listen_poll);

	(void)status;
	(void)events;
	for (int i = 0; i < N_ACCEPT_TURN; i++) {
		int fd, e;

		if (!psid_descriptors_admit(psid->listen_fd)) {
			pause_listening(psid, EMFILE);
			return;
		}
		if (!psid_closer_is_ready(&psid->closer)) {
			pause_listening(psid, ENOMEM);
			return;
		}
		fd = accept4(psid->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			psid_client_new(psid, fd);
			continue;
		}
		e = errno;
		if (psid_is_shortage(e))
			pause_listening(psid, e);
		if (e != ECONNABORTED && e != EINTR)
			return;
	}
}

/* Returns 0; -EAGAIN: its last holder removed it meanwhile; negative errno. */
static int try_lock(const char *path, int *ret_fd)
{
	CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return -EAGAIN;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static void lock_path(const struct psid_config *config, char path[PSID_SIZE_PATH + 8])
{
	(void)snprintf(path, PSID_SIZE_PATH + 8, "%s.lock", config->socket);
}

static int take_lock(struct psid *psid)
{
	char path[PSID_SIZE_PATH + 8];
	int r;

	lock_path(psid->config, path);
	do
		r = try_lock(path, &psid->lock_fd);
	while (r == -EAGAIN);
	if (r < 0 && r != -EBUSY)
		psid_log(PSID_ERROR, "%s: %s", path, strerror(-r));
	return r;
}

/*
 * The socket that systemd has made and keeps, psid.socket's: clients that knock while no psid is
 * there wait in it. Returns 1; 0: we have been given none; negative errno.
 */
static int adopt(const struct psid_config *config, int *ret_fd)
{
	int fd, r = psid_service_socket(config->socket, &fd);

	if (r <= 0)
		return r;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*ret_fd = fd;
	return 1;
}

static int bind_to(const struct psid_config *config, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	memcpy(address.sun_path, config->socket, strlen(config->socket) + 1);
	(void)unlink(config->socket);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    chmod(config->socket, config->system ? 0666 : 0600) < 0 || listen(fd, N_BACKLOG) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int psid_listener_open(struct psid *psid)
{
	const struct psid_config *config = psid->config;
	size_t len = strlen(config->runtime_dir);
	int r = 0;

	if (strncmp(config->socket, config->runtime_dir, len) == 0 && config->socket[len] == '/')
		r = wire_runtime_dir_make(config->runtime_dir, config->system);
	if (r < 0) {
		psid_log(PSID_ERROR, "run directory %s: %s", config->runtime_dir,
			 r == -EPERM ? "it must be ours, and nobody else's to write to"
				     : strerror(-r));
		return r;
	}
	r = take_lock(psid);
	if (r < 0)
		return r;
	r = adopt(config, &psid->listen_fd);
	psid->listen_given = r > 0;
	if (r == 0)
		r = bind_to(config, &psid->listen_fd);
	if (r < 0)
		psid_log(PSID_ERROR, "%s: %s", config->socket,
			 r == -EPROTOTYPE ? "the service manager has given us another socket"
					  : strerror(-r));
	return MIN(r, 0);
}

int psid_listener_start(struct psid *psid)
{
	int r = uv_timer_init(&psid->loop, &psid->listen_pause);

	if (r == 0)
		r = uv_poll_init(&psid->loop, &psid->listen_poll, psid->listen_fd);
	if (r == 0)
		r = uv_poll_start(&psid->listen_poll, UV_READABLE, on_knock);
	return r;
}

void psid_listener_drop(struct psid *psid)
{
	char path[PSID_SIZE_PATH + 8];

	if (psid->lock_fd < 0)
		return;
	if (psid->listen_fd >= 0 && !psid->listen_given)
		(void)unlink(psid->config->socket);
	psid->listen_fd = close_own(psid->listen_fd);
	lock_path(psid->config, path);
	(void)unlink(path); /* under the lock: nobody else's */
	psid->lock_fd = close_own(psid->lock_fd);
}

void psid_listener_stop(struct psid *psid)
{
	uv_close((uv_handle_t *)&psid->listen_pause, NULL);
	uv_close((uv_handle_t *)&psid->listen_poll, NULL);
	psid_listener_drop(psid);
}
