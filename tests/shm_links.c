/* Two slabs mapped as psid would have two processes map them, with a link over their first
 * slots. */
#include "shm_links.h"

#include <unistd.h>

#include "harness.h"
#include "tcp_pair.h"

uint64_t shm_links_credit;
unsigned shm_links_n_wakes;
unsigned shm_links_n_returned, shm_links_n_done;
static struct shm_exchange *shared;

#define LINE SHM_LINE_NAME(7, 11)

static bool take_credit(uint64_t size)
{
	if (shm_links_credit < size)
		return false;
	shm_links_credit -= size;
	return true;
}

static void return_credit(uint64_t size)
{
	shm_links_credit += size;
}

static void wake(uint64_t watch)
{
	shm_links_n_wakes += watch != 0;
}

static struct shm_exchange *find_line(uint32_t client, uint64_t name)
{
	return client == 7 && name == LINE ? shared : NULL;
}

static void return_line(const struct hal_shm_line *line, bool peer_is_done)
{
	REQUIRE(line->at == shared && line->name == LINE);
	shm_links_n_returned++;
	shm_links_n_done += peer_is_done;
}

void shm_links_share(struct shm_links *p)
{
	const struct hal_shm_line ours = {
		.at = &p->line, .name = LINE, .client = 8, .ours = true
	};
	const struct hal_shm_line theirs = { .client = 7 };

	p->line = (struct shm_exchange){ 0 };
	shared = &p->line;
	shm_links_n_returned = shm_links_n_done = 0;
	hal_shm_find_line = find_line;
	hal_shm_return_line = return_line;
	hal_shm_share(p->link[0], &ours);
	hal_shm_share(p->link[1], &theirs);
}

void shm_links_init(struct shm_links *p, const uint32_t size_ring[SHM_N_RINGS])
{
	uint64_t size;

	shm_links_credit = 64u << 20;
	shm_links_n_wakes = 0;
	hal_shm_take_credit = take_credit;
	hal_shm_return_credit = return_credit;
	hal_shm_wake = wake;
	for (int i = 0; i < 2; i++) {
		p->fd[i] = slab_make(size_ring, 1, &size);
		REQUIRE_INT(shm_slab_map(p->fd[i], size, true, &p->own[i]), ==, 0);
		REQUIRE_INT(shm_slab_map(p->fd[i], size, false, &p->seen[i]), ==, 0);
	}
	for (int i = 0; i < 2; i++)
		REQUIRE_INT(hal_shm_open(&p->own[i], 0, &p->seen[1 - i], 0, &p->link[i]), ==, 0);
}

void shm_links_deinit(struct shm_links *p)
{
	for (int i = 0; i < 2; i++)
		if (p->link[i])
			p->link[i]->ops->close(p->link[i]);
	for (int i = 0; i < 2; i++) {
		shm_slab_unmap(&p->own[i]);
		shm_slab_unmap(&p->seen[i]);
		(void)close(p->fd[i]);
	}
}
