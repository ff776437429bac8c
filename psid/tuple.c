/*
 * Tuples name connections: local and remote address and port. Two sockets are the ends of one
 * connection of this network namespace when their tuples mirror each other, whatever their
 * families: an IPv6 socket talking IPv4 has v4-mapped addresses, and we write all IPv4 that way.
 */
#include "tuple.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "map.h"

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

static_assert(sizeof(struct psid_tuple) == 36, "compared as memory");

int psid_tuple_read(const Pulc__Wire__Tuple *wire, struct psid_tuple *ret_tuple)
{
	struct psid_tuple tuple;

	if (!wire || wire->local_addr.len != sizeof(tuple.local) ||
	    wire->remote_addr.len != sizeof(tuple.remote) || wire->local_port == 0 ||
	    wire->local_port > UINT16_MAX || wire->remote_port == 0 ||
	    wire->remote_port > UINT16_MAX)
		return -EBADMSG;
	memcpy(tuple.local, wire->local_addr.data, sizeof(tuple.local));
	memcpy(tuple.remote, wire->remote_addr.data, sizeof(tuple.remote));
	tuple.local_port = (uint16_t)wire->local_port;
	tuple.remote_port = (uint16_t)wire->remote_port;
	*ret_tuple = tuple;
	return 0;
}

void psid_tuple_write(const struct psid_tuple *tuple, Pulc__Wire__Tuple *wire)
{
	pulc__wire__tuple__init(wire);
	wire->local_addr.data = (uint8_t *)tuple->local;
	wire->local_addr.len = sizeof(tuple->local);
	wire->local_port = tuple->local_port;
	wire->remote_addr.data = (uint8_t *)tuple->remote;
	wire->remote_addr.len = sizeof(tuple->remote);
	wire->remote_port = tuple->remote_port;
}

struct psid_tuple psid_tuple_mirror(const struct psid_tuple *tuple)
{
	struct psid_tuple mirror = { .local_port = tuple->remote_port,
				     .remote_port = tuple->local_port };

	memcpy(mirror.local, tuple->remote, sizeof(mirror.local));
	memcpy(mirror.remote, tuple->local, sizeof(mirror.remote));
	return mirror;
}

bool psid_tuple_equal(const struct psid_tuple *a, const struct psid_tuple *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

uint64_t psid_tuple_hash(const struct psid_tuple *tuple)
{
	uint64_t words[5] = { 0 }, hash = 0;

	memcpy(words, tuple, sizeof(*tuple));
	for (unsigned i = 0; i < 5; i++)
		hash = psid_map_hash(hash ^ words[i]);
	return hash;
}

bool psid_tuple_is_ipv4(const struct psid_tuple *tuple)
{
	return memcmp(tuple->local, mapped_prefix, sizeof(mapped_prefix)) == 0 &&
	       memcmp(tuple->remote, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

bool psid_tuple_is_remote_ipv4(const struct psid_tuple *tuple)
{
	return memcmp(tuple->remote, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

bool psid_tuple_is_wildcard(const struct psid_tuple *tuple)
{
	static const uint8_t any[16], any4[16] = { [10] = 0xff, [11] = 0xff };

	return memcmp(tuple->local, any, sizeof(any)) == 0 ||
	       memcmp(tuple->local, any4, sizeof(any4)) == 0;
}

static bool link_local(const uint8_t address[16])
{
	if (memcmp(address, mapped_prefix, sizeof(mapped_prefix)) == 0)
		return address[12] == 169 && address[13] == 254;
	return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

bool psid_tuple_is_link_local(const struct psid_tuple *tuple)
{
	return link_local(tuple->local) || link_local(tuple->remote);
}
