/*
 * tests/fake_hal.c keeps the contract of hal.h: every capability that a HAL can state is used once
 * as a protocol would use it, and what the contract forbids is noticed.
 */
#include <stdint.h>
#include <stdlib.h>

#include "fake_hal.h"
#include "harness.h"

static const struct hal_frame hello = { .word = 42, .len = 5, .protocol = 7, .kind = 9 };

static int send_hello(struct hal_link *link)
{
	char text[] = "hello";
	struct iovec iov = { text, 5 };

	return link->ops->send(link, &hello, &iov, 1);
}

static void expect_hello(struct hal_link *link)
{
	char buf[8] = "";
	struct iovec iov = { buf, sizeof(buf) };
	struct hal_frame f;

	REQUIRE_INT(link->ops->next(link, &f), ==, 1);
	CHECK_INT(f.word, ==, 42);
	CHECK_INT(f.len, ==, 5);
	CHECK_INT(f.protocol, ==, 7);
	CHECK_INT(f.kind, ==, 9);
	CHECK_INT(link->ops->copy(link, &iov, 1), ==, 5);
	CHECK_STR(buf, "hello");
	link->ops->drop(link);
}

static void time_is_the_tests(void)
{
	const struct fake_config config = {
		.flags = HAL_ORDERED | HAL_RELIABLE,
		.frame_max = 64,
		.n_queue = 2,
		.nsec_delay = 1000,
	};
	struct fake_pair p;
	struct hal_frame f;

	fake_pair_init(&p, &config);
	REQUIRE_INT(p.link[1]->ops->watch(p.link[1], 5, HAL_WATCH_DATA), ==, 0);
	CHECK_INT(p.link[1]->ops->watch(p.link[1], 6, HAL_WATCH_DATA), ==, -ENOSPC);
	CHECK_INT(send_hello(p.link[0]), ==, 0);
	CHECK_INT(send_hello(p.link[0]), ==, 0);
	CHECK_INT(send_hello(p.link[0]), ==, -EAGAIN);
	p.link[0]->ops->tell(p.link[0], HAL_DID_TAKE);
	CHECK_INT(p.n_woken[1], ==, 0);
	p.link[0]->ops->tell(p.link[0], HAL_DID_SEND);
	CHECK_INT(p.n_woken[1], ==, 1);
	CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, 0);
	CHECK(!p.link[1]->ops->pending(p.link[1]));
	p.nsec_now += 1000;
	CHECK(p.link[1]->ops->pending(p.link[1]));
	expect_hello(p.link[1]);
	p.link[1]->ops->unwatch(p.link[1], 5);
	fake_kill_end(&p, 0);
	expect_hello(p.link[1]);
	CHECK_INT(p.link[1]->ops->next(p.link[1], &f), ==, -EPIPE);
	CHECK_INT(send_hello(p.link[1]), ==, -EPIPE);
	CHECK_INT(p.n_violations, ==, 0);
	fake_pair_deinit(&p);
}

static void own_buffers_are_aligned(void)
{
	const struct fake_config config = {
		.flags = HAL_ORDERED | HAL_RELIABLE | HAL_OWN_BUFFERS,
		.frame_max = 256,
		.alignment = 64,
		.n_queue = 8,
	};
	struct fake_pair p;
	void *buf;

	fake_pair_init(&p, &config);
	REQUIRE_INT(p.link[0]->ops->reserve(p.link[0], 64, &buf), ==, 0);
	CHECK_INT((uintptr_t)buf % 64, ==, 0);
	memcpy(buf, "hello", 5);
	CHECK_INT(p.link[0]->ops->commit(p.link[0], &hello), ==, 0);
	expect_hello(p.link[1]);
	CHECK_INT(p.link[0]->ops->reserve(p.link[0], 512, &buf), ==, -EMSGSIZE);
	REQUIRE_INT(p.link[0]->ops->reserve(p.link[0], 128, &buf), ==, 0);
	p.link[0]->ops->cancel(p.link[0]);
	CHECK_INT(p.n_violations, ==, 0);
	/* Not a multiple, and a send() in between. */
	REQUIRE_INT(p.link[0]->ops->reserve(p.link[0], 65, &buf), ==, 0);
	CHECK_INT(p.n_violations, ==, 1);
	CHECK_INT(send_hello(p.link[0]), ==, 0);
	CHECK_INT(p.n_violations, ==, 2);
	fake_pair_deinit(&p);
}

static void gathering_has_an_end(void)
{
	const struct fake_config config = { .frame_max = 64, .n_queue = 8 };
	char text[] = "hello";
	struct iovec iov[2] = { { text, 2 }, { text + 2, 3 } };
	struct fake_pair p;

	fake_pair_init(&p, &config);
	CHECK_INT(p.link[0]->ops->send(p.link[0], &hello, iov, 2), ==, 0);
	CHECK_INT(p.n_violations, ==, 1);
	expect_hello(p.link[1]);
	fake_pair_deinit(&p);
}

static const struct fake_config remote = {
	.flags = HAL_ORDERED | HAL_RELIABLE | HAL_REMOTE_WRITE | HAL_REMOTE_NOTIFY |
		 HAL_REMOTE_KEYS,
	.frame_max = 64,
	.n_gather = 2,
	.alignment = 64,
	.n_queue = 8,
	.nsec_delay = 500,
};

