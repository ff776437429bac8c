/*
 * Memory that psid makes and others map.
 *
 * A memfd has no name to leave behind, its seals keep every holder from making a peer's mapping
 * fault, and its mode keeps another user from opening its read-only descriptor for writing
 * through /proc. psid itself hardly maps any of it: it writes and reads with system calls, which
 * fail politely where a mapping would kill.
 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "descriptors.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

int psid_memory_new(const char *name, uint64_t size, const void *head, size_t len_head, int *ret_fd)
{
	CLEANUP_FD int fd = memfd(name);
	int r;

	if (fd < 0)
		return fd;
	if (psid_descriptor_is_reserve(fd))
		return -EMFILE;
	if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	r = psid_memory_write(fd, 0, head, len_head);
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool psid_memory_is(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0; /* nothing else has any */
}

int psid_memory_check(int fd, uint64_t *ret_ino, uint64_t *ret_size)
{
	const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (!psid_memory_is(fd) || (seals & wanted) != wanted || (seals & F_SEAL_WRITE))
		return -EBADMSG;
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 07777) != 0600 ||
	    !S_ISREG(st.st_mode) || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return -EBADMSG;
	*ret_ino = st.st_ino;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int psid_memory_readonly(int fd, int *ret_fd)
{
	char path[32];
	int again;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	if (again < 0)
		return -errno;
	*ret_fd = again;
	return 0;
}

int psid_memory_reserve(int fd, uint64_t at, uint64_t size)
{
	int r;

	do
		r = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)size) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r;
}

void psid_memory_release(int fd, uint64_t at, uint64_t size)
{
	int r;

	do
		r = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			      (off_t)size);
	while (r < 0 && errno == EINTR);
}

int psid_memory_write(int fd, uint64_t at, const void *buf, size_t len)
{
	ssize_t n = pwrite(fd, buf, len, (off_t)at);

	return n < 0 ? -errno : (size_t)n < len ? -ENOSPC : 0;
}

int psid_memory_read(int fd, uint64_t at, void *buf, size_t len)
{
	ssize_t n = pread(fd, buf, len, (off_t)at);

	return n < 0 ? -errno : (size_t)n < len ? -ENODATA : 0;
}
