/* libpulc's streams, upgraded, with a peer that does what the test makes it do. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pulc/process.h>

#include "private.h"
#include "psid/fake_client.h"
#include "psid/fork_here.h"
#include "upgrade.h"

#define TOKEN 1u
#define N_TURNS 30000
#define MSEC_PATIENCE 30000 /* less than psid's, below */
#define NSEC_WAIT 300000000l
/* Of those, what a thread may compute that has nothing to do but wait. */
#define NSEC_IDLE 100000000l

static struct daemon psid;
static struct fake_client peer;
static int fds[2]; /* ours, the peer's */
static pulc_stream *stream;

/* One psid for all: the library remembers where it found it. */
static void begin(void)
{
	static const char *const settings[] = { "PULC_HAND_OVER_MSEC=60000", NULL };

	if (!psid.pid)
		daemon_start(&psid, false, settings);
	(void)unsetenv("PULC_SOCKET");
	(void)setenv("PULC_RUNTIME_DIR", psid.dir, 1);
	fake_attach(&peer, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	REQUIRE_INT(pulc_stream_new(fds[0], PULC_CONNECTED, &stream), ==, 0);
	for (unsigned i = 0; i <= client_hint_after(); i++)
		upgrade_step(stream, fds[0]);
	REQUIRE_INT(atomic_load(&stream->state), ==, STREAM_HINTED);
	fake_hint(&peer, fds[1], TOKEN, false);
	(void)EXPECT(&peer, WANT);
}

static void end(void)
{
	pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	tcp_close_pair(fds);
	fake_close(&peer);
}

/* Looks at the channel until the stream has left this state. */
static void look_while(int state)
{
	for (unsigned i = 0; i < N_TURNS && atomic_load(&stream->state) == state; i++) {
		REQUIRE(client_lock());
		client_look();
		client_unlock();
		(void)poll(NULL, 0, 1);
	}
}

static void give(void)
{
	look_while(STREAM_HINTED);
	REQUIRE_INT(atomic_load(&stream->state), ==, STREAM_GIVEN);
	fake_socket(&peer, fds[1], TOKEN);
}

/* The side of the peer, whom psid has told of the upgrade. */
static struct shm_side *peer_side(void)
{
	const Pulc__Wire__Upgrade *m = EXPECT(&peer, UPGRADE)->upgrade;

	REQUIRE(m->own_slab_fd);
	return fake_side(peer.fds[0], m->own->size, m->own_slot);
}

static long cpu_time(void)
{
	struct timespec ts;

	REQUIRE(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == 0);
	return ts.tv_sec * 1000000000l + ts.tv_nsec;
}

/* ---- ends that are none ---------------------------------------------------------------------- */

static void a_word_of_the_end_alone_wakes_once(uint64_t word, int flags)
{
	struct timeval most = { .tv_usec = NSEC_WAIT / 1000 };
	struct shm_side *side;
	long before;
	char byte;

	begin();
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0);
	give();
	side = peer_side();
	look_while(STREAM_GIVEN);
	REQUIRE(pulc_stream_attached(stream));
	atomic_store(&side->tx_mode, SHM_TX_RING);
	(void)atomic_fetch_or(&side->notice, SHM_RX_READY | word);
	before = cpu_time();
	CHECK_INT(pulc_stream_recv(stream, fds[0], &byte, 1, flags), ==, -EAGAIN);
	CHECK_INT(cpu_time() - before, <, NSEC_IDLE);
	end();
}

static void a_fin_that_does_not_come(void)
{
	a_word_of_the_end_alone_wakes_once(SHM_TX_FIN, 0);
}

static void a_close_that_does_not_come(void)
{
	a_word_of_the_end_alone_wakes_once(SHM_TX_FIN | SHM_CLOSED, MSG_PEEK);
}

/* A receive of one who has left waits until the peer has decided; not longer than it may. */
static void a_peer_that_does_not_decide(void)
{
	struct timeval most = { .tv_usec = NSEC_WAIT / 1000 };
	struct shm_side *side;
	char byte;

	begin();
	give();
	side = peer_side();
	look_while(STREAM_GIVEN);
	REQUIRE(pulc_stream_attached(stream));
	atomic_store(&side->tx_mode, SHM_TX_RING);
	atomic_store(&side->head, 1);
	(void)atomic_fetch_or(&side->notice, SHM_RX_READY);
	stream_downgrade(stream, fds[0], false);
	REQUIRE(tcp_has_left(&stream->tcp));
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0);
	pulc_stream_option_changed(stream, fds[0], SOL_SOCKET, SO_RCVTIMEO);
	(void)atomic_fetch_or(&side->notice, SHM_DECIDES);
	CHECK_INT(pulc_stream_recv(stream, fds[0], &byte, 1, 0), ==, -EAGAIN);
	(void)atomic_fetch_and(&side->notice, ~(uint64_t)SHM_DECIDES);
	end();
}

