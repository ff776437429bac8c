/* Several clusters' nodes in one process and one loop, over real sockets of the loopback
 * interface. */
#ifndef PULC_TESTS_CLUSTER_BED_H
#define PULC_TESTS_CLUSTER_BED_H

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config.h"
#include "harness.h"
#include "inside.h"
#include "key.h"
#include "macros.h"

enum { N_MAX = 6, MSEC_HANG = 90000 };

static uv_loop_t loop;
static struct psid_config configs[N_MAX];
static struct psid_cluster *nodes[N_MAX];
static char key_path[64], other_key_path[64];

/* ---- what happens, in node 0's view unless said otherwise ------------------------------------ */

static struct {
	unsigned n_lost, n_drained, n_changed;
	uint64_t last_lost;
} seen[N_MAX];
static struct psid_cluster_watch watches[N_MAX];

static inline void on_lost(void *data, uint64_t id)
{
	size_t i = (size_t)data;

	seen[i].n_lost++;
	seen[i].last_lost = id;
}

static inline void on_drained(void *data, uint64_t id)
{
	(void)id;
	seen[(size_t)data].n_drained++;
}

static inline void on_changed(void *data, const struct psid_node *node)
{
	(void)node;
	seen[(size_t)data].n_changed++;
}

/* Messages of the tests are Refuse: a number and a text; only hello.c uses it otherwise. */
static struct {
	uint64_t next[N_MAX]; /* of each sender */
	unsigned n_disorder, n;
	size_t size;
	bool is_bad;
} got[N_MAX];

static inline unsigned index_of(uint64_t id)
{
	for (unsigned i = 0; i < N_MAX; i++)
		if (nodes[i] && nodes[i]->self->id == id)
			return i;
	return 0;
}

static inline int on_message(void *data, uint64_t from, uint64_t life,
			     const Pulc__Peer__Message *msg)
{
	size_t me = (size_t)data;
	unsigned sender = index_of(from);

	(void)life;
	if (got[me].is_bad)
		return -EBADMSG;
	got[me].n_disorder += (uint64_t)msg->refuse->reason != got[me].next[sender]++;
	got[me].n++;
	got[me].size += strlen(msg->refuse->text);
	return 0;
}

static inline int say(unsigned from, unsigned to, unsigned number, const char *text)
{
	Pulc__Peer__Refuse refuse = PULC__PEER__REFUSE__INIT;
	PSID_PEER_MESSAGE(msg, REFUSE, refuse) = &refuse;

	refuse.reason = (Pulc__Peer__No)number;
	refuse.text = (char *)text;
	return psid_peer_send(nodes[from], nodes[to]->self->id, &msg);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static inline void make_key(char *path, size_t size, const char *name)
{
	const char *dir = getenv("TMPDIR");

	(void)snprintf(path, size, "%s/cluster-test-%s-%d", dir ? dir : "/tmp", name, getpid());
	(void)unlink(path);
	REQUIRE_INT(wire_key_make(path), ==, 0);
}

/* An address of this machine that no other run of this test has. */
static inline const char *address_of(unsigned i)
{
	static char text[32];
	unsigned host = ((unsigned)getpid() << 3 & 0xffffff) | (i + 1);

	(void)snprintf(text, sizeof(text), "127.%u.%u.%u", host >> 16, host >> 8 & 0xff,
		       host & 0xff);
	return text;
}

static inline struct psid_cluster_config *configure(unsigned i)
{
	struct psid_cluster_config *config = &configs[i].cluster;

	psid_config_init(&configs[i], false);
	(void)strcpy(config->name, "test");
	(void)strcpy(config->key_file, key_path);
	(void)snprintf(config->node_name, sizeof(config->node_name), "n%u", i);
	(void)psid_address_parse(address_of(i), PSID_PORT, &config->address);
	(void)strcpy(config->seeds[0], address_of(0));
	config->n_seeds = 1;
	config->msec_probe = 100;
	return config;
}

static inline void start(unsigned i)
{
	REQUIRE_INT(psid_cluster_start(&loop, &configs[i], &nodes[i]), ==, 0);
	psid_peer_on(nodes[i], PULC__PEER__MESSAGE__BODY_REFUSE, on_message, (void *)(size_t)i);
	watches[i] = (struct psid_cluster_watch){ .changed = on_changed,
						  .lost = on_lost,
						  .drained = on_drained,
						  .data = (void *)(size_t)i };
	psid_cluster_watch(nodes[i], &watches[i]);
}

static inline void stop(unsigned i)
{
	struct psid_cluster *cluster = nodes[i];

	psid_cluster_stop(cluster);
	for (unsigned n = 0; n < 10; n++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	psid_cluster_free(cluster);
	nodes[i] = NULL;
}

/* Without a good-bye. */
static inline void kill_node(unsigned i)
{
	nodes[i]->gossip.is_running = false;
	stop(i);
}

static inline void on_hang(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
}

static inline void on_tick(uv_timer_t *timer)
{
	(void)timer;
}

/* Runs the loop until the condition holds; what comes afterwards may end it again. */
#define RUN_UNTIL(condition)                                                                       \
	do {                                                                                       \
		bool hangs_ = false, holds_;                                                       \
		uv_timer_t hang_, tick_;                                                           \
		(void)uv_timer_init(&loop, &hang_);                                                \
		(void)uv_timer_init(&loop, &tick_);                                                \
		hang_.data = &hangs_;                                                              \
		(void)uv_timer_start(&hang_, on_hang, MSEC_HANG, 0);                               \
		(void)uv_timer_start(&tick_, on_tick, 5, 5);                                       \
		while (!(holds_ = (condition)) && !hangs_)                                         \
			(void)uv_run(&loop, UV_RUN_ONCE);                                          \
		uv_close((uv_handle_t *)&hang_, NULL);                                             \
		uv_close((uv_handle_t *)&tick_, NULL);                                             \
		(void)uv_run(&loop, UV_RUN_NOWAIT);                                                \
		test_assert(holds_, TEST_SITE(false), "%s", #condition);                           \
	} while (0)

static inline bool all_know_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (psid_members_of(nodes[i])->n_up != n)
			return false;
	return true;
}

static inline void set_up(unsigned n)
{
	memset(seen, 0, sizeof(seen));
	memset(got, 0, sizeof(got));
	make_key(key_path, sizeof(key_path), "key");
	make_key(other_key_path, sizeof(other_key_path), "other-key");
	REQUIRE_INT(uv_loop_init(&loop), ==, 0);
	for (unsigned i = 0; i < n; i++) {
		(void)configure(i);
		start(i);
	}
	RUN_UNTIL(all_know_all(n));
}

static inline void tear_down(void)
{
	for (unsigned i = 0; i < N_MAX; i++)
		if (nodes[i])
			stop(i);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	CHECK_INT(uv_loop_close(&loop), ==, 0);
	(void)unlink(key_path);
	(void)unlink(other_key_path);
}

static inline struct psid_peer *peer_of(unsigned i, unsigned j)
{
	struct psid_map_node *node = psid_map_find(&nodes[i]->peers.table, nodes[j]->self->id);

	return node ? CONTAINER_OF(node, struct psid_peer, by_id) : NULL;
}

#endif
