/*
 * A file has a lock that writing to it, allocating and freeing in it take, and who writes to it
 * from a page that does not come holds that lock for as long as he likes. Clients have memory of
 * psid's making that is theirs to write: slabs, boards, semaphores. psid's loop must never wait for
 * the lock of one.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "psid/no_page.h"
#include "psid/scene.h"

static struct fake_client hostile;

struct holder {
	int fd;
	struct no_page page;
	pthread_t thread;
};

static void *hold(void *arg)
{
	struct holder *h = arg;

	(void)pwrite(h->fd, h->page.at, 1, 8);
	return NULL;
}

static bool holder_init(struct holder *h)
{
	h->fd = -1;
	return no_page_init(&h->page);
}

/* Takes the descriptor. */
static void holder_start(struct holder *h, int fd)
{
	h->fd = fd;
	REQUIRE(pthread_create(&h->thread, NULL, hold, h) == 0);
	no_page_wait(&h->page);
}

static void holder_end(struct holder *h)
{
	no_page_come(&h->page);
	if (h->fd >= 0)
		(void)pthread_join(h->thread, NULL);
	(void)close(h->fd);
	no_page_deinit(&h->page);
}

/* A connection of the hostile one's with b, and another one while the lock of its slab is held;
 * both end, and so does it. */
static void of_a_slab(void)
{
	struct fake_upgrade first, u;
	struct holder h;
	int fds[3][2];

	scene_begin(false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
	for (unsigned i = 0; i < 3; i++)
		tcp_connect_pair(fds[i], AF_INET);
	fake_upgrade(&hostile, &b, fds[0], 2, &first);
	if (holder_init(&h)) {
		holder_start(&h, dup(first.side[0].own_fd));
		fake_upgrade(&hostile, &b, fds[1], 4, &u);
		scene_check_upgrade(6);
		fake_closed(&hostile, u.side[0].conn);
		fake_closed(&b, u.side[1].conn);
		scene_check_upgrade(8);
		fake_upgrade(&hostile, &b, fds[2], 10, &u);
		fake_close(&hostile); /* it is marked as dead */
		CHECK_INT(EXPECT(&b, SLAB_GONE)->slab_gone->id, ==, first.side[0].own_id);
		CHECK_INT(EXPECT(&b, SLAB_GONE)->slab_gone->id, ==, first.side[0].peer_id);
		CHECK_INT(EXPECT(&b, GONE)->gone->client, ==, hostile.id);
		scene_check_upgrade(12);
		holder_end(&h);
	}
	fake_close(&hostile);
	fake_upgrade_done(&first);
	for (unsigned i = 0; i < 3; i++)
		tcp_close_pair(fds[i]);
	scene_end();
}

/* Somebody wakes it by psid, and it goes. */
static void of_boards(void)
{
	Pulc__Wire__Ring ring = PULC__WIRE__RING__INIT;
	FROM_CLIENT(msg, RING, ring) = &ring;
	struct fake_upgrade u;
	struct holder h;
	int boards, fds[2];

	scene_begin(false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
	REQUIRE_INT(hostile.n_fds, ==, 1);
	boards = dup(hostile.fds[0]);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&hostile, &b, fds, 2, &u);
	if (holder_init(&h)) {
		holder_start(&h, boards);
		ring.client = hostile.id;
		fake_send(&b, &msg, NULL, 0);
		scene_check_upgrade(4);
		fake_close(&hostile);
		CHECK_INT(EXPECT(&b, SLAB_GONE)->slab_gone->id, ==, u.side[0].own_id);
		CHECK_INT(EXPECT(&b, SLAB_GONE)->slab_gone->id, ==, u.side[0].peer_id);
		CHECK_INT(EXPECT(&b, GONE)->gone->client, ==, hostile.id);
		scene_check_upgrade(6);
		holder_end(&h);
	}
	fake_close(&hostile);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_end();
}

static uint32_t open_sem(struct fake_client *c)
{
	Pulc__Wire__SemOpen body = PULC__WIRE__SEM_OPEN__INIT;
	FROM_CLIENT(msg, SEM_OPEN, sem_open) = &body;

	body.name = (char *)"shared";
	body.count = 1;
	body.held = true;
	fake_send(c, &msg, NULL, 0);
	return EXPECT(c, PORT_REPLY)->port_reply->holder;
}

static void close_sem(struct fake_client *c, uint32_t holder)
{
	Pulc__Wire__SemClose body = PULC__WIRE__SEM_CLOSE__INIT;
	FROM_CLIENT(msg, SEM_CLOSE, sem_close) = &body;

	body.holder = holder;
	fake_send(c, &msg, NULL, 0);
}

/* Who has part in it leaves. */
static void of_a_semaphore(void)
{
	struct holder h;
	uint32_t part;

	scene_begin(false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
	part = open_sem(&a);
	CHECK_INT(open_sem(&hostile), !=, 0);
	REQUIRE_INT(hostile.n_fds, ==, 1);
	if (holder_init(&h)) {
		holder_start(&h, dup(hostile.fds[0]));
		close_sem(&a, part);
		scene_check_upgrade(2);
		CHECK_INT(open_sem(&b), !=, 0);
		fake_close(&hostile);
		scene_check_upgrade(4);
		holder_end(&h);
	}
	fake_close(&hostile);
	scene_end();
}

static const struct test tests[] = {
	TEST(of_a_slab),
	TEST(of_boards),
	TEST(of_a_semaphore),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
