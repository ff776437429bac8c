/*
 * libc's own streams, printf to a descriptor, and asynchronous input and output.
 *
 * A FILE moves its bytes inside libc, past the shim. So one made from a TCP socket gets functions
 * of ours to read, write and close with (fopencookie), and its descriptor's number, for fileno().
 * To seek on it fails as on any socket, which libc expects when it turns from reading to writing.
 * dprintf is a write of what it formats. The bytes of aio_read and its like are moved by threads of
 * libc's: such a connection goes back to the kernel first.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "data.h"
#include "file.h"
#include "rawsys.h"
#include "sockets.h"
#include "symbols.h"

/* What stands behind a FILE of ours. The buffer is as large as one that libc would make. */
struct cookie {
	int fd;
	char buf[];
};

static int fd_of(void *cookie)
{
	return ((struct cookie *)cookie)->fd;
}

/* A cookie's functions answer as read and write do. */
static ssize_t answer(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

static ssize_t read_cookie(void *cookie, char *buf, size_t len)
{
	return answer(pre_read(fd_of(cookie), buf, len));
}

/* All of it, as libc's own does, though a handler may have cut a call short: less stands for
 * failure here. */
static ssize_t write_cookie(void *cookie, const char *buf, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = answer(pre_write(fd_of(cookie), buf + done, len - done));
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int seek_cookie(void *cookie, off64_t *offset, int whence)
{
	(void)cookie;
	(void)offset;
	(void)whence;
	errno = ESPIPE;
	return -1;
}

/* No place for a cancelled thread to end at. */
static int close_cookie(void *cookie)
{
	int fd = fd_of(cookie);

	free(cookie); /* libc writes no more */
	return (int)answer(pre_close_for_good(fd));
}

/* As libc's own asks for. */
static size_t buffer_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_blksize > 0 && st.st_blksize < BUFSIZ
		       ? (size_t)st.st_blksize
		       : BUFSIZ;
}

/* As libc's own does for one that only appends. */
static bool set_append(int fd)
{
	long flags = raw_fcntl(fd, F_GETFL, 0);

	return flags >= 0 && ((flags & O_APPEND) || raw_fcntl(fd, F_SETFL, flags | O_APPEND) >= 0);
}

static FILE *open_cookie(int fd, const char *mode)
{
	const cookie_io_functions_t functions = { .read = read_cookie,
						  .write = write_cookie,
						  .seek = seek_cookie,
						  .close = close_cookie };
	size_t size = buffer_size(fd);
	struct cookie *cookie = malloc(sizeof(*cookie) + size);
	FILE *file;

	if (!cookie)
		return NULL;
	cookie->fd = fd;
	file = fopencookie(cookie, mode, functions);
	if (!file) {
		free(cookie);
		return NULL;
	}
	file->_fileno = fd;
	(void)setvbuf(file, cookie->buf, _IOFBF, size);
	return file;
}

FILE *pre_fdopen(int fd, const char *mode)
{
	struct pre_file *f = pre_file_settled(fd);

	if (!f || f == &pre_file_other || f->set || (mode[0] == 'a' && !set_append(fd)))
		return pre_real.fdopen(fd, mode);
	return open_cookie(fd, mode);
}

/* Writes all of text; takes it. */
static int write_text(int fd, char *text, int len)
{
	ssize_t n = 0;
	int done = 0;

	while (done < len) {
		n = pre_write(fd, text + done, (size_t)(len - done));
		if (n < 0)
			break;
		done += (int)n;
	}
	free(text);
	return n < 0 ? (int)n : len;
}

int pre_vdprintf(int fd, const char *format, va_list ap)
{
	char *text;
	int len;

	if (!pre_file_at(fd))
		return (int)pre_sys(pre_real.vdprintf(fd, format, ap));
	len = vasprintf(&text, format, ap);
	return len < 0 ? -ENOMEM : write_text(fd, text, len);
}

int pre___vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	if (!pre_file_at(fd))
		return (int)pre_sys(pre_real.__vdprintf_chk(fd, flag, format, ap));
	return pre_vdprintf(fd, format, ap);
}

static void keep(const struct aiocb *cb)
{
	if (!pre_is_bad(cb, sizeof(*cb)) && pre_file_at(cb->aio_fildes))
		pre_keep_for_others(cb->aio_fildes);
}

int pre_aio_read(struct aiocb *cb)
{
	keep(cb);
	return (int)pre_sys(pre_real.aio_read(cb));
}

int pre_aio_write(struct aiocb *cb)
{
	keep(cb);
	return (int)pre_sys(pre_real.aio_write(cb));
}

int pre_lio_listio(int mode, struct aiocb *const *list, int n, struct sigevent *event)
{
	for (int i = 0; i < n && !pre_is_bad(list, 1); i++)
		keep(list[i]);
	return (int)pre_sys(pre_real.lio_listio(mode, list, n, event));
}