static void remote_writes_end_with_a_frame(void)
{
	static _Alignas(64) char there[192], here[128];
	const struct hal_frame note = { .word = 3, .protocol = 7 };
	struct iovec iov[2] = { { here, 64 }, { here + 64, 64 } };
	struct hal_link *writer;
	struct hal_frame f;
	struct fake_pair p;
	uint64_t key;
	bool done;

	fake_pair_init(&p, &remote);
	writer = p.link[0];
	memset(there, 0, sizeof(there));
	REQUIRE_INT(p.link[1]->ops->expose(p.link[1], there, sizeof(there), &key), ==, 0);
	memset(here, 1, sizeof(here));
	REQUIRE_INT(writer->ops->write(writer, key, 64, iov, 2, &note, &done), ==, 0);
	CHECK_INT(writer->ops->write(writer, key, 64, iov, 2, NULL, &done), ==, -EAGAIN);
	CHECK(!done);
	/* Not done: the writer's bytes are still looked at. */
	here[127] = 2;
	CHECK_INT(writer->ops->progress(writer), ==, 0);
	CHECK(!done && there[64] == 0);
	p.nsec_now += 500;
	CHECK_INT(writer->ops->progress(writer), ==, 0);
	CHECK(done && there[63] == 0 && there[64] == 1 && there[191] == 2);
	REQUIRE_INT(p.link[1]->ops->next(p.link[1], &f), ==, 1);
	CHECK_INT(f.word, ==, 3);
	CHECK_INT(f.len, ==, 0);
	p.link[1]->ops->drop(p.link[1]);
	CHECK_INT(writer->ops->write(writer, key, 1, iov, 1, NULL, &done), ==, -EINVAL);
	iov[0].iov_len = 63;
	CHECK_INT(writer->ops->write(writer, key, 0, iov, 1, NULL, &done), ==, -EINVAL);
	CHECK_INT(p.n_violations, ==, 0);
	fake_pair_deinit(&p);
}

static void wrong_keys_break_the_writer(void)
{
	static _Alignas(64) char there[64], here[64];
	struct iovec iov = { here, 64 };
	struct fake_pair p;
	uint64_t key;
	bool done;

	for (unsigned what = 0; what < 3; what++) {
		fake_pair_init(&p, &remote);
		REQUIRE_INT(p.link[1]->ops->expose(p.link[1], there, 64, &key), ==, 0);
		if (what == 2)
			p.link[1]->ops->conceal(p.link[1], key);
		CHECK_INT(p.link[0]->ops->write(p.link[0], key + (what == 0), what == 1 ? 64 : 0,
						&iov, 1, NULL, &done),
			  ==, -EPIPE);
		CHECK_INT(send_hello(p.link[0]), ==, -EPIPE);
		CHECK_INT(send_hello(p.link[1]), ==, -EPIPE);
		fake_pair_deinit(&p);
	}
}

static void take_unless(struct hal_link *link, void *arg)
{
	if (!*(const bool *)arg)
		expect_hello(link);
}

static void immediate_is_taken_or_not_sent(void)
{
	const struct fake_config config = {
		.flags = HAL_ORDERED | HAL_RELIABLE | HAL_IMMEDIATE,
		.frame_max = 64,
		.n_queue = 8,
	};
	struct fake_pair p;
	struct hal_frame f;
	bool refuses = false;

	fake_pair_init(&p, &config);
	p.link[0]->arrived = take_unless;
	p.link[0]->arg = &refuses;
	CHECK_INT(send_hello(p.link[0]), ==, 0);
	refuses = true;
	CHECK_INT(send_hello(p.link[0]), ==, -EAGAIN);
	CHECK_INT(p.link[0]->ops->next(p.link[0], &f), ==, 0);
	fake_pair_deinit(&p);
}

static void a_seed_decides_everything(void)
{
	const struct fake_config config = {
		.frame_max = 64,
		.n_queue = 10000,
		.seed = 5,
		.n_lost = 300,
		.n_twice = 200,
		.n_late = 100,
		.nsec_late = 1000,
	};
	struct fake_pair p, q;

	fake_pair_init(&p, &config);
	fake_pair_init(&q, &config);
	for (unsigned i = 0; i < 1000; i++) {
		CHECK_INT(send_hello(p.link[0]), ==, 0);
		CHECK_INT(send_hello(q.link[0]), ==, 0);
	}
	CHECK_INT(p.n_lost, >, 200);
	CHECK_INT(p.n_lost, <, 400);
	CHECK_INT(p.n_lost, ==, q.n_lost);
	CHECK_INT(p.end[1].n_queue, ==, q.end[1].n_queue);
	CHECK_INT(p.end[1].n_queue, !=, 1000 - p.n_lost);
	fake_pair_deinit(&p);
	fake_pair_deinit(&q);
}

static const struct test tests[] = {
	TEST(time_is_the_tests),	   TEST(own_buffers_are_aligned),
	TEST(gathering_has_an_end),	   TEST(remote_writes_end_with_a_frame),
	TEST(wrong_keys_break_the_writer), TEST(immediate_is_taken_or_not_sent),
	TEST(a_seed_decides_everything),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
