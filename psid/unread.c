/*
 * Messages that nobody has read stay in the kernel for as long as anybody has the socket that they
 * lie in, whatever becomes of its client and of our end; the kernel counts them as ours. A user who
 * has clients come, ask, and go, and keeps their sockets, would have as much of our memory as he
 * has descriptors. So our end stays open until they are read or thrown away, on his account. The
 * kernel does not tell when that is: we look once a second.
 *
 * What has come by such a channel and was not read by us is: descriptors may have come with it.
 */
#include "unread.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "channel.h"
#include "macros.h"
#include "psid.h"
#include "user.h"

#define MSEC_LOOK 1000

struct unread {
	struct psid_deadline look;
	struct psid_user *user;
	int fd;
};

static bool is_read(int fd)
{
	int size = 0;

	return ioctl(fd, SIOCOUTQ, &size) < 0 || size == 0;
}

static void close_channel(struct psid_user *user, int fd)
{
	psid_close_promised(user->psid, user, fd, NULL, NULL);
	user->n_sockets--;
	psid_user_give_descriptors(user, 1);
}

static void unread_free(struct unread *unread)
{
	close_channel(unread->user, unread->fd);
	(void)psid_user_unref(unread->user);
	free(unread);
}

static void on_look(struct psid_deadline *look)
{
	struct unread *unread = CONTAINER_OF(look, struct unread, look);

	if (is_read(unread->fd))
		unread_free(unread);
	else
		psid_deadline_set(&unread->user->psid->unread, look);
}

/* No more will come. */
static void take_what_came(struct psid_user *user, int fd)
{
	static uint8_t buf[WIRE_SIZE_MAX];
	int fds[WIRE_FDS_MAX], r = 0;
	size_t len, n_fds;

	while (r == 0 && psid_closer_is_ready(&user->psid->closer)) {
		r = wire_recv_hostile(fd, buf, &len, fds, &n_fds);
		while (n_fds > 0)
			psid_close_foreign(user->psid, user, fds[--n_fds], NULL, NULL);
	}
}

void psid_unread_end(struct psid_user *user, int fd)
{
	struct unread *unread = is_read(fd) || user->psid->stopping ? NULL
								    : malloc(sizeof(*unread));

	if (!unread) {
		close_channel(user, fd);
		return;
	}
	(void)shutdown(fd, SHUT_RDWR);
	take_what_came(user, fd);
	*unread = (struct unread){ .user = psid_user_ref(user), .fd = fd };
	psid_deadline_set(&user->psid->unread, &unread->look);
}

void psid_unread_start(struct psid *psid)
{
	psid_deadlines_init(&psid->unread, &psid->loop, MSEC_LOOK, on_look);
}

void psid_unread_close(struct psid *psid)
{
	struct psid_deadline *look;

	while ((look = TAILQ_FIRST(&psid->unread.queue))) {
		psid_deadline_clear(&psid->unread, look);
		unread_free(CONTAINER_OF(look, struct unread, look));
	}
}