/* ---- bytes under way through the kernel ------------------------------------------------------ */

#define IN_RING 4

/* The peer has begun its ring with some bytes, and before these there is one that it has not
 * written yet. */
static struct shm_side *begin_behind_a_byte(void)
{
	struct shm_side *side;

	begin();
	give();
	side = peer_side();
	look_while(STREAM_GIVEN);
	REQUIRE(pulc_stream_attached(stream));
	atomic_store(&side->kernel_at, 1);
	atomic_store(&side->tx_mode, SHM_TX_RING);
	atomic_store(&side->head, IN_RING);
	(void)atomic_fetch_or(&side->notice, SHM_RX_READY);
	return side;
}

/* Neither says that there is something, nor looks for it all the time. */
static void a_receive_waits_for_bytes_under_way(int flags)
{
	struct timeval most = { .tv_usec = NSEC_WAIT / 1000 };
	char buf[1 + IN_RING];
	long before;

	(void)begin_behind_a_byte();
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0);
	pulc_stream_option_changed(stream, fds[0], SOL_SOCKET, SO_RCVTIMEO);
	CHECK_INT(pulc_stream_ready(stream, fds[0], POLLIN) & POLLIN, ==, 0);
	CHECK_INT(pulc_stream_poll(stream, fds[0], POLLIN), ==, 0);
	before = cpu_time();
	CHECK_INT(pulc_stream_recv(stream, fds[0], buf, sizeof(buf), flags), ==, -EAGAIN);
	CHECK_INT(cpu_time() - before, <, NSEC_IDLE);
	REQUIRE_INT(send(fds[1], "x", 1, 0), ==, 1);
	CHECK_INT(pulc_stream_recv(stream, fds[0], buf, sizeof(buf), flags), ==, sizeof(buf));
	end();
}

static void a_receive_of_bytes_under_way(void)
{
	a_receive_waits_for_bytes_under_way(0);
}

static void a_peek_at_bytes_under_way(void)
{
	a_receive_waits_for_bytes_under_way(MSG_PEEK);
}

static void a_peek_at_all_with_bytes_under_way(void)
{
	a_receive_waits_for_bytes_under_way(MSG_PEEK | MSG_WAITALL);
}

static void *send_byte(void *arg)
{
	(void)arg;
	(void)poll(NULL, 0,
		   20); /* most likely the receiver sleeps by then; if not, it finds the byte */
	REQUIRE_INT(send(fds[1], "x", 1, 0), ==, 1);
	return NULL;
}

static void a_byte_that_comes_at_last_wakes(void)
{
	char buf[1 + IN_RING];
	pthread_t sender;

	(void)begin_behind_a_byte();
	REQUIRE_INT(pthread_create(&sender, NULL, send_byte, NULL), ==, 0);
	CHECK_INT(pulc_stream_recv(stream, fds[0], buf, sizeof(buf), 0), ==, sizeof(buf));
	REQUIRE_INT(pthread_join(sender, NULL), ==, 0);
	end();
}

/* ---- room that nobody told of ---------------------------------------------------------------- */

/* A brother took bytes and was killed before he told of their room: who goes to sleep tells the
 * sender, whatever he sleeps for. */
static void room_is_told_of_before_a_sleep(void)
{
	struct shm_side *side, *own;
	pulc_waitset *set;

	side = begin_behind_a_byte();
	own = stream->tcp.ring.own;
	atomic_store(&own->rx_taken, IN_RING);
	set = pulc_waitset_mine();
	REQUIRE(set != NULL);
	CHECK_INT(pulc_stream_watch(stream, set, 0, POLLIN), ==, 0);
	CHECK_INT(atomic_load(&own->tail), ==, IN_RING);
	pulc_stream_unwatch(stream, set, 0);
	atomic_store(&side->tx_mode, SHM_TX_ENDED);
	end();
}

/* ---- numbers that were given out again ------------------------------------------------------- */

