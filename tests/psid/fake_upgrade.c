/* The dialogue that upgrades a connection. */
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "geometry.h"
#include "psid/fake_client.h"

static int take_fd(struct fake_client *c, bool sent, size_t *i)
{
	int fd = -1;

	if (sent) {
		REQUIRE_INT(*i, <, c->n_fds);
		fd = c->fds[*i];
		c->fds[(*i)++] = -1;
	}
	return fd;
}

static void take_upgrade(struct fake_client *c, struct fake_upgrade *u, unsigned k, uint64_t token,
			 uint32_t peer)
{
	const Pulc__Wire__Upgrade *m = EXPECT(c, UPGRADE)->upgrade;
	size_t i = 0;

	CHECK_INT(m->token, ==, token);
	CHECK_INT(m->peer_client, ==, peer);
	REQUIRE(m->own != NULL && m->peer != NULL);
	u->side[k].conn = m->conn;
	u->side[k].own_slot = m->own_slot;
	u->side[k].peer_slot = m->peer_slot;
	u->side[k].own_id = m->own->id;
	u->side[k].peer_id = m->peer->id;
	u->side[k].size = m->own->size;
	u->side[k].own_fd = take_fd(c, m->own_slab_fd, &i);
	u->side[k].peer_fd = take_fd(c, m->peer_slab_fd, &i);
	CHECK_INT(i, ==, c->n_fds);
}

void fake_upgrade(struct fake_client *a, struct fake_client *b, const int fds[2], uint64_t token,
		  struct fake_upgrade *ret_upgrade)
{
	uint64_t token_b = a == b ? token + 1 : token;

	fake_hint(a, fds[0], token, true);
	fake_hint(b, fds[1], token_b, false);
	/* To one client the asking order is psid's. */
	CHECK_INT(EXPECT(a, WANT)->want->token / 2, ==, token / 2);
	CHECK_INT(EXPECT(b, WANT)->want->token / 2, ==, token_b / 2);
	fake_socket(a, fds[0], token);
	fake_socket(b, fds[1], token_b);
	if (a == b) { /* the side that hinted last comes first */
		take_upgrade(b, ret_upgrade, 1, token_b, a->id);
		take_upgrade(a, ret_upgrade, 0, token, b->id);
	} else {
		take_upgrade(a, ret_upgrade, 0, token, b->id);
		take_upgrade(b, ret_upgrade, 1, token_b, a->id);
	}
}

void fake_upgrade_done(struct fake_upgrade *u)
{
	for (unsigned k = 0; k < 2; k++) {
		if (u->side[k].own_fd >= 0)
			(void)close(u->side[k].own_fd);
		if (u->side[k].peer_fd >= 0)
			(void)close(u->side[k].peer_fd);
	}
}

static struct shm_slab *map_slab(int slab_fd, uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, slab_fd, 0);

	if (p == MAP_FAILED)
		p = mmap(NULL, size, PROT_READ, MAP_SHARED, slab_fd, 0);
	REQUIRE(p != MAP_FAILED);
	return p;
}

struct shm_side *fake_side(int slab_fd, uint64_t size, uint32_t slot)
{
	struct shm_slab *slab = map_slab(slab_fd, size);

	return (struct shm_side *)((char *)slab + shm_slot_at(slab->geometry.size_slot, slot));
}

struct shm_side *fake_own_side(const struct fake_upgrade *u, unsigned end)
{
	return fake_side(u->side[end].own_fd, u->side[end].size, u->side[end].own_slot);
}

_Atomic uint32_t *fake_own_holders(const struct fake_upgrade *u, unsigned end)
{
	return &map_slab(u->side[end].own_fd, u->side[end].size)->n_holders[u->side[end].own_slot];
}
