/* Mappings of large files that are mostly holes. */
#ifndef PULC_SHM_SPARSE_H
#define PULC_SHM_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

/* Maps the first `size` bytes of a file, shared. Returns 0 or a negative errno. */
int shm_sparse_map(int fd, uint64_t size, bool writable, void **ret_at);
void shm_sparse_unmap(void *at, uint64_t size);

#endif
