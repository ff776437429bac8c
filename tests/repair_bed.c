/* What the tests of the repair layer do with every pair: open it, move its time, send and expect
 * frames. */
#include "repair_bed.h"

#include "harness.h"

const struct fake_config bed_usual = {
	.frame_max = 1024,
	.n_queue = 4096,
	.nsec_delay = MSEC / 10,
};

void bed_init(struct bed *b, const struct fake_config *fake, const struct hal_repair_config *repair)
{
	struct hal_repair_config config = { 0 };

	if (repair)
		config = *repair;
	fake_pair_init(&b->fake, fake);
	config.nsec_now = fake_pair_now;
	config.arg = &b->fake;
	for (int i = 0; i < 2; i++)
		REQUIRE_INT(hal_repair_open(b->fake.link[i], &config, &b->link[i]), ==, 0);
}

void bed_deinit(struct bed *b)
{
	for (int i = 0; i < 2; i++)
		b->link[i]->ops->close(b->link[i]);
	CHECK_INT(b->fake.n_violations, ==, 0);
}

void bed_step(void *bed)
{
	struct bed *b = bed;

	b->fake.nsec_now += MSEC / 10;
	for (int i = 0; i < 2; i++)
		CHECK_INT(b->link[i]->ops->progress(b->link[i]), ==, 0);
}

int bed_send(struct hal_link *link, uint64_t word, uint32_t len)
{
	static unsigned char buf[65536];
	struct hal_frame f = { .word = word, .len = len, .protocol = 7, .kind = (uint16_t)word };
	struct iovec iov[3] = { { buf, len / 3 }, { buf, 0 }, { buf + len / 3, len - len / 3 } };

	for (uint32_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(word * 31 + i * 7 + (i >> 8));
	return link->ops->send(link, &f, iov, 3);
}

void bed_expect(struct hal_link *link, uint64_t word, uint32_t len)
{
	static unsigned char buf[65536];
	struct iovec iov[2] = { { buf, len / 2 }, { buf + len / 2, sizeof(buf) - len / 2 } };
	struct hal_frame f;

	REQUIRE_INT(link->ops->next(link, &f), ==, 1);
	CHECK_INT(f.word, ==, word);
	CHECK_INT(f.protocol, ==, 7);
	CHECK_INT(f.kind, ==, (uint16_t)word);
	REQUIRE_INT(f.len, ==, len);
	CHECK_INT(link->ops->copy(link, iov, 2), ==, len);
	for (uint32_t i = 0; i < len; i++)
		REQUIRE_INT(buf[i], ==, (unsigned char)(word * 31 + i * 7 + (i >> 8)));
	link->ops->drop(link);
}
