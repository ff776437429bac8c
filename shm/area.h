/* Message areas: memory that one process writes and others of its user read where it lies. */
#ifndef PULC_SHM_AREA_H
#define PULC_SHM_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shm_area {
	unsigned char *at; /* NULL: none */
	uint64_t size;
};

/* Maps the memfd; size is what psid said. Returns 0; -EBADMSG: the file is of another size; other
 * negative errno. */
int shm_area_map(int fd, uint64_t size, bool writable, struct shm_area *ret_area);
void shm_area_unmap(struct shm_area *area);
/* From now on it can only be read. */
void shm_area_only_read(const struct shm_area *area);
/* NULL: those bytes are not in it. */
static inline unsigned char *shm_area_bytes(const struct shm_area *area, uint64_t offset,
					    uint64_t size)
{
	if (!area->at || size > area->size || offset > area->size - size)
		return NULL;
	return area->at + offset;
}
/* Allocates the pages. 0; -ENOMEM. */
int shm_area_allocate(const struct shm_area *area, uint64_t offset, uint64_t size);
/* Gives them back: they read as zeroes. */
void shm_area_release(const struct shm_area *area, uint64_t offset, uint64_t size);

#endif
