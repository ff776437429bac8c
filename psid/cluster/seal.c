/*
 * How datagrams are sealed: AES-256-GCM over the body, with the head as additional data.
 *
 * 	version 1 | sender's id 6 | its life 6 | salt 6 | counter 5 | body | tag 16
 *
 * Every start of a psid draws a salt, and uses a key of its own, derived from the cluster's, its id
 * and the salt; the counter is the nonce. So no nonce is used twice under a key, without any memory
 * that outlives a start, whatever clocks do. A reader knows each sender's last starts, and of each
 * a window of its counters: what was seen before, or is older than the window, is a copy that
 * somebody sends again. Several starts, because two nodes may have one name for a while.
 *
 * Starts can be recorded in any number, and of those that are not known any more copies would pass
 * as if they were new. So the greatest life of what was forgotten stays: what is not known and
 * began no later is outdated. It need not be a copy. A node whose clock went back begins such a
 * life, too, so it is told which one was its newest (gossip.c) and takes a greater one; salt and
 * counter go on in it. The life in which the membership knows a node is never outdated: a crowd of
 * strangers that come with its name, and are refused, silences nobody.
 *
 * While the cluster's key is changed there are several. All are tried on a datagram of a sender
 * whose key is not known, or is no longer the one that was. Salt and counter go on under the new
 * key, so copies stay out as before.
 *
 * A copy from a start that its reader has never heard, because it began later, passes once. It says
 * nothing that was not true then, and news of an earlier life or incarnation is old news (swim.c,
 * news.c).
 */
#include "seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "codec.h"
#include "macros.h"

#define SIZE_TAG 16u
#define SIZE_NONCE 12u
#define SIZE_WINDOW 64u
#define N_SENDERS_MAX 16384u
#define AT_ID 1u
#define AT_LIFE 7u
#define AT_SALT 13u
#define AT_COUNTER 19u

#define N_STARTS 8u

struct start {
	uint8_t salt[6];
	uint64_t life; /* the last one in which it was heard */
	uint8_t key[PSID_SIZE_SECRET];
	bool has_key;	 /* and it may be tried first */
	uint64_t newest; /* counter */
	uint64_t window; /* bit i: newest - i was seen; 0: there is no such start */
};

struct sender {
	struct psid_map_node by_id;
	struct start starts[N_STARTS]; /* the last one that something new came of first */
	uint64_t life_forgotten;       /* the greatest one of a start that has left them */
};

static void derive(const struct psid_keys *keys, uint64_t id, const uint8_t salt[6],
		   uint8_t ret_key[PSID_SIZE_SECRET])
{
	uint8_t id_and_salt[12];
	struct psid_writer w = { .at = id_and_salt, .end = id_and_salt + sizeof(id_and_salt) };

	psid_put(&w, id, 6);
	memcpy(w.at, salt, 6);
	psid_keys_mix(keys->gossip, id_and_salt, sizeof(id_and_salt), ret_key);
}

static void make_nonce(const uint8_t *head, uint8_t nonce[SIZE_NONCE])
{
	memset(nonce, 0, SIZE_NONCE);
	memcpy(nonce, head + AT_SALT, 6);
	memcpy(nonce + 7, head + AT_COUNTER, 5);
}

static void put_head(struct psid_seal *seal, uint8_t head[PSID_SEAL_SIZE_HEAD])
{
	struct psid_writer w = { .at = head, .end = head + PSID_SEAL_SIZE_HEAD };

	psid_put(&w, PSID_GOSSIP_VERSION, 1);
	psid_put(&w, seal->self->id, 6);
	psid_put(&w, seal->self->life, 6);
	memcpy(w.at, seal->salt, sizeof(seal->salt));
	w.at += sizeof(seal->salt);
	psid_put(&w, ++seal->counter, 5);
}

