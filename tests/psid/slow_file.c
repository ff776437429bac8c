/*
 * The least that a server of FUSE does: the root, one file in it, which may be looked up and
 * opened. The kernel tells with each request which thread makes it.
 */
#include "psid/slow_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "harness.h"

#define SIZE_REQUEST 65536
#define NODE_FILE 2u

static struct {
	char dir[64];
	int fuse, stop;
	pid_t served;
	pthread_t thread;
} slow = { .fuse = -1 };

static void answer(uint64_t unique, int error, const void *body, size_t len)
{
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + len),
					.error = error,
					.unique = unique };
	struct iovec iov[] = { { &head, sizeof(head) }, { (void *)body, len } };

	(void)!writev(slow.fuse, iov, 2);
}

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
				   .size = 4096,
				   .nlink = 1,
				   .mode = node == NODE_FILE ? S_IFREG | 0600 : S_IFDIR | 0700 };
}

static void serve(const struct fuse_in_header *request)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = 31,
				      .max_write = 4096 };
	struct fuse_entry_out entry = { .nodeid = NODE_FILE, .attr = attr_of(NODE_FILE) };
	struct fuse_attr_out attr = { .attr = attr_of(request->nodeid) };
	struct fuse_open_out opened = { .fh = 1 };

	switch (request->opcode) {
	case FUSE_INIT:
		answer(request->unique, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		answer(request->unique, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		answer(request->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		answer(request->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_FLUSH:
		answer(request->unique, 0, NULL, 0);
		break;
	default:
		answer(request->unique, -EIO, NULL, 0);
	}
}

static bool is_served(const struct fuse_in_header *request)
{
	return request->opcode == FUSE_INIT || (pid_t)request->pid == slow.served;
}

static void *run(void *arg)
{
	static _Alignas(struct fuse_in_header) char buf[SIZE_REQUEST];
	struct pollfd fds[] = { { .fd = slow.fuse, .events = POLLIN },
				{ .fd = slow.stop, .events = POLLIN } };

	(void)arg;
	while (poll(fds, 2, -1) > 0 && !fds[1].revents) {
		ssize_t n = read(slow.fuse, buf, sizeof(buf));

		if (n >= (ssize_t)sizeof(struct fuse_in_header) && is_served((void *)buf))
			serve((void *)buf);
		else if (n < 0 && errno != EINTR && errno != EAGAIN && errno != ENOENT)
			break;
	}
	return NULL;
}

void slow_file_init(void)
{
	char options[96];

	slow.fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (slow.fuse < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		(void)close(slow.fuse);
		slow.fuse = -1;
		return;
	}
	(void)snprintf(slow.dir, sizeof(slow.dir), "/tmp/pulc-slow-file.XXXXXX");
	REQUIRE(mkdtemp(slow.dir) != NULL);
	(void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0",
		       slow.fuse);
	REQUIRE(mount("slow", slow.dir, "fuse", MS_NOSUID | MS_NODEV, options) == 0);
	slow.stop = eventfd(0, EFD_CLOEXEC);
	slow.served = getpid();
	REQUIRE(pthread_create(&slow.thread, NULL, run, NULL) == 0);
}

int slow_file_open(void)
{
	char path[96];
	int fd;

	if (slow.fuse < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/file", slow.dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	REQUIRE(fd >= 0);
	return fd;
}

void slow_file_deinit(void)
{
	if (slow.fuse < 0)
		return;
	(void)eventfd_write(slow.stop, 1);
	(void)pthread_join(slow.thread, NULL);
	(void)close(slow.fuse);
	(void)close(slow.stop);
	(void)umount2(slow.dir, MNT_DETACH);
	(void)rmdir(slow.dir);
}
