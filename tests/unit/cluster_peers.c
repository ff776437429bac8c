/* Several clusters' nodes in one process and one loop, over real sockets of the loopback interface. */
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

/* ---- what happens, in node 0's view unless said otherwise ------------------------------------------------ */

static struct {
	unsigned n_lost, n_drained, n_changed;
	uint64_t last_lost;
} seen[N_MAX];
static struct psid_cluster_watch watches[N_MAX];

static void on_lost(void *data, uint64_t id)
{
	size_t i = (size_t)data;

	seen[i].n_lost++;
	seen[i].last_lost = id;
}

static void on_drained(void *data, uint64_t id)
{
	(void)id;
	seen[(size_t)data].n_drained++;
}

static void on_changed(void *data, const struct psid_node *node)
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

static unsigned index_of(uint64_t id)
{
	for (unsigned i = 0; i < N_MAX; i++)
		if (nodes[i] && nodes[i]->self->id == id)
			return i;
	return 0;
}

static int on_message(void *data, uint64_t from, uint64_t life, const Pulc__Peer__Message *msg)
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

static int say(unsigned from, unsigned to, unsigned number, const char *text)
{
	Pulc__Peer__Refuse refuse = PULC__PEER__REFUSE__INIT;
	PSID_PEER_MESSAGE(msg, REFUSE, refuse) = &refuse;

	refuse.reason = (Pulc__Peer__No)number;
	refuse.text = (char *)text;
	return psid_peer_send(nodes[from], nodes[to]->self->id, &msg);
}

/* ---- nodes ------------------------------------------------------------------------------------------------ */

static void make_key(char *path, size_t size, const char *name)
{
	const char *dir = getenv("TMPDIR");

	(void)snprintf(path, size, "%s/cluster-test-%s-%d", dir ? dir : "/tmp", name, getpid());
	(void)unlink(path);
	REQUIRE_INT(wire_key_make(path), ==, 0);
}

/* An address of this machine that no other run of this test has. */
static const char *address_of(unsigned i)
{
	static char text[32];
	unsigned host = ((unsigned)getpid() << 3 & 0xffffff) | (i + 1);

	(void)snprintf(text, sizeof(text), "127.%u.%u.%u", host >> 16, host >> 8 & 0xff,
		       host & 0xff);
	return text;
}

static struct psid_cluster_config *configure(unsigned i)
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

static void start(unsigned i)
{
	REQUIRE_INT(psid_cluster_start(&loop, &configs[i], &nodes[i]), ==, 0);
	psid_peer_on(nodes[i], PULC__PEER__MESSAGE__BODY_REFUSE, on_message, (void *)(size_t)i);
	watches[i] = (struct psid_cluster_watch){ .changed = on_changed,
						  .lost = on_lost,
						  .drained = on_drained,
						  .data = (void *)(size_t)i };
	psid_cluster_watch(nodes[i], &watches[i]);
}

static void stop(unsigned i)
{
	struct psid_cluster *cluster = nodes[i];

	psid_cluster_stop(cluster);
	for (unsigned n = 0; n < 10; n++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	psid_cluster_free(cluster);
	nodes[i] = NULL;
}

/* Without a good-bye. */
static void kill_node(unsigned i)
{
	nodes[i]->gossip.is_running = false;
	stop(i);
}

static void on_hang(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
}

static void on_tick(uv_timer_t *timer)
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

static bool all_know_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (psid_members_of(nodes[i])->n_up != n)
			return false;
	return true;
}

static void set_up(unsigned n)
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

static void tear_down(void)
{
	for (unsigned i = 0; i < N_MAX; i++)
		if (nodes[i])
			stop(i);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	CHECK_INT(uv_loop_close(&loop), ==, 0);
	(void)unlink(key_path);
	(void)unlink(other_key_path);
}

static struct psid_peer *peer_of(unsigned i, unsigned j)
{
	struct psid_map_node *node = psid_map_find(&nodes[i]->peers.table, nodes[j]->self->id);

	return node ? CONTAINER_OF(node, struct psid_peer, by_id) : NULL;
}

/* ---- tests -------------------------------------------------------------------------------------------------- */

