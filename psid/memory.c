/*
 * Memory that psid makes and others map.
 *
 * A memfd has no name to leave behind, its seals keep every holder from making a peer's mapping
 * fault, and its mode keeps another user from opening its read-only descriptor for writing
 * through /proc.
 *
 * Writing to a file, allocating and freeing in it take the lock of its inode, and whoever has it
 * open for writing can hold that for as long as he likes: he writes from a page that does not come.
 * Faults in a mapping take no such lock, nor does reading. So once others have the memory psid
 * allocates and writes through a mapping of its own, by system calls, which fail politely where a
 * store would kill. What must take the lock, giving pages back, a helper does (closer.c). A fault
 * waits for somebody who is freeing just that page, which lasts as long as there are pages to free.
 *
 * To map and unmap costs more than what is done there, and mappings of all that there is would cost
 * page tables: those used last are kept.
 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cleanup.h"
#include "descriptors.h"

#define N_WINDOWS 16u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
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
	ssize_t n;

	if (fd < 0)
		return fd;
	if (psid_descriptor_is_reserve(fd))
		return -EMFILE;
	if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	n = pwrite(fd, head, len_head, 0);
	if (n < 0 || (size_t)n < len_head)
		return n < 0 ? -errno : -ENOSPC;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool psid_memory_is(int fd)
{
	/* Files of tmpfs and hugetlbfs have some, too: memory, behind which nobody stands. */
	return fcntl(fd, F_GET_SEALS) >= 0;
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

int psid_memory_allocate(void *at, uint64_t size)
{
	int r;

	do
		r = madvise(at, size, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r;
}

int psid_memory_write(const struct psid_piece *pieces, unsigned n)
{
	struct iovec from[PSID_N_PIECES_MAX], to[PSID_N_PIECES_MAX];
	size_t len = 0;
	ssize_t written;

	for (unsigned i = 0; i < n; i++) {
		from[i] = (struct iovec){ (void *)pieces[i].buf, pieces[i].len };
		to[i] = (struct iovec){ pieces[i].at, pieces[i].len };
		len += pieces[i].len;
	}
	written = process_vm_writev(getpid(), from, n, to, n, 0);
	return written < 0 ? -errno : (size_t)written < len ? -ENOMEM : 0;
}

void psid_memory_release(int fd, uint64_t at, uint64_t size)
{
	int r;

	do
		r = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			      (off_t)size);
	while (r < 0 && errno == EINTR);
}

int psid_memory_read(int fd, uint64_t at, void *buf, size_t len)
{
	ssize_t n = pread(fd, buf, len, (off_t)at);

	return n < 0 ? -errno : (size_t)n < len ? -ENODATA : 0;
}

/* ---- windows --------------------------------------------------------------------------------- */

static TAILQ_HEAD(, psid_window) windows = TAILQ_HEAD_INITIALIZER(windows); /* used last: last */
static unsigned n_windows;

void psid_window_close(struct psid_window *window)
{
	if (!window->map)
		return;
	(void)munmap(window->map, window->size);
	window->map = NULL;
	TAILQ_REMOVE(&windows, window, link);
	n_windows--;
}

static char *open_window(struct psid_window *window, int fd, uint64_t size)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return NULL;
	if (n_windows >= N_WINDOWS)
		psid_window_close(TAILQ_FIRST(&windows));
	window->map = map;
	window->size = size;
	TAILQ_INSERT_TAIL(&windows, window, link);
	n_windows++;
	return map;
}

char *psid_window_open(struct psid_window *window, int fd, uint64_t size)
{
	if (!window->map)
		return open_window(window, fd, size);
	TAILQ_REMOVE(&windows, window, link);
	TAILQ_INSERT_TAIL(&windows, window, link);
	return window->map;
}
