/* Sealed memory files: what psid gives to its clients. */
#ifndef PULC_PSID_MEMORY_H
#define PULC_PSID_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * A sparse memfd of this size, mode 0600, sealed against shrinking and growing, with `head`
 * written at its beginning. Returns 0; negative errno.
 */
int psid_memory_new(const char *name, uint64_t size, const void *head, size_t len_head,
		    int *ret_fd);
/*
 * Is fd, which anybody may have sent, such memory, open for writing? Its inode's owner, its mode
 * and its seals decide; it is asked for nothing that could block before it is known to be memory.
 * Returns 0 with its inode number and size; -EBADMSG.
 */
int psid_memory_check(int fd, uint64_t *ret_ino, uint64_t *ret_size);
/* Is it memory at all? */
bool psid_memory_is(int fd);
/* Another descriptor of it that cannot be mapped for writing. */
int psid_memory_readonly(int fd, int *ret_fd);
/* Allocates pages of a mapping of it now. Returns 0; negative errno: there are none. */
int psid_memory_allocate(void *at, uint64_t size);
/* What is to be written, and where in a mapping of it. */
struct psid_piece {
	char *at;
	const void *buf;
	size_t len;
};
#define PSID_N_PIECES_MAX 4u
/* Writes them all. Returns 0; negative errno: there are no pages. */
int psid_memory_write(const struct psid_piece *pieces, unsigned n);
/* Gives pages back; they read as zeroes. Waits for the file's lock. */
void psid_memory_release(int fd, uint64_t at, uint64_t size);
/* Copies out without mapping anything. Returns 0; negative errno. */
int psid_memory_read(int fd, uint64_t at, void *buf, size_t len);

/* A mapping of memory that is there as long as it is among those used last. All zero: not there. */
struct psid_window {
	TAILQ_ENTRY(psid_window) link;
	char *map;
	uint64_t size;
};
/* Maps all of it, if it is not. NULL: there is no room. Valid until the next one is opened. */
char *psid_window_open(struct psid_window *window, int fd, uint64_t size);
void psid_window_close(struct psid_window *window);

#endif