static void messages_arrive_in_order(void)
{
	enum { N = 2000 };

	set_up(3);
	for (unsigned i = 0; i < N; i++) {
		REQUIRE_INT(say(0, 1, i, "a"), ==, 0);
		REQUIRE_INT(say(1, 0, i, "bc"), ==, 0);
		REQUIRE_INT(say(2, 0, i, "d"), ==, 0);
	}
	CHECK_INT(got[0].n + got[1].n, ==, 0); /* never from within */
	RUN_UNTIL(got[0].n == 2 * N && got[1].n == N);
	CHECK_INT(got[0].n_disorder + got[1].n_disorder, ==, 0);
	CHECK_INT(got[0].size, ==, 3 * N);
	CHECK_INT(seen[0].n_lost + seen[1].n_lost + seen[2].n_lost, ==, 0);
	/* Both connected at the same time, and one connection was left. */
	CHECK_INT(nodes[1]->peers.n_links, ==, 1);
	CHECK_INT(nodes[0]->peers.n_links, ==, 2);
	tear_down();
}

static void to_ourselves_too(void)
{
	set_up(1);
	REQUIRE_INT(say(0, 0, 0, "me"), ==, 0);
	REQUIRE_INT(say(0, 0, 1, "again"), ==, 0);
	CHECK_INT(got[0].n, ==, 0);
	RUN_UNTIL(got[0].n == 2);
	CHECK_INT(got[0].n_disorder, ==, 0);
	tear_down();
}

static char *make_text(size_t size)
{
	char *text = malloc(size + 1);

	REQUIRE(text != NULL);
	memset(text, 'x', size);
	text[size] = '\0';
	return text;
}

static void large_messages_pass(void)
{
	char *text = make_text(PSID_PEER_SIZE_MAX);

	set_up(2);
	CHECK_INT(say(0, 1, 0, text), ==, -EMSGSIZE);
	text[PSID_PEER_SIZE_MAX - 64] = '\0';
	CHECK_INT(say(0, 1, 0, text), ==, 0);
	CHECK_INT(say(0, 1, 1, "small"), ==, 0);
	RUN_UNTIL(got[1].n == 2);
	CHECK_INT(got[1].size, ==, PSID_PEER_SIZE_MAX - 64 + 5);
	free(text);
	tear_down();
}

static void the_full_say_so(void)
{
	char *text = make_text(1 << 20);
	unsigned n = 0;
	int r;

	set_up(2);
	while ((r = say(0, 1, n, text)) == 0)
		n++;
	CHECK_INT(r, ==, -ENOBUFS);
	CHECK_INT(n, <=, PSID_PEER_SIZE_LIMIT >> 20);
	CHECK_INT(n, >, 50);
	CHECK(psid_peer_is_full(nodes[0], nodes[1]->self->id));
	RUN_UNTIL(got[1].n == n);
	RUN_UNTIL(seen[0].n_drained == 1);
	CHECK(!psid_peer_is_full(nodes[0], nodes[1]->self->id));
	CHECK_INT(got[1].n_disorder, ==, 0);
	free(text);
	tear_down();
}

/* Idle links are closed, and whatever is said at that moment arrives. */
static void idle_links_close_without_loss(void)
{
	unsigned n = 0;

	set_up(2);
	nodes[0]->peers.idles.msec = nodes[1]->peers.idles.msec = 1;
	for (unsigned i = 0; i < 300; i++) {
		REQUIRE_INT(say(0, 1, n, "a"), ==, 0);
		REQUIRE_INT(say(1, 0, n, "b"), ==, 0);
		n++;
		for (unsigned j = 0; j < i % 7; j++)
			(void)uv_run(&loop, UV_RUN_ONCE);
	}
	RUN_UNTIL(got[0].n == n && got[1].n == n);
	CHECK_INT(got[0].n_disorder + got[1].n_disorder, ==, 0);
	RUN_UNTIL(nodes[0]->peers.n_links == 0 && nodes[1]->peers.n_links == 0);
	CHECK_INT(nodes[0]->peers.table.n + nodes[1]->peers.table.n, ==, 0);
	CHECK_INT(seen[0].n_lost + seen[1].n_lost, ==, 0);
	tear_down();
}

