/*
 * Long messages by either way, out of the sender's memory or through the ring, one after the other
 * and many under way, of which short ones are fetched together: the same bytes; which way is taken,
 * and that a process which is not who it should be is not read.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "native.h"
#include "psid/native_case.h"
#include "rawsys.h"

#define LEN_LONG (3u << 20)
#define N_MESSAGES 200u

static unsigned char buf[LEN_LONG], other_buf[LEN_LONG];
static const struct pulc_tag anything = { .peer = PULC_ANY_PEER };
static const char *setting;

/* Some places forbid it to processes that are not each other's parents. They are forked from one,
 * so things lie at the same place. */
static bool kernel_allows(uint32_t pid)
{
	static char byte;
	char to;
	struct iovec here = { &to, 1 }, there = { &byte, 1 };

	return raw_syscall(SYS_process_vm_readv, (pid_t)pid, &here, 1, &there, 1, 0) == 1;
}

static void send_long_ones(void)
{
	uint32_t peer = native_peer_named("sink");

	for (unsigned i = 0; i < N_MESSAGES; i++) {
		size_t len = 16385 + (size_t)i * 1777 + (i % 50 == 0 ? 2000000 : 0);

		native_fill(buf, len, i);
		MUST_IS(pulc_tag_send(peer, i, buf, len), (ssize_t)len);
	}
	native_await(1);
}

static bool allowed;

