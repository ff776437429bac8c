/*
 * The gossip: datagrams as the network may deliver them, sealed or not, and bodies as one who has
 * the key may write them. A few nodes' worth of state is built up before it is thrown away.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "seal.h"
#include "swim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_send(void *data, const struct psid_address *to, const uint8_t *body, size_t len)
{
	(void)data;
	(void)to;
	if (len > PSID_SWIM_SIZE_MAX || (len > 0 && body[0] > 10))
		abort();
}

static void on_changed(void *data, struct psid_node *node, enum psid_node_state before, bool is_new)
{
	(void)data;
	(void)before;
	(void)is_new;
	if (!psid_node_name_ok(node->name, strlen(node->name)))
		abort();
}

/* Each piece: who seems to have sent it and in which life, its length, a body. */
static void feed(struct psid_swim *swim, const uint8_t *data, size_t size)
{
	struct psid_origin from = {
		.address = { .ip = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .port = 7852 },
	};
	uint64_t usec = 1000000;

	while (size >= 3) {
		size_t len = (size_t)(data[1] << 8 | data[2]) % PSID_SWIM_SIZE_MAX;
		char name[3] = { 'n', (char)('0' + data[0] % 8), '\0' };

		from.id = psid_node_id(name);
		from.life = data[0] / 8;
		data += 3;
		size -= 3;
		if (len > size)
			len = size;
		psid_swim_receive(swim, usec, &from, data, len);
		(void)psid_swim_run(swim, usec);
		usec += 100000;
		data += len;
		size -= len;
	}
	for (unsigned i = 0; i < 20; i++)
		(void)psid_swim_run(swim, usec += 100000);
}

static void unseal(const uint8_t *data, size_t size)
{
	static const struct psid_keyring ring = {
		.keys = { { .gossip = { 1 } }, { .gossip = { 2 } } }, .n = 2
	};
	static const struct psid_node self = { .id = 1, .life = 1 };
	static const struct psid_members members;
	uint8_t body[4096];
	struct psid_seal seal;
	struct psid_origin by;

	if (size > sizeof(body) || psid_seal_init(&seal, &ring, &members, &self) < 0)
		return;
	(void)psid_seal_open(&seal, data, size, body, &by);
	psid_seal_deinit(&seal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct psid_swim_ops ops = { .send = on_send, .changed = on_changed };
	const struct psid_swim_params params = { .usec_period = 250000, .n_nodes_max = 16 };
	const struct psid_address address = { .port = 7852 };
	static struct psid_swim swim;

	if (size > 0 && data[0] == 0) {
		unseal(data + 1, size - 1);
		return 0;
	}
	if (psid_swim_init(&swim, &params, &ops, NULL) < 0 ||
	    psid_swim_be(&swim, "n0", &address, 1000) < 0)
		return 0;
	psid_swim_start(&swim, 0);
	feed(&swim, data, size);
	psid_swim_deinit(&swim);
	return 0;
}
