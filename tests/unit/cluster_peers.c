/* Peers: what they say to each other arrives, in order and once, whatever happens to connections
 * and nodes. */
#include <sys/resource.h>
#include <sys/socket.h>

#include "clock.h"
#include "cluster_bed.h"

/* ---- tests ----------------------------------------------------------------------------------- */

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
	/* The other's is left as it is: where this process gets no processor, 20 ms are soon
	 * over. */
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

static bool knows_life(unsigned i, unsigned j)
{
	const struct psid_node *node = psid_node_find(nodes[i], nodes[j]->self->id);

	return node && node->life == nodes[j]->self->life;
}

/* Its clock goes back before each start, oftener than anybody remembers starts. */
static void clocks_that_go_back_keep_nobody_out(void)
{
	set_up(2);
	for (unsigned i = 0; i < 12; i++) {
		nodes[1]->self->life += 3600000;
		psid_swim_touch(&nodes[1]->gossip.swim, psid_usec_now());
		psid_gossip_kick(nodes[1]);
		RUN_UNTIL(knows_life(0, 1));
		kill_node(1);
		start(1);
		RUN_UNTIL(knows_life(0, 1) && all_know_all(2));
	}
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

/* Nobody is let in, and the loop does not turn for that; later he is. */
static void no_descriptors_at_the_door(void)
{
	struct sockaddr_storage sa;
	struct rlimit before, none;
	uint64_t nsec_end;
	unsigned n = 0;
	socklen_t size;
	int fd;

	set_up(1);
	size = psid_address_to_socket(&nodes[0]->self->address, AF_INET, &sa);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(connect(fd, (struct sockaddr *)&sa, size) == 0);
	REQUIRE_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
	none = (struct rlimit){ (rlim_t)fd + 1, before.rlim_max };
	REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
	for (nsec_end = nsec_now() + NSEC_PER_SEC; nsec_now() < nsec_end; n++)
		(void)uv_run(&loop, UV_RUN_ONCE);
	CHECK_INT(nodes[0]->peers.n_links, ==, 0);
	CHECK_INT(n, <, 500);
	REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
	RUN_UNTIL(nodes[0]->peers.n_links == 1);
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
	TEST(clocks_that_go_back_keep_nobody_out),
	TEST(nonsense_ends_the_link),
	TEST(drained_is_told),
	TEST(another_key_is_no_key),
	TEST(another_cluster_is_none),
	TEST(a_name_is_given_once),
	TEST(a_stall_is_nobodys_death),
	TEST(lists_of_nodes_serve_for_seeds),
	TEST(strangers_are_shown_out),
	TEST(no_descriptors_at_the_door),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
