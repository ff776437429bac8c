/* libpulc/receive.c: a process whose table of descriptors is full gets its memory nevertheless. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "client.h"
#include "psid/native_case.h"

#define N_FDS 64
#define N_MESSAGES 20u

/* psid is called, and then, before its answer is read, nothing is free, not even of the numbers
 * that are PULC's. */
static void attach_with_full_table(void)
{
	struct rlimit few = { N_FDS, N_FDS };

	MUST(client_lock());
	MUST_IS(client_attach(), 0);
	client_unlock();
	MUST_IS(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	MUST_IS(errno, EMFILE);
	MUST_IS(pulc_attach(), 0);
}

static void receive(void)
{
	unsigned char buf[16];
	pulc_port *p;

	attach_with_full_table();
	p = native_open(PULC_D, "sink");
	for (unsigned i = 0; i < N_MESSAGES; i++) {
		MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), sizeof(buf));
		MUST(native_holds(buf, sizeof(buf), i));
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void send_with_room(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	unsigned char buf[16];

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		native_fill(buf, sizeof(buf), i);
		MUST_IS(pulc_send(p, &to, buf, sizeof(buf), 0), sizeof(buf));
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void send_without_room(void)
{
	attach_with_full_table();
	send_with_room();
}

static void a_full_table_hinders_nobody(void)
{
	NATIVE_RUN(receive, send_with_room);
	NATIVE_RUN(receive, send_without_room);
}

static const struct test tests[] = {
	TEST(a_full_table_hinders_nobody),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