static void held_links_stay(void)
{
	set_up(2);
	/* The other's is left as it is: where this process gets no processor, 20 ms are soon over. */
	nodes[0]->peers.idles.msec = 20;
	nodes[0]->peers.beats.msec = 5;
	REQUIRE_INT(psid_peer_hold(nodes[0], nodes[1]->self->id), ==, 0);
	REQUIRE_INT(psid_peer_hold(nodes[0], nodes[1]->self->id), ==, 0);
	RUN_UNTIL(peer_of(0, 1) && peer_of(0, 1)->link && peer_of(0, 1)->link->has_welcome);
	for (unsigned i = 0; i < 40; i++)
		(void)uv_run(&loop, UV_RUN_ONCE);
	CHECK_INT(nodes[0]->peers.n_links, ==, 1);
	psid_peer_unhold(nodes[0], nodes[1]->self->id);
	for (unsigned i = 0; i < 40; i++)
		(void)uv_run(&loop, UV_RUN_ONCE);
	CHECK_INT(nodes[0]->peers.n_links, ==, 1);
	psid_peer_unhold(nodes[0], nodes[1]->self->id);
	RUN_UNTIL(nodes[0]->peers.n_links == 0);
	CHECK_INT(seen[0].n_lost, ==, 0);
	tear_down();
}

static void loss_is_told(void)
{
	set_up(3);
	REQUIRE_INT(psid_peer_hold(nodes[0], nodes[1]->self->id), ==, 0);
	REQUIRE_INT(say(0, 2, 0, "hello"), ==, 0);
	RUN_UNTIL(got[2].n == 1);
	RUN_UNTIL(peer_of(0, 1)->link && peer_of(0, 1)->link->has_welcome);
	kill_node(1);
	RUN_UNTIL(seen[0].n_lost >= 1);
	CHECK_INT(seen[0].last_lost, ==, psid_node_id("n1"));
	RUN_UNTIL(psid_node_find_name(nodes[0], "n1")->state == PSID_NODE_DEAD);
	stop(2);
	RUN_UNTIL(psid_node_find_name(nodes[0], "n2")->state == PSID_NODE_LEFT);
	RUN_UNTIL(seen[0].last_lost == psid_node_id("n2"));
	CHECK_INT(psid_peer_hold(nodes[0], psid_node_id("n2")), ==, -EHOSTUNREACH);
	tear_down();
}

static void the_restarted_are_found_again(void)
{
	uint64_t life;

	set_up(2);
	REQUIRE_INT(say(0, 1, 0, "a"), ==, 0);
	RUN_UNTIL(got[1].n == 1);
	life = psid_node_find_name(nodes[0], "n1")->life;
	kill_node(1);
	start(1);
	RUN_UNTIL(psid_node_find_name(nodes[0], "n1")->life > life);
	RUN_UNTIL(seen[0].n_lost >= 1);
	got[1].next[0] = 7;
	RUN_UNTIL(all_know_all(2));
	REQUIRE_INT(say(0, 1, 7, "b"), ==, 0);
	RUN_UNTIL(got[1].n == 2);
	CHECK_INT(got[1].n_disorder, ==, 0);
	tear_down();
}

static void nonsense_ends_the_link(void)
{
	set_up(2);
	got[1].is_bad = true;
	REQUIRE_INT(say(0, 1, 0, "a"), ==, 0);
	RUN_UNTIL(seen[0].n_lost == 1);
	CHECK_INT(nodes[1]->peers.n_garbage, ==, 1);
	got[1].is_bad = false;
	got[1].next[0] = 1;
	REQUIRE_INT(say(0, 1, 1, "b"), ==, 0);
	RUN_UNTIL(got[1].n == 1);
	tear_down();
}

static void drained_is_told(void)
{
	Pulc__Peer__Drain drain = PULC__PEER__DRAIN__INIT;
	PSID_PEER_MESSAGE(msg, DRAIN, drain) = &drain;

	set_up(3);
	drain.drained = true;
	REQUIRE_INT(psid_peer_send(nodes[0], nodes[1]->self->id, &msg), ==, 0);
	RUN_UNTIL(psid_node_find_name(nodes[2], "n1")->drained);
	psid_cluster_drain(nodes[1], false);
	RUN_UNTIL(!psid_node_find_name(nodes[0], "n1")->drained);
	CHECK_INT(psid_node_find_name(nodes[0], "n1")->version.minor, ==, 1);
	tear_down();
}

/* Node 1 has something else than node 0: no way in, by either road. */
static void misfit(void (*change)(struct psid_cluster_config *config))
{
	set_up(1);
	change(configure(1));
	start(1);
	nodes[1]->gossip.swim.n_tries = 5;	       /* some seconds later */
	RUN_UNTIL(nodes[1]->gossip.swim.n_tries >= 6); /* and then it inquires */
	for (unsigned i = 0; i < 50; i++)
		(void)uv_run(&loop, UV_RUN_ONCE);
	CHECK_INT(psid_members_of(nodes[0])->n_up, ==, 1);
	CHECK_INT(psid_members_of(nodes[1])->n_up, ==, 1);
	CHECK_INT(nodes[0]->gossip.traffic.n_refused, >, 0);
	tear_down();
}

