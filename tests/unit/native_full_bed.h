/*
 * A process that has as much unread at another as it may (PORT_PEER_LONG), for tests of what a
 * long datagram to yet another port of that one does.
 */
#ifndef PULC_TESTS_NATIVE_FULL_BED_H
#define PULC_TESTS_NATIVE_FULL_BED_H

#include "psid/native_case.h"

#define N_FULL 6u /* of SIZE_MOST: all that may be unread */
#define SIZE_MOST (16u << 20)
#define LEN (1u << 20)
#define MSEC_PATIENCE 40000

static unsigned char most[SIZE_MOST], message[LEN], buf[LEN];
static pulc_port *full[N_FULL];

static void fill_up(const char *name)
{
	struct pulc_address unread = native_find(name);

	for (unsigned i = 0; i < N_FULL; i++) {
		full[i] = native_open(PULC_D, NULL);
		MUST_IS(pulc_send(full[i], &unread, most, SIZE_MOST, 0), SIZE_MOST);
	}
}

static void close_all(void)
{
	for (unsigned i = 0; i < N_FULL; i++)
		MUST_IS(pulc_port_close(full[i]), 0);
}

#endif
