/*
 * The keys of a cluster as a file with a line for each: a mark that says what it is, and the key in
 * hexadecimal digits, so that it survives being mailed, pasted and kept in a configuration system.
 *
 * It is worth what the cluster is worth. It is made readable for its owner only, and refused when
 * it is not: a key that everybody on the node could have read is no key. A file is replaced as a
 * whole, for a psid may read it at any moment.
 */
#include "key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"

static const char mark[] = "PULC-KEY-1:";

#define SIZE_MARK (sizeof(mark) - 1)
#define SIZE_LINE (SIZE_MARK + 2 * WIRE_SIZE_KEY)
#define SIZE_FILE_MAX 4096u

/* ---- writing --------------------------------------------------------------------------------- */

int wire_key_draw(uint8_t ret_key[WIRE_SIZE_KEY])
{
	return getrandom(ret_key, WIRE_SIZE_KEY, 0) == (ssize_t)WIRE_SIZE_KEY ? 0 : -EIO;
}

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

static int write_keys(int fd, const struct wire_keys *keys)
{
	char text[WIRE_N_KEYS * (SIZE_LINE + 1)];
	ssize_t len = 0;
	int r = 0;

	for (size_t i = 0; i < keys->n; i++, len += SIZE_LINE + 1)
		print_key(keys->keys[i], text + len);
	if (write(fd, text, (size_t)len) != len)
		r = -EIO;
	else if (fsync(fd) < 0)
		r = -errno;
	explicit_bzero(text, sizeof(text));
	return r;
}

int wire_key_make(const char *path)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct wire_keys keys = { .n = 1 };
	int r;

	if (fd < 0)
		return -errno;
	r = wire_key_draw(keys.keys[0]);
	if (r == 0)
		r = write_keys(fd, &keys);
	if (r < 0)
		(void)unlink(path);
	explicit_bzero(&keys, sizeof(keys));
	return r;
}

/* So that the new name, too, is there after the machine has crashed. */
static void sync_folder(char *path)
{
	CLEANUP_FD int fd = -EBADF;

	*strrchr(path, '/') = '\0';
	fd = open(path[0] ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)fsync(fd);
}

int wire_keys_write(const char *path, const struct wire_keys *keys)
{
	char real[PATH_MAX], fresh[PATH_MAX + 8];
	CLEANUP_FD int fd = -EBADF;
	int r;

	if (!realpath(path, real)) /* a link to it stays one */
		return -errno;
	(void)snprintf(fresh, sizeof(fresh), "%s.XXXXXX", real);
	fd = mkostemp(fresh, O_CLOEXEC); /* mode 0600 */
	if (fd < 0)
		return -errno;
	r = write_keys(fd, keys);
	if (r == 0 && rename(fresh, real) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(fresh);
	else
		sync_folder(real);
	return r;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Returns -1 if it is none. */
static int value_of(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	return -1;
}

static bool parse_key(const char *line, size_t len, uint8_t ret_key[WIRE_SIZE_KEY])
{
	if (len != SIZE_LINE || memcmp(line, mark, SIZE_MARK) != 0)
		return false;
	for (size_t i = 0; i < WIRE_SIZE_KEY; i++) {
		int high = value_of(line[SIZE_MARK + 2 * i]);
		int low = value_of(line[SIZE_MARK + 2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret_key[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool has_key(const struct wire_keys *keys, const uint8_t key[WIRE_SIZE_KEY])
{
	for (size_t i = 0; i < keys->n; i++)
		if (memcmp(keys->keys[i], key, WIRE_SIZE_KEY) == 0)
			return true;
	return false;
}

/* Empty lines mean nothing, and a key that is there twice is there. Returns what is wrong, or
 * NULL. */
static const char *parse_line(const char *line, size_t len, struct wire_keys *keys)
{
	uint8_t key[WIRE_SIZE_KEY];

	while (len > 0 && memchr(" \t\r", line[len - 1], 3))
		len--;
	if (len == 0)
		return NULL;
	if (!parse_key(line, len, key))
		return "no key of a cluster: `pulcctl keygen` makes one";
	if (has_key(keys, key))
		return NULL;
	if (keys->n == WIRE_N_KEYS)
		return "more than four keys: `pulcctl keygen --drop-old` drops all but the first";
	memcpy(keys->keys[keys->n++], key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	return NULL;
}

static int parse(const char *path, const char *text, size_t len, struct wire_keys *keys, char *why,
		 size_t size)
{
	const char *wrong = NULL, *end = text + len;
	unsigned number = 0;

	while (text < end && !wrong) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t len_line = (size_t)((newline ? newline : end) - text);

		number++;
		wrong = parse_line(text, len_line, keys);
		text += len_line + 1;
	}
	if (!wrong && keys->n == 0) {
		number = 1;
		wrong = "no key of a cluster: the file is empty";
	}
	if (!wrong)
		return 0;
	(void)snprintf(why, size, "%.120s:%u: %s", path, number, wrong);
	return -EBADMSG;
}

/* Returns how many bytes it has, negative errno. */
static ssize_t read_text(const char *path, char text[SIZE_FILE_MAX])
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)SIZE_FILE_MAX)
		return -EBADMSG;
	if ((st.st_mode & 077) != 0 || (st.st_uid != geteuid() && st.st_uid != 0))
		return -EPERM;
	n = read(fd, text, SIZE_FILE_MAX);
	return n < 0 ? -errno : n;
}

static const char *what_is_wrong(int r)
{
	switch (r) {
	case -EPERM:
		return "others than its owner can read it, or it is neither ours nor root's: chmod "
		       "600";
	case -EBADMSG:
		return "no key of a cluster: `pulcctl keygen` makes one";
	default:
		return strerror(-r);
	}
}

int wire_keys_read(const char *path, struct wire_keys *ret_keys, char *why, size_t size)
{
	struct wire_keys keys = { .n = 0 };
	char text[SIZE_FILE_MAX];
	ssize_t n = read_text(path, text);
	int r;

	if (n < 0) {
		(void)snprintf(why, size, "%.120s: %s", path, what_is_wrong((int)n));
		return (int)n;
	}
	r = parse(path, text, (size_t)n, &keys, why, size);
	if (r == 0)
		*ret_keys = keys;
	explicit_bzero(text, sizeof(text));
	explicit_bzero(&keys, sizeof(keys));
	return r;
}