/* What seals with the first key of the ring, or NULL. */
static EVP_CIPHER_CTX *make_sealing(const struct psid_seal *seal)
{
	uint8_t key[PSID_SIZE_SECRET];
	EVP_CIPHER_CTX *sealing = EVP_CIPHER_CTX_new();
	int ok;

	derive(&seal->ring->keys[0], seal->self->id, seal->salt, key);
	ok = sealing && EVP_EncryptInit_ex2(sealing, seal->cipher, key, NULL, NULL) == 1;
	explicit_bzero(key, sizeof(key));
	if (ok)
		return sealing;
	EVP_CIPHER_CTX_free(sealing);
	return NULL;
}

int psid_seal_init(struct psid_seal *seal, const struct psid_keyring *ring,
		   const struct psid_members *members, const struct psid_node *self)
{
	*seal = (struct psid_seal){
		.ring = ring, .members = members, .self = self, .life_max = UINT64_MAX
	};
	if (getrandom(seal->salt, sizeof(seal->salt), 0) != sizeof(seal->salt))
		return -EIO;
	seal->cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
	seal->opening = EVP_CIPHER_CTX_new();
	if (seal->cipher)
		seal->sealing = make_sealing(seal);
	/* Told its cipher once: with each key again it would be made anew for each datagram. */
	if (seal->sealing && seal->opening &&
	    EVP_DecryptInit_ex2(seal->opening, seal->cipher, NULL, NULL, NULL) == 1)
		return 0;
	psid_seal_deinit(seal);
	return -ENOMEM;
}

int psid_seal_rekey(struct psid_seal *seal)
{
	EVP_CIPHER_CTX *sealing = make_sealing(seal);
	struct psid_map_node *node = NULL;

	if (!sealing)
		return -ENOMEM;
	EVP_CIPHER_CTX_free(seal->sealing);
	seal->sealing = sealing;
	while ((node = psid_map_next(&seal->senders, node))) {
		struct sender *sender = CONTAINER_OF(node, struct sender, by_id);

		/* They may be derived from one that is not accepted any more. */
		for (unsigned i = 0; i < N_STARTS; i++) {
			sender->starts[i].has_key = false;
			explicit_bzero(sender->starts[i].key, PSID_SIZE_SECRET);
		}
	}
	return 0;
}

static void forget_senders(struct psid_seal *seal)
{
	struct psid_map_node *node;

	while ((node = psid_map_next(&seal->senders, NULL))) {
		struct sender *sender = CONTAINER_OF(node, struct sender, by_id);

		psid_map_remove(&seal->senders, node);
		explicit_bzero(sender, sizeof(*sender));
		free(sender);
	}
}

void psid_seal_deinit(struct psid_seal *seal)
{
	EVP_CIPHER_CTX_free(seal->sealing);
	EVP_CIPHER_CTX_free(seal->opening);
	EVP_CIPHER_free(seal->cipher);
	forget_senders(seal);
	psid_map_deinit(&seal->senders);
	explicit_bzero(seal, sizeof(*seal));
}

size_t psid_seal_close(struct psid_seal *seal, const uint8_t *body, size_t len,
		       uint8_t *ret_datagram)
{
	uint8_t *text = ret_datagram + PSID_SEAL_SIZE_HEAD;
	uint8_t nonce[SIZE_NONCE];
	int n;

	put_head(seal, ret_datagram);
	make_nonce(ret_datagram, nonce);
	if (EVP_EncryptInit_ex2(seal->sealing, NULL, NULL, nonce, NULL) != 1 ||
	    EVP_EncryptUpdate(seal->sealing, NULL, &n, ret_datagram, PSID_SEAL_SIZE_HEAD) != 1 ||
	    EVP_EncryptUpdate(seal->sealing, text, &n, body, (int)len) != 1 ||
	    EVP_EncryptFinal_ex(seal->sealing, text + len, &n) != 1 ||
	    EVP_CIPHER_CTX_ctrl(seal->sealing, EVP_CTRL_GCM_GET_TAG, SIZE_TAG, text + len) != 1)
		return 0;
	return len + PSID_SEAL_SIZE;
}