/* As a program does that keeps the connection under another number: ours becomes a foreign
 * socket. */
static void take_number(int foreign[2])
{
	int kept = dup(fds[0]);

	REQUIRE(kept >= 0);
	tcp_connect_pair(foreign, AF_INET);
	REQUIRE(dup2(foreign[0], fds[0]) == fds[0]);
	(void)close(foreign[0]);
	foreign[0] = fds[0];
	fds[0] = kept;
}

static void a_foreign_socket_is_not_given(void)
{
	int foreign[2];

	begin();
	take_number(foreign);
	look_while(STREAM_HINTED);
	CHECK_INT(atomic_load(&stream->state), ==, STREAM_FRESH);
	tcp_close_pair(foreign);
	end();
}

static void a_foreign_socket_is_not_upgraded(void)
{
	int foreign[2];

	begin();
	give();
	take_number(foreign);
	look_while(STREAM_GIVEN);
	CHECK_INT(atomic_load(&stream->state), ==, STREAM_NEVER);
	CHECK(!pulc_socket_is_upgraded(foreign[0]));
	CHECK(!pulc_socket_is_upgraded(fds[0]));
	CHECK_INT(send(fds[0], "x", 1, 0), ==, 1); /* the connection is the kernel's, and lives */
	tcp_close_pair(foreign);
	end();
}

/* psid holds the socket, and would for longer than anybody waits. */
static void closed_after_it_was_kept_on_the_kernel(void)
{
	struct pollfd end_of_stream = { .events = POLLIN };
	char byte;

	begin();
	look_while(STREAM_HINTED);
	REQUIRE_INT(atomic_load(&stream->state), ==, STREAM_GIVEN);
	pulc_stream_keep_on_kernel(stream, fds[0], PULC_REASON_UNSUPPORTED);
	CHECK_INT(atomic_load(&stream->state), ==, STREAM_NEVER);
	pulc_stream_closing(stream, fds[0]);
	(void)close(fds[0]);
	end_of_stream.fd = fds[1];
	CHECK_INT(poll(&end_of_stream, 1, MSEC_PATIENCE), ==, 1);
	CHECK_INT(recv(fds[1], &byte, 1, MSG_DONTWAIT), ==, 0);
	stream = pulc_stream_unref(stream);
	(void)close(fds[1]);
	fake_close(&peer);
}

/* ---- what is owed to a peer that leaves ------------------------------------------------------ */

static void check_came(const char *bytes)
{
	char buf[16];
	size_t len = strlen(bytes);

	CHECK_INT(recv(fds[1], buf, sizeof(buf), MSG_DONTWAIT), ==, len ? (ssize_t)len : -1);
	CHECK(memcmp(buf, bytes, len) == 0);
}

/* Three bytes lie in our ring. */
static struct shm_side *begin_in_ring(void)
{
	struct shm_side *side;

	begin();
	client_prepare();
	give();
	side = peer_side();
	look_while(STREAM_GIVEN);
	REQUIRE(pulc_stream_attached(stream));
	(void)atomic_fetch_or(&side->notice, SHM_RX_READY | SHM_RX_RING);
	REQUIRE_INT(pulc_stream_send(stream, fds[0], "one", 3, 0), ==, 3);
	check_came("");
	return side;
}

/* The parent has sent something, the child perhaps too; then the peer leaves, and the child
 * ends. */