static void receive_long_ones(struct pulc_tag_path *ret_path)
{
	pulc_port *p;
	struct pulc_tagged m;
	ssize_t len;

	if (setting)
		(void)setenv("PULC_PULL", setting, 1);
	p = native_open(PULC_D, "sink");
	for (unsigned i = 0; i < N_MESSAGES; i++) {
		size_t room = i % 7 == 0 ? 30000 : LEN_LONG;

		len = pulc_tag_receive(&anything, other_buf, room, &m);
		MUST(len == (ssize_t)(m.size < room ? m.size : room));
		MUST(m.tag == i && native_holds(other_buf, (size_t)len, i));
	}
	allowed = kernel_allows(native_peer(m.peer)->pid);
	MUST_IS(pulc_tag_path(m.peer, ret_path), 0);
	MUST_IS(pulc_tag_path(4000000, ret_path), -ECONNRESET);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void ask_always(void)
{
	struct pulc_tag_path path;

	receive_long_ones(&path);
	MUST(path.n_pulled == 0 && path.n_pushed == N_MESSAGES && !path.may_pull);
	MUST(path.mbs_pushed > 0 && path.mbs_pulled == 0);
}

static void fetch_always(void)
{
	struct pulc_tag_path path;

	receive_long_ones(&path);
	if (path.may_pull)
		MUST(path.n_pulled == N_MESSAGES && path.n_pushed == 0 && path.mbs_pulled > 0);
	else
		MUST(path.n_pulled == 0 && path.n_pushed == N_MESSAGES);
	MUST(path.may_pull == allowed);
}

static void choose(void)
{
	struct pulc_tag_path path;

	receive_long_ones(&path);
	MUST_IS(path.n_pulled + path.n_pushed, N_MESSAGES);
	MUST(!path.may_pull ||
	     (path.n_pulled && path.n_pushed && path.mbs_pulled > 0 && path.mbs_pushed > 0));
}

/* Its own processor would have to push. */
static void send_while_computing(void)
{
	MUST_IS(pulc_progress_thread(true), 0);
	send_long_ones();
	MUST_IS(pulc_progress_thread(false), 0);
}

static void fetch_from_who_computes(void)
{
	struct pulc_tag_path path;

	receive_long_ones(&path);
	MUST_IS(path.may_pull ? path.n_pulled : path.n_pushed, N_MESSAGES);
}

static void both_ways(void)
{
	setting = "0";
	NATIVE_RUN(send_long_ones, ask_always);
	setting = "1";
	NATIVE_RUN(send_long_ones, fetch_always);
	setting = NULL;
	NATIVE_RUN(send_long_ones, choose);
	NATIVE_RUN(send_while_computing, fetch_from_who_computes);
}

/* ---- several under way ----------------------------------------------------------------------- */

#define N_SEVERAL 24u
#define LEN_PLACE (LEN_LONG / N_SEVERAL)

/* From just too long to be sent at once to more than is fetched together. */
static size_t len_of_several(unsigned i)
{
	return 16385 + (size_t)(i * 7 % 12) * 9319;
}

static void end_all(pulc_op **ops)
{
	for (unsigned i = 0; i < N_SEVERAL; i++)
		MUST_IS(pulc_op_end(ops[i], NULL), (ssize_t)len_of_several(i));
}

static void send_several(void)
{
	uint32_t peer = native_peer_named("sink");
	pulc_op *ops[N_SEVERAL];

	for (unsigned i = 0; i < N_SEVERAL; i++) {
		unsigned char *at = buf + i * LEN_PLACE;

		native_fill(at, len_of_several(i), i);
		MUST_IS(pulc_tag_isend(peer, i, at, len_of_several(i), &ops[i]), 0);
	}
	end_all(ops);
	native_await(1);
}

static size_t room_of(unsigned i)
{
	return i % 5 == 3 ? len_of_several(i) / 2 : LEN_PLACE;
}

static void post_several(pulc_op **ops)
{
	struct pulc_tag want = { .mask = PULC_TAG_EXACT, .peer = PULC_ANY_PEER };

	memset(other_buf, 0xee, LEN_LONG);
	for (unsigned i = 0; i < N_SEVERAL; i++) {
		want.tag = i;
		MUST_IS(pulc_tag_ireceive(&want, other_buf + i * LEN_PLACE, room_of(i), &ops[i]),
			0);
	}
}

/* Returns who has sent them. */
static uint32_t have_several(pulc_op **ops)
{
	struct pulc_tagged m = { 0 };

	for (unsigned i = 0; i < N_SEVERAL; i++) {
		const unsigned char *at = other_buf + i * LEN_PLACE;
		size_t len = MIN(len_of_several(i), room_of(i));

		MUST_IS(pulc_tag_end(ops[i], &m), (ssize_t)len);
		MUST(m.tag == i && m.size == len_of_several(i));
		MUST(native_holds(at, len, i));
		MUST(at[len] == 0xee && at[LEN_PLACE - 1] == 0xee);
	}
	return m.peer;
}

static void receive_several(void)
{
	pulc_port *p;
	pulc_op *ops[N_SEVERAL];
	struct pulc_tag_path path;

	(void)setenv("PULC_PULL", setting, 1);
	p = native_open(PULC_D, "sink");
	post_several(ops);
	MUST_IS(pulc_tag_path(have_several(ops), &path), 0);
	MUST_IS(path.may_pull ? path.n_pulled : path.n_pushed, N_SEVERAL);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void several_under_way(void)
{
	setting = "0";
	NATIVE_RUN(send_several, receive_several);
	setting = "1";
	NATIVE_RUN(send_several, receive_several);
}

/* ---- somebody else --------------------------------------------------------------------------- */

static void send_two(void)
{
	uint32_t peer = native_peer_named("sink");

	native_fill(buf, LEN_LONG, 3);
	MUST_IS(pulc_tag_send(peer, 1, buf, LEN_LONG), LEN_LONG);
	MUST_IS(pulc_tag_send(peer, 2, buf, LEN_LONG), LEN_LONG);
	native_await(1);
}

/* The number of the process is another one's by now, with memory at the same place: ours. */
static void take_for_us(struct pulc_tagged *ret_message)
{
	memset(buf, 'n', LEN_LONG);
	MUST_IS(pulc_tag_probe(&anything, -1, ret_message), 1);
	MUST(native_lock());
	MUST(native_peer(ret_message->peer)->pid > 1);
	native_peer(ret_message->peer)->pid = (uint32_t)getpid();
	native_unlock();
}

static void meet_another(void)
{
	struct pulc_tag_path path;
	struct pulc_tagged m;
	pulc_port *p;

	(void)setenv("PULC_PULL", "1", 1);
	p = native_open(PULC_D, "sink");
	take_for_us(&m);
	for (unsigned i = 0; i < 2; i++) {
		memset(other_buf, 0, LEN_LONG);
		MUST_IS(pulc_tag_receive(&anything, other_buf, LEN_LONG, &m), LEN_LONG);
		MUST(native_holds(other_buf, LEN_LONG, 3));
	}
	MUST_IS(pulc_tag_path(m.peer, &path), 0);
	MUST(!path.may_pull && path.n_pulled == 0 && path.n_pushed == 2);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* All that were to be fetched with the first one are asked for. */
static void meet_several(void)
{
	struct pulc_tag_path path;
	struct pulc_tagged m;
	pulc_op *ops[N_SEVERAL];
	pulc_port *p;

	(void)setenv("PULC_PULL", "1", 1);
	p = native_open(PULC_D, "sink");
	take_for_us(&m);
	post_several(ops);
	MUST_IS(pulc_tag_path(have_several(ops), &path), 0);
	MUST(!path.may_pull && path.n_pulled == 0 && path.n_pushed == N_SEVERAL);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* Psid's word: who is at the other end, and not who says so. */
static void know_each_other(void)
{
	uint32_t peer = native_peer_named("sink");

	MUST_IS(pulc_tag_send(peer, 1, &(uint32_t){ (uint32_t)getpid() }, 4), 4);
	native_await(1);
}

static void know_its_number(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_tagged m;
	uint32_t pid;

	MUST_IS(pulc_tag_receive(&anything, &pid, sizeof(pid), &m), 4);
	MUST(native_lock());
	MUST_IS(native_peer(m.peer)->pid, pid);
	native_unlock();
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void somebody_else_is_not_read(void)
{
	NATIVE_RUN(know_each_other, know_its_number);
	NATIVE_RUN(send_two, meet_another);
	NATIVE_RUN(send_several, meet_several);
}

static const struct test tests[] = {
	TEST(both_ways),
	TEST(several_under_way),
	TEST(somebody_else_is_not_read),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