static uint64_t number_at(const uint8_t *bytes, size_t n)
{
	struct psid_reader r = { .at = bytes, .end = bytes + n };

	return psid_get(&r, n);
}

static int decrypt(struct psid_seal *seal, const uint8_t key[PSID_SIZE_SECRET],
		   const uint8_t *datagram, size_t len, uint8_t *ret_body)
{
	const uint8_t *text = datagram + PSID_SEAL_SIZE_HEAD;
	uint8_t nonce[SIZE_NONCE], tag[SIZE_TAG];
	int n;

	make_nonce(datagram, nonce);
	memcpy(tag, text + len, sizeof(tag));
	if (EVP_DecryptInit_ex2(seal->opening, NULL, key, nonce, NULL) != 1 ||
	    EVP_DecryptUpdate(seal->opening, NULL, &n, datagram, PSID_SEAL_SIZE_HEAD) != 1 ||
	    EVP_DecryptUpdate(seal->opening, ret_body, &n, text, (int)len) != 1 ||
	    EVP_CIPHER_CTX_ctrl(seal->opening, EVP_CTRL_GCM_SET_TAG, SIZE_TAG, tag) != 1 ||
	    EVP_DecryptFinal_ex(seal->opening, ret_body + len, &n) != 1)
		return -EBADMSG;
	return 0;
}

