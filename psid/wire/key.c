/*
 * The key of a cluster as a file of one line: a mark that says what it is, and the key in
 * hexadecimal digits, so that it survives being mailed, pasted and kept in a configuration system.
 *
 * It is worth what the cluster is worth. It is made readable for its owner only, and refused when it
 * is not: a key that everybody on the node could have read is no key.
 */
#include "key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"

static const char mark[] = "PULC-KEY-1:";

#define SIZE_MARK (sizeof(mark) - 1)
#define SIZE_LINE (SIZE_MARK + 2 * WIRE_SIZE_KEY)

static void print_key(const uint8_t key[WIRE_SIZE_KEY], char line[SIZE_LINE + 1])
{
	static const char digits[] = "0123456789abcdef";
	char *at = line + SIZE_MARK;

	memcpy(line, mark, SIZE_MARK);
	for (size_t i = 0; i < WIRE_SIZE_KEY; i++) {
		*at++ = digits[key[i] >> 4];
		*at++ = digits[key[i] & 15];
	}
	*at = '\n';
}

/* Returns -1 if it is none. */
static int value_of(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	return -1;
}

static int parse_key(const char *line, uint8_t ret_key[WIRE_SIZE_KEY])
{
	uint8_t key[WIRE_SIZE_KEY];

	if (memcmp(line, mark, SIZE_MARK) != 0)
		return -EBADMSG;
	for (size_t i = 0; i < WIRE_SIZE_KEY; i++) {
		int high = value_of(line[SIZE_MARK + 2 * i]);
		int low = value_of(line[SIZE_MARK + 2 * i + 1]);

		if (high < 0 || low < 0)
			return -EBADMSG;
		key[i] = (uint8_t)(high << 4 | low);
	}
	memcpy(ret_key, key, sizeof(key));
	return 0;
}

int wire_key_make(const char *path)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	uint8_t key[WIRE_SIZE_KEY];
	char line[SIZE_LINE + 1];
	int r = 0;

	if (fd < 0)
		return -errno;
	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		r = -EIO;
	print_key(key, line);
	if (r == 0 && write(fd, line, sizeof(line)) != sizeof(line))
		r = -EIO;
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(path);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(line, sizeof(line));
	return r;
}

int wire_key_read(const char *path, uint8_t ret_key[WIRE_SIZE_KEY])
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char line[SIZE_LINE];
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	if ((st.st_mode & 077) != 0 || (st.st_uid != geteuid() && st.st_uid != 0))
		return -EPERM;
	if (read(fd, line, sizeof(line)) != sizeof(line))
		return -EBADMSG;
	r = parse_key(line, ret_key);
	explicit_bzero(line, sizeof(line));
	return r;
}