static void with_other_key(struct psid_cluster_config *config)
{
	(void)strcpy(config->key_file, other_key_path);
}

static void with_other_name(struct psid_cluster_config *config)
{
	(void)strcpy(config->name, "elsewhere");
}

static void another_key_is_no_key(void)
{
	misfit(with_other_key);
}

static void another_cluster_is_none(void)
{
	misfit(with_other_name);
}

static void a_name_is_given_once(void)
{
	set_up(2);
	(void)strcpy(configure(2)->node_name, "n1");
	start(2);
	RUN_UNTIL(nodes[2]->gossip.swim.is_refused);
	CHECK_INT(psid_members_of(nodes[2])->n_up, ==, 1);
	tear_down();
}

/* This process gets no processor for several times as long as a death takes. */
static void a_stall_is_nobodys_death(void)
{
	uint64_t n_sent;

	set_up(3);
	for (unsigned i = 0; i < 3; i++) {
		(void)usleep(1500000);
		n_sent = nodes[0]->gossip.traffic.n_sent;
		RUN_UNTIL(nodes[0]->gossip.traffic.n_sent > n_sent + 30);
	}
	CHECK_INT(seen[0].n_lost + seen[1].n_lost + seen[2].n_lost, ==, 0);
	CHECK(all_know_all(3));
	tear_down();
}

static void lists_of_nodes_serve_for_seeds(void)
{
	set_up(0);
	for (unsigned i = 0; i < 3; i++) {
		struct psid_cluster_config *config = configure(i);

		config->n_seeds = 0;
		for (unsigned j = 0; j < 2; j++) {
			(void)snprintf(config->nodes[j].name, PSID_SIZE_NAME, "n%u", j);
			(void)psid_address_parse(address_of(j), PSID_PORT,
						 &config->nodes[j].address);
		}
		config->n_nodes = 2;
	}
	start(0);
	CHECK_INT(psid_node_find_name(nodes[0], "n1")->state, ==, PSID_NODE_UNKNOWN);
	CHECK_INT(say(0, 0, 0, "me"), ==, 0);
	start(1);
	RUN_UNTIL(all_know_all(2));
	CHECK_INT(psid_cluster_start(&loop, &configs[2], &nodes[2]), ==, -EINVAL);
	nodes[2] = NULL;
	tear_down();
}

static void strangers_are_shown_out(void)
{
	struct sockaddr_storage sa;
	socklen_t size;
	char bytes[64] = "GET / HTTP/1.1\r\nHost: of this service and no other\r\n\r\n";
	int fd;

	set_up(1);
	size = psid_address_to_socket(&nodes[0]->self->address, AF_INET, &sa);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(connect(fd, (struct sockaddr *)&sa, size) == 0);
	REQUIRE(send(fd, bytes, sizeof(bytes), 0) == sizeof(bytes));
	RUN_UNTIL(nodes[0]->peers.n_garbage == 1);
	/* Its greeting comes all the same, and then the end. */
	while (recv(fd, bytes, sizeof(bytes), 0) > 0)
		;
	CHECK_INT(nodes[0]->peers.n_links, ==, 0);
	(void)close(fd);
	/* Who says nothing does not stay. */
	nodes[0]->peers.handshakes.msec = 50;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(connect(fd, (struct sockaddr *)&sa, size) == 0);
	RUN_UNTIL(nodes[0]->peers.n_links == 1);
	RUN_UNTIL(nodes[0]->peers.n_links == 0);
	(void)close(fd);
	tear_down();
}

static const struct test tests[] = {
	TEST(messages_arrive_in_order),
	TEST(to_ourselves_too),
	TEST(large_messages_pass),
	TEST(the_full_say_so),
	TEST(idle_links_close_without_loss),
	TEST(held_links_stay),
	TEST(loss_is_told),
	TEST(the_restarted_are_found_again),
	TEST(nonsense_ends_the_link),
	TEST(drained_is_told),
	TEST(another_key_is_no_key),
	TEST(another_cluster_is_none),
	TEST(a_name_is_given_once),
	TEST(a_stall_is_nobodys_death),
	TEST(lists_of_nodes_serve_for_seeds),
	TEST(strangers_are_shown_out),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