static void a_child_ends(bool has_sent)
{
	struct shm_side *side = begin_in_ring();
	pid_t pid = fork_here();
	int status;

	if (pid == 0) {
		if (has_sent && pulc_stream_send(stream, fds[0], "two", 3, 0) != 3)
			_exit(1);
		(void)atomic_fetch_or(&side->notice, SHM_LEFT);
		pulc_process_ends();
		_exit(0);
	}
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

static void a_child_pays_where_it_has_sent(void)
{
	a_child_ends(true);
	check_came("onetwo");
	end();
}

static void a_child_leaves_it_to_its_parent_otherwise(void)
{
	char byte;

	a_child_ends(false);
	check_came("");
	CHECK_INT(pulc_stream_recv(stream, fds[0], &byte, 1, MSG_DONTWAIT), ==, -EAGAIN);
	check_came("one");
	end();
}

/* Nor has the one whose parent has let go, though another child that was killed is still counted:
 * then nobody would pay. */
static void a_child_pays_when_its_parent_has_let_go(void)
{
	struct shm_side *side = begin_in_ring();
	int go_on[2], status;
	pid_t pid;
	char c;

	REQUIRE_INT(pipe(go_on), ==, 0);
	pid = fork_here();
	if (pid == 0) {
		(void)close(go_on[1]);
		(void)read(go_on[0], &c, 1);
		pulc_process_ends();
		_exit(0);
	}
	if (fork_here() == 0)
		_exit(0); /* as if killed */
	pulc_stream_closing(stream, fds[0]);
	(void)close(fds[0]);
	(void)atomic_fetch_or(&side->notice, SHM_LEFT);
	(void)close(go_on[1]);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	(void)wait(NULL);
	check_came("one");
	stream = pulc_stream_unref(stream);
	(void)close(go_on[0]);
	(void)close(fds[1]);
	fake_close(&peer);
}

/* A thread forks while another one is closing: the child takes back nothing of what its parent has
 * counted, and counts for itself. */
static void a_child_does_not_take_back_its_parents_count(void)
{
	_Atomic uint8_t *let_go;
	int status;
	pid_t pid;

	(void)begin_in_ring();
	let_go = &stream->own_slab->map.slab->let_go[stream->own_slot];
	upgrade_leaving(stream);
	CHECK_INT(atomic_load(let_go) / SHM_LET_GO_GOING, ==, 1);
	pid = fork_here();
	if (pid == 0) {
		upgrade_stays(stream);
		if (atomic_load(let_go) / SHM_LET_GO_GOING != 1)
			_exit(1);
		upgrade_leaving(stream);
		if (atomic_load(let_go) / SHM_LET_GO_GOING != 2)
			_exit(2);
		upgrade_stays(stream);
		_exit(0);
	}
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	CHECK_INT(atomic_load(let_go) / SHM_LET_GO_GOING, ==, 1);
	upgrade_stays(stream);
	CHECK_INT(atomic_load(let_go) / SHM_LET_GO_GOING, ==, 0);
	end();
}

/* Whose parent is no more has nobody to leave it to. */
static void a_childs_child_pays_when_that_has_ended(void)
{
	struct shm_side *side = begin_in_ring();
	int said[2];
	char c;

	REQUIRE_INT(pipe(said), ==, 0);
	if (fork_here() == 0) {
		pid_t me = getpid();

		if (fork_here() == 0) {
			while (getppid() == me)
				(void)poll(NULL, 0, 1);
			(void)atomic_fetch_or(&side->notice, SHM_LEFT);
			pulc_process_ends();
		}
		_exit(0);
	}
	(void)close(said[1]);
	REQUIRE_INT(read(said[0], &c, 1), ==, 0);
	(void)wait(NULL);
	(void)close(said[0]);
	check_came("one");
	end();
}

/* ---- who hints when -------------------------------------------------------------------------- */

/* Its first hint would have to make it a client. */
static void a_child_hints_later_until_it_is_a_client(void)
{
	uint32_t after = client_hint_after();
	int status;
	pid_t pid;

	client_prepare();
	pid = fork_here();
	if (pid == 0) {
		bool later = client_hint_after() > after;

		REQUIRE(client_lock());
		REQUIRE_INT(client_attach(), ==, 0);
		client_unlock();
		_exit(later && client_hint_after() == after ? 0 : 1);
	}
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

static void psid_was_well(void)
{
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

static const struct test tests[] = {
	TEST(a_fin_that_does_not_come),
	TEST(a_close_that_does_not_come),
	TEST(a_peer_that_does_not_decide),
	TEST(a_receive_of_bytes_under_way),
	TEST(a_peek_at_bytes_under_way),
	TEST(a_peek_at_all_with_bytes_under_way),
	TEST(a_byte_that_comes_at_last_wakes),
	TEST(room_is_told_of_before_a_sleep),
	TEST(a_foreign_socket_is_not_given),
	TEST(a_foreign_socket_is_not_upgraded),
	TEST(closed_after_it_was_kept_on_the_kernel),
	TEST(a_child_pays_where_it_has_sent),
	TEST(a_child_leaves_it_to_its_parent_otherwise),
	TEST(a_child_pays_when_its_parent_has_let_go),
	TEST(a_child_does_not_take_back_its_parents_count),
	TEST(a_childs_child_pays_when_that_has_ended),
	TEST(a_child_hints_later_until_it_is_a_client),
	TEST(psid_was_well),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
