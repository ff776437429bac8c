/* A connection to a fake client whose own end several processes have, and one of them executes a
 * program. */
#ifndef PULC_TESTS_STREAM_EXEC_H
#define PULC_TESTS_STREAM_EXEC_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/process.h>

#include "macros.h"
#include "private.h"
#include "psid/fake_client.h"
#include "psid/fork_here.h"
#include "upgrade.h"

#define TOKEN 1u
#define N_TURNS 30000

static struct daemon psid;
static struct fake_client peer;
static int fds[2]; /* ours, the peer's */
static pulc_stream *stream;
static const struct shm_side *seen; /* our side, as the peer maps it */
static int to_child[2], to_parent[2];

/* All but our own end. */
static void begin_psid(void)
{
	static const char *const settings[] = { "PULC_HAND_OVER_MSEC=60000", NULL };

	if (!psid.pid)
		daemon_start(&psid, false, settings);
	(void)unsetenv("PULC_SOCKET");
	(void)setenv("PULC_RUNTIME_DIR", psid.dir, 1);
	fake_attach(&peer, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
}

static void begin(void)
{
	begin_psid();
	client_prepare();
	REQUIRE_INT(pulc_stream_new(fds[0], PULC_CONNECTED, &stream), ==, 0);
	for (unsigned i = 0; i <= client_hint_after(); i++)
		upgrade_step(stream, fds[0]);
	fake_hint(&peer, fds[1], TOKEN, false);
	(void)EXPECT(&peer, WANT);
}

static void look_while(int state)
{
	for (unsigned i = 0; i < N_TURNS && atomic_load(&stream->state) == state; i++) {
		REQUIRE(client_lock());
		client_look();
		client_unlock();
		(void)poll(NULL, 0, 1);
	}
}

/* The peer's part; returns its side. */
static struct shm_side *finish_upgrade(void)
{
	const Pulc__Wire__Upgrade *m;
	struct shm_side *side;

	fake_socket(&peer, fds[1], TOKEN);
	m = EXPECT(&peer, UPGRADE)->upgrade;
	REQUIRE(m->own_slab_fd);
	side = fake_side(peer.fds[0], m->own->size, m->own_slot);
	REQUIRE(m->peer_slab_fd);
	seen = fake_side(peer.fds[1], m->peer->size, m->peer_slot);
	return side;
}

/* Upgraded, and both ways on rings. */
static void upgrade(void)
{
	struct shm_side *side;

	look_while(STREAM_HINTED);
	side = finish_upgrade();
	look_while(STREAM_GIVEN);
	REQUIRE(pulc_stream_attached(stream));
	(void)atomic_fetch_or(&side->notice, SHM_RX_READY | SHM_RX_RING);
}

static void end(void)
{
	if (stream)
		pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	tcp_close_pair(fds);
	fake_close(&peer);
	for (int i = 0; i < 2; i++) {
		(void)close(to_child[i]);
		(void)close(to_parent[i]);
	}
}

static void close_ours(void)
{
	pulc_stream_closing(stream, fds[0]);
	stream = pulc_stream_unref(stream);
	(void)close(fds[0]);
	fds[0] = -1;
}

static void say(const int to[2])
{
	REQUIRE_INT(write(to[1], "", 1), ==, 1);
}

static void await(const int from[2])
{
	char byte;

	REQUIRE_INT(read(from[0], &byte, 1), ==, 1);
}

static void reap(pid_t pid)
{
	int status = -1;

	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

/* Whatever this process does from now on: a call of that number is answered so. */
static bool filter_call(unsigned number, unsigned answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#endif
