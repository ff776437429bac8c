/*
 * The file of the book: a mark, then each record after its length (four bytes, the lowest first),
 * then a sum over all of it. It is written beside the old one, which it replaces when it is on the
 * disk: a node that dies at any moment finds either when it comes back. What it may have missed
 * meanwhile the others tell it (partitions.c).
 */
#include "book_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"

static const char mark[8] = "PULCpar1";

static void put_number(uint8_t *bytes, uint64_t n, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		bytes[i] = (uint8_t)(n >> (8 * i));
}

static uint64_t get_number(const uint8_t *bytes, unsigned size)
{
	uint64_t n = 0;

	for (unsigned i = size; i-- > 0;)
		n = n << 8 | bytes[i];
	return n;
}

static uint64_t sum_of(const uint8_t *bytes, size_t len)
{
	uint64_t sum = 14695981039346656037u;

	while (len-- > 0)
		sum = (sum ^ *bytes++) * 1099511628211u;
	return sum;
}

int psid_book_pack(const struct psid_book *book, uint8_t **ret_bytes, size_t *ret_len)
{
	size_t len = sizeof(mark) + 8;
	uint8_t *bytes, *p;

	for (size_t i = 0; i < book->n; i++)
		len += 4 + pulc__peer__partition_record__get_packed_size(book->items[i]->record);
	bytes = malloc(len);
	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, mark, sizeof(mark));
	p = bytes + sizeof(mark);
	for (size_t i = 0; i < book->n; i++) {
		size_t n = pulc__peer__partition_record__pack(book->items[i]->record, p + 4);

		put_number(p, n, 4);
		p += 4 + n;
	}
	put_number(p, sum_of(bytes, len - 8), 8);
	*ret_bytes = bytes;
	*ret_len = len;
	return 0;
}

int psid_book_unpack(struct psid_book *book, const uint8_t *bytes, size_t len)
{
	const uint8_t *p = bytes + sizeof(mark), *end = bytes + len - 8;

	if (len < sizeof(mark) + 8 || memcmp(bytes, mark, sizeof(mark)) != 0 ||
	    get_number(end, 8) != sum_of(bytes, len - 8))
		return -EBADMSG;
	while (end - p > 4) {
		size_t n = get_number(p, 4);
		Pulc__Peer__PartitionRecord *record;
		int r;

		if (n > (size_t)(end - p - 4))
			return -EBADMSG;
		record = pulc__peer__partition_record__unpack(NULL, n, p + 4);
		if (!record)
			return -EBADMSG;
		r = psid_book_take(book, record);
		pulc__peer__partition_record__free_unpacked(record, NULL);
		if (r < 0)
			return r;
		p += 4 + n;
	}
	return p == end ? 0 : -EBADMSG;
}

static int write_all(int fd, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		bytes += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

int psid_book_write(const char *path, const uint8_t *bytes, size_t len)
{
	char beside[256], folder[256];
	CLEANUP_FD int fd = -EBADF;
	int r;

	if ((size_t)snprintf(beside, sizeof(beside), "%s.new", path) >= sizeof(beside))
		return -ENAMETOOLONG;
	(void)snprintf(folder, sizeof(folder), "%s", path);
	(void)mkdir(dirname(folder), 0700);
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, bytes, len);
	if (r == 0 && rename(beside, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(beside);
	return r;
}

int psid_book_read(struct psid_book *book, const char *path)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	CLEANUP_FREE uint8_t *bytes = NULL;
	size_t len = 0;
	struct stat st;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)PSID_SIZE_BOOK)
		return -EBADMSG;
	bytes = malloc((size_t)st.st_size + 1);
	while (bytes && len < (size_t)st.st_size &&
	       (n = read(fd, bytes + len, (size_t)st.st_size - len)) > 0)
		len += (size_t)n;
	if (!bytes)
		return -ENOMEM;
	return n < 0 ? -errno : psid_book_unpack(book, bytes, len);
}
