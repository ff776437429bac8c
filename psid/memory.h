/* Sealed memory files: what psid gives to its clients. */
#ifndef PULC_PSID_MEMORY_H
#define PULC_PSID_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* Allocates pages now. Returns 0; -ENOMEM, -ENOSPC: there are none. */
int psid_memory_reserve(int fd, uint64_t at, uint64_t size);
/* Gives pages back; the range reads as zeroes. */
void psid_memory_release(int fd, uint64_t at, uint64_t size);
/* Copies in and out without mapping anything. Return 0; negative errno. */
int psid_memory_write(int fd, uint64_t at, const void *buf, size_t len);
int psid_memory_read(int fd, uint64_t at, void *buf, size_t len);

#endif