/* With any of the keys, the remembered one first. Returns 0, and in key which; -EBADMSG. */
static int decrypt_any(struct psid_seal *seal, const struct start *start, const uint8_t *datagram,
		       size_t len, uint8_t *ret_body, uint8_t key[PSID_SIZE_SECRET])
{
	uint64_t id = number_at(datagram + AT_ID, 6);

	if (start && start->has_key) {
		memcpy(key, start->key, PSID_SIZE_SECRET);
		if (decrypt(seal, key, datagram, len, ret_body) == 0)
			return 0;
	}
	for (size_t i = 0; i < seal->ring->n; i++) {
		derive(&seal->ring->keys[i], id, datagram + AT_SALT, key);
		if (decrypt(seal, key, datagram, len, ret_body) == 0)
			return 0;
	}
	return -EBADMSG;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static bool is_copy(const struct start *start, uint64_t counter)
{
	uint64_t age = start->newest - counter;

	if (counter > start->newest)
		return false;
	return age >= SIZE_WINDOW || (start->window >> age & 1);
}

/* Those before it make room at the front. */
static struct start *to_front(struct sender *sender, struct start *start)
{
	struct start *front = sender->starts, moved;

	if (start != front) {
		moved = *start;
		memmove(front + 1, front, (size_t)(start - front) * sizeof(moved));
		*front = moved;
		explicit_bzero(&moved, sizeof(moved));
	}
	return front;
}

/* A datagram of this start has been read. */
static void note(const struct psid_seal *seal, struct start *start, const uint8_t *head,
		 const uint8_t key[PSID_SIZE_SECRET])
{
	uint64_t counter = number_at(head + AT_COUNTER, 5);
	/* A lie must leave room for the node's next life. */
	uint64_t life = MIN(number_at(head + AT_LIFE, 6), seal->life_max);
	uint64_t ahead = counter - start->newest;

	memcpy(start->key, key, sizeof(start->key));
	start->has_key = true;
	start->life = MAX(start->life, life); /* it may have overtaken some of its former life */
	if (start->window && counter <= start->newest) {
		start->window |= 1ull << (start->newest - counter);
		return;
	}
	start->window = ahead < SIZE_WINDOW ? start->window << ahead | 1 : 1;
	start->newest = counter;
}

/* The sender of what we have just been able to read; NULL: no memory. */
static struct sender *add_sender(struct psid_seal *seal, uint64_t id)
{
	struct sender *sender;

	if (seal->senders.n >= N_SENDERS_MAX)
		forget_senders(seal);
	sender = calloc(1, sizeof(*sender));
	if (sender && psid_map_insert(&seal->senders, &sender->by_id, id) == 0)
		return sender;
	free(sender);
	return NULL;
}

/* The start that was not heard for longest makes room for one that is new to us. */
static struct start *begin(struct sender *sender, const uint8_t *salt)
{
	struct start *start = to_front(sender, &sender->starts[N_STARTS - 1]);

	sender->life_forgotten = MAX(sender->life_forgotten, start->life);
	*start = (struct start){ .window = 0 };
	memcpy(start->salt, salt, sizeof(start->salt));
	return start;
}

static struct sender *find(const struct psid_seal *seal, uint64_t id)
{
	struct psid_map_node *node = psid_map_find(&seal->senders, id);

	return node ? CONTAINER_OF(node, struct sender, by_id) : NULL;
}

/* NULL: it is new to us. */
static struct start *find_start(struct sender *sender, const uint8_t *salt)
{
	for (unsigned i = 0; sender && i < N_STARTS; i++)
		if (sender->starts[i].window &&
		    memcmp(sender->starts[i].salt, salt, sizeof(sender->starts[i].salt)) == 0)
			return &sender->starts[i];
	return NULL;
}

static bool is_outdated(const struct psid_seal *seal, const struct sender *sender,
			const struct psid_origin *by)
{
	const struct psid_node *node;

	if (!sender || by->life > sender->life_forgotten)
		return false;
	node = psid_members_find(seal->members, by->id);
	return !node || node->life != by->life;
}

static uint64_t newest_life(const struct sender *sender)
{
	uint64_t life = sender->life_forgotten;

	for (unsigned i = 0; i < N_STARTS; i++)
		life = MAX(life, sender->starts[i].life);
	return life;
}

/* What we have just been able to read comes from a start that is new to us. Returns 0, -ESTALE,
 * -ENOMEM. */
static int take_new(struct psid_seal *seal, struct sender *sender, const uint8_t *head,
		    const uint8_t key[PSID_SIZE_SECRET], struct psid_origin *by)
{
	struct start *start;
	bool is_late;

	if (is_outdated(seal, sender, by)) {
		by->life = newest_life(sender);
		return -ESTALE;
	}
	if (!sender && !(sender = add_sender(seal, by->id)))
		return -ENOMEM;
	is_late = by->life <= sender->life_forgotten;
	start = begin(sender, head + AT_SALT);
	note(seal, start, head, key);
	if (is_late) /* it may have been forgotten itself, and what came before was heard */
		start->window = UINT64_MAX;
	return 0;
}

int psid_seal_open(struct psid_seal *seal, const uint8_t *datagram, size_t len, uint8_t *ret_body,
		   struct psid_origin *ret_by)
{
	uint8_t key[PSID_SIZE_SECRET];
	struct sender *sender;
	struct start *start;
	int n = (int)len - (int)PSID_SEAL_SIZE, r = 0;

	if (len >= 1 && datagram[0] != PSID_GOSSIP_VERSION)
		return -EPROTO;
	if (n < 0)
		return -EBADMSG;
	ret_by->id = number_at(datagram + AT_ID, 6);
	ret_by->life = number_at(datagram + AT_LIFE, 6);
	sender = find(seal, ret_by->id);
	start = find_start(sender, datagram + AT_SALT);
	if (start && is_copy(start, number_at(datagram + AT_COUNTER, 5)))
		return -EALREADY;
	if (decrypt_any(seal, start, datagram, (size_t)n, ret_body, key) < 0)
		return -EBADMSG;
	if (start)
		note(seal, to_front(sender, start), datagram, key);
	else
		r = take_new(seal, sender, datagram, key, ret_by);
	return r < 0 ? r : n;
}
