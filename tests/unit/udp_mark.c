/* protocols/udp_state.c, udp_receive.c: what has come on all flows is counted while flows end, and
 * never less than before. */
#include <pthread.h>

#include "harness.h"
#include "queue.h"
#include "tcp_pair.h"
#include "udp.h"

/* So often that one of them meets a look. */
#define N_ENDS 100000u

static const uint32_t size_ring[SHM_N_RINGS] = { 4096, 8192, 16384, 32768, 65536 };

static struct {
	struct tcp_pair pair; /* its rings, as a flow's */
	struct udp_flow flow;
	struct udp rx;
	_Atomic bool enough;
} v;

static void begin(void)
{
	struct udp_flow sender;
	uint32_t what = 7;
	struct iovec iov = { .iov_base = &what, .iov_len = sizeof(what) };

	tcp_pair_init(&v.pair, size_ring);
	sender = (struct udp_flow){ .ring = v.pair.tcp[0].ring, .size_max = 8192 };
	sender.kernel_seen = udp_kernel_sends(sender.port);
	v.flow = (struct udp_flow){ .ring = v.pair.tcp[1].ring };
	v.rx = (struct udp){ .n_flows = 0 };
	shm_notice_set(&v.pair.tcp[1].ring, SHM_RX_READY);
	REQUIRE_INT(udp_push(&sender, &iov, 1, sizeof(what)), ==, sizeof(what));
}

/* One flow after the other, in each of which something has come. */
static void *end_flows(void *unused)
{
	for (unsigned i = 0; i < N_ENDS; i++) {
		(void)udp_add(&v.rx, -1, &v.flow);
		udp_remove(&v.rx, &v.flow);
	}
	atomic_store(&v.enough, true);
	return unused;
}

static void what_a_flow_had_counted_is_never_missing(void)
{
	uint64_t before = 0, now;
	unsigned n_missing = 0;
	pthread_t thread;

	begin();
	REQUIRE_INT(pthread_create(&thread, NULL, end_flows, NULL), ==, 0);
	while (!atomic_load(&v.enough)) {
		now = udp_mark(&v.rx);
		n_missing += now < before;
		before = now;
	}
	REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
	CHECK_INT(n_missing, ==, 0);
	CHECK_INT(udp_mark(&v.rx), ==, N_ENDS * shm_mark(&v.flow.ring));
	tcp_pair_deinit(&v.pair);
}

static const struct test tests[] = {
	TEST(what_a_flow_had_counted_is_never_missing),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
