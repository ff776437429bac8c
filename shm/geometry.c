/*
 * Where things lie in a slab: the sizes that its header states, and whether they fit each other and
 * the file. psid writes the header before anybody maps the slab, but its owner can write it later;
 * so whoever uses it copies it first and checks the copy.
 */
#include "geometry.h"

#include <errno.h>

#include "macros.h"

uint64_t shm_slot_ring_offset(const uint32_t size_ring[SHM_N_RINGS], uint32_t r)
{
	uint64_t at = SHM_PAGE;

	for (uint32_t i = 0; i < r; i++)
		at += ALIGN_UP((uint64_t)size_ring[i], SHM_PAGE);
	return at;
}

uint64_t shm_slot_size(const uint32_t size_ring[SHM_N_RINGS])
{
	return shm_slot_ring_offset(size_ring, SHM_N_RINGS);
}

uint64_t shm_slot_at(uint64_t size_slot, uint32_t slot)
{
	return SHM_SIZE_HEADER + slot * size_slot;
}

int shm_slab_check(const struct shm_geometry *header, uint64_t size)
{
	uint64_t size_slot;

	if (header->magic != SHM_MAGIC_SLAB || header->version != SHM_VERSION ||
	    header->size != size || size < SHM_SIZE_HEADER)
		return -EBADMSG;
	for (unsigned i = 0; i < SHM_N_RINGS; i++)
		if (!is_power_of_two(header->size_ring[i]) ||
		    header->size_ring[i] < SHM_RING_SIZE_MIN ||
		    header->size_ring[i] > SHM_RING_SIZE_MAX)
			return -EBADMSG;
	size_slot = shm_slot_size(header->size_ring);
	if (header->n_slots == 0 || header->n_slots > SHM_SLOTS_MAX ||
	    header->size_slot != size_slot || shm_slot_at(size_slot, header->n_slots) > size)
		return -EBADMSG;
	return 0;
}
