/*
 * The kernel's own listing of an epoll set (/proc/self/fdinfo).
 *
 * It tells what the kernel tells nobody otherwise: whether a one-shot member is armed, and whether
 * another member has the same data. A line for each member: the number that it was added under,
 * what it is asked for, its data, and the file's inode. It is long to read, and is only read where
 * something has proved doubtful.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "epoll_set.h"
#include "rawsys.h"

#define SIZE_LISTING 4096 /* bytes of it looked through at a time; a line has some eighty */

/* Counts in whole lines. */
static int count_in(char *text, const char *wanted, int key, struct pre_listed *ret_last)
{
	struct pre_listed listed;
	char *found, *line;
	int n = 0;

	for (; (found = strstr(text, wanted)) != NULL; text = found + strlen(wanted)) {
		line = memrchr(text, '\n', (size_t)(found - text));
		if (sscanf(line ? line + 1 : text, "tfd: %d events: %x", &listed.fd,
			   &listed.events) != 2 ||
		    (key >= 0 && listed.fd != key))
			continue;
		*ret_last = listed;
		n++;
	}
	return n;
}

static int count_lines(long listing, const char *wanted, int key, struct pre_listed *ret_last)
{
	char text[SIZE_LISTING + 1], *rest;
	size_t len = 0;
	int found = 0;
	long n;

	while ((n = raw_syscall(SYS_read, listing, text + len, SIZE_LISTING - len)) > 0) {
		len += (size_t)n;
		rest = memrchr(text, '\n', len);
		if (!rest)
			continue;
		*rest++ = '\0';
		found += count_in(text, wanted, key, ret_last);
		/* The next piece goes on with the last line of this one. */
		len -= (size_t)(rest - text);
		memmove(text, rest, len);
	}
	return found;
}

int pre_set_listed(const struct pre_set *set, const char *wanted, int key,
		   struct pre_listed *ret_last)
{
	char path[64];
	int found;
	long fd;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set->epfd);
	fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	found = count_lines(fd, wanted, key, ret_last);
	(void)raw_syscall(SYS_close, fd);
	return found;
}
