/*
 * A slab without psid, for programs that try out what lies above it: the same header, and in each
 * slot the first control words that psid writes there before it hands the slot out.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "geometry.h"
#include "slab.h"

static void begin_slot(struct shm_slab *slab, uint32_t slot)
{
	uint64_t at = shm_slot_at(slab->geometry.size_slot, slot);
	struct shm_side *side = (struct shm_side *)((char *)slab + at);

	for (unsigned i = 1; i < SHM_N_RINGS; i++)
		side->ring_at[i] = SHM_NOT_BEGUN;
	side->inline_at = SHM_NO_INLINE;
	side->rcvlowat = 1;
	slab->n_holders[slot] = 1;
}

int shm_slab_new(const uint32_t size_ring[SHM_N_RINGS], uint32_t n_slots, uint64_t *ret_size)
{
	uint64_t size = shm_slot_at(shm_slot_size(size_ring), n_slots);
	int fd = memfd_create("pulc-slab", MFD_CLOEXEC | MFD_ALLOW_SEALING), e;
	struct shm_slab *slab = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		slab = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (slab == MAP_FAILED) {
		e = -errno;
		if (fd >= 0)
			(void)close(fd);
		return e;
	}
	slab->geometry = (struct shm_geometry){
		.magic = SHM_MAGIC_SLAB,
		.version = SHM_VERSION,
		.n_slots = n_slots,
		.size = size,
		.size_slot = shm_slot_size(size_ring),
	};
	memcpy(slab->geometry.size_ring, size_ring, sizeof(slab->geometry.size_ring));
	for (uint32_t i = 0; i < n_slots; i++)
		begin_slot(slab, i);
	(void)munmap(slab, size);
	*ret_size = size;
	return fd;
}
