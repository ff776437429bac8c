/*
 * Waking. A process that sleeps names itself (client, board, bit) in its slot; whoever has news
 * for it sets the bit on the board and strikes the bell. Processes of one user do that among
 * themselves once psid has introduced them to each other; for all others, and for the dead, psid
 * does it.
 *
 * Only clients that share a connection can reach each other, and only those of one user get each
 * other's boards and bells: a hostile holder of a bell can fill or drain it.
 */
#include "bells.h"

#include <errno.h>

#include "bell.h"
#include "board.h"
#include "cleanup.h"
#include "descriptors.h"
#include "macros.h"
#include "memory.h"
#include "pair.h"
#include "psid.h"
#include "user.h"

int psid_boards_make(struct psid_client *client)
{
	struct shm_boards header = {
		.magic = SHM_MAGIC_BOARDS,
		.version = SHM_VERSION,
		.n_boards = SHM_N_BOARDS,
		.client = client->id,
	};
	struct psid_user *user = client->user;
	int r;

	r = psid_user_take_area(user);
	if (r != 0)
		return r;
	r = psid_user_take_bytes(user, SHM_PAGE);
	if (r == 0) {
		r = psid_memory_new("pulc-boards", SHM_SIZE_BOARDS, &header, sizeof(header),
				    &client->boards_fd);
		if (r < 0)
			psid_user_give_bytes(user, SHM_PAGE);
	}
	if (r != 0)
		psid_user_give_area(user, -EBADF);
	return r;
}

static void drop_bell(struct psid_client *client, uint32_t board)
{
	psid_close_promised(client->psid, client->user, TAKE_FD(client->bells[board]), NULL, NULL);
}

void psid_boards_drop(struct psid_client *client)
{
	for (uint32_t i = 0; i < SHM_N_BOARDS; i++) {
		if (client->bells[i] < 0)
			continue;
		drop_bell(client, i);
		psid_user_give_descriptors(client->user, 1);
	}
	if (client->boards_fd < 0)
		return;
	shm_boards_unmap(client->boards);
	client->boards = NULL;
	psid_user_give_bytes(client->user, SHM_PAGE);
	psid_user_give_area(client->user, TAKE_FD(client->boards_fd));
}

/*
 * The board, its page allocated, so that touching it cannot fail for want of memory. NULL: not
 * now.
 */
static struct shm_board *board_of(struct psid_client *client, uint32_t board)
{
	struct shm_board *b;

	if (client->boards_fd < 0 ||
	    (!client->boards && shm_boards_map(client->boards_fd, &client->boards) < 0))
		return NULL;
	b = shm_board_of(client->boards, board);
	return psid_memory_allocate(b, SHM_PAGE) == 0 ? b : NULL;
}

static void wake(struct psid_client *client, uint32_t board, uint32_t bit)
{
	struct shm_board *b = board_of(client, board);

	if (b && shm_board_set(b, bit) && client->bells[board] >= 0)
		psid_bell_strike(client->psid, client->bells[board]);
}

static void wake_watcher(struct psid_client *client, uint64_t watch)
{
	if (watch && SHM_WATCH_CLIENT(watch) == client->id &&
	    SHM_WATCH_BOARD(watch) < SHM_FIRST_LINES)
		wake(client, SHM_WATCH_BOARD(watch), SHM_WATCH_BIT(watch));
}

void psid_bell_wake_watchers(struct psid_client *client, const struct shm_side *side)
{
	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		wake_watcher(client, side->rx_watch[i]);
		wake_watcher(client, side->tx_watch[i]);
	}
}

/* ---- introductions --------------------------------------------------------------------------- */

static bool is_introduced(const struct psid_pair *pair, uint32_t board)
{
	return pair->introduced[board / 64] >> board % 64 & 1;
}

/* Gives the peer of the pair (it may be the owner itself) the owner's board and bell, once. */
static void introduce(struct psid_pair *pair, uint32_t board)
{
	Pulc__Wire__Introduce introduce = PULC__WIRE__INTRODUCE__INIT;
	PSID_MESSAGE(msg, INTRODUCE, introduce) = &introduce;
	struct psid_client *owner = pair->owner, *peer = pair->peer;
	int fds[2];
	size_t n = 0;

	if (pair->n_shared == 0 || owner->user != peer->user || owner->bells[board] < 0 ||
	    is_introduced(pair, board))
		return;
	introduce.client = owner->id;
	introduce.board = board;
	introduce.board_fd = !pair->boards_sent;
	if (introduce.board_fd)
		fds[n++] = owner->boards_fd;
	fds[n++] = owner->bells[board];
	if (psid_client_send(peer, &msg, fds, n) < 0)
		return;
	pair->boards_sent = true;
	pair->introduced[board / 64] |= 1ull << board % 64;
}

int psid_bell_announce(struct psid_client *client, uint32_t board)
{
	struct psid_map_node *node = NULL;

	if (board >= SHM_N_BOARDS)
		return -EBADMSG;
	while ((node = psid_map_next(&client->pairs, node)))
		introduce(CONTAINER_OF(node, struct psid_pair, node), board);
	return 0;
}

void psid_bell_acquaint(struct psid_client *a, struct psid_client *b)
{
	struct psid_pair *pairs[] = { psid_pair_find(a, b), psid_pair_find(b, a) };

	for (uint32_t board = 0; board < SHM_N_BOARDS; board++)
		for (unsigned i = 0; i < 2; i++)
			if (pairs[i])
				introduce(pairs[i], board);
}

static void forget_introductions(struct psid_client *client, uint32_t board)
{
	struct psid_map_node *node = NULL;

	while ((node = psid_map_next(&client->pairs, node)))
		CONTAINER_OF(node, struct psid_pair, node)->introduced[board / 64] &=
			~(1ull << board % 64);
}

int psid_bell_set(struct psid_client *client, uint32_t board, int *fd)
{
	if (board >= SHM_N_BOARDS || !psid_bell_is(*fd))
		return -EBADMSG;
	/* Without its bell the client wakes up after its patience. */
	if (psid_descriptor_is_reserve(*fd))
		return 0;
	if (psid_closer_promise(&client->psid->closer) < 0)
		return 0;
	if (client->bells[board] >= 0) {
		drop_bell(client, board);
	} else if (psid_user_take_descriptors(client->user, 1) != 0) {
		psid_close_promised(client->psid, client->user, TAKE_FD(*fd), NULL, NULL);
		return 0;
	}
	client->bells[board] = TAKE_FD(*fd);
	forget_introductions(client, board);
	return 0;
}

int psid_bell_forward(struct psid_client *client, const Pulc__Wire__Ring *msg)
{
	struct psid_client *target = psid_client_find(client->psid, msg->client);
	struct psid_pair *pair = target ? psid_pair_find(target, client) : NULL;

	if (msg->board >= SHM_N_BOARDS || msg->bit >= SHM_BOARD_BITS)
		return -EBADMSG;
	if (msg->board >= SHM_FIRST_LINES)
		return 0; /* no board: of an older client that has so many wait sets */
	if (!pair || pair->n_shared == 0)
		return 0; /* it may have gone just now */
	client->psid->counts.n_rings++;
	wake(target, msg->board, msg->bit);
	introduce(pair, msg->board);
	return 0;
}
