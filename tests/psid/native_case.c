/*
 * Roles. They meet at points that lie in memory shared over fork, so that nothing depends on time:
 * a wait is a loop with a short sleep and a generous end.
 */
#include "psid/native_case.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "paths.h"
#include "psid/fake_client.h"

#define N_ROLES_MAX 16u
#define N_POINTS 16u
#define SEC_PATIENCE 50
#define MSEC_TURN 2

static _Atomic uint32_t *points;
static struct daemon *daemon_of_roles;
static bool many_users; /* psid serves the whole node */

static void nap(void)
{
	const struct timespec turn = { .tv_nsec = MSEC_TURN * 1000000 };

	(void)nanosleep(&turn, NULL);
}

static pid_t start_role(native_role *role, const struct daemon *psid)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)unsetenv("PULC_SOCKET");
	(void)setenv("PULC_RUNTIME_DIR", psid->dir, 1);
	/* A program that sees to forks (libpulc/fork.c) has read it when it started. */
	wire_remember();
	(void)alarm(SEC_PATIENCE);
	role();
	_exit(0);
}

/* Under a psid that the caller ends. */
static void run_roles(native_role *const roles[], size_t n, void (*during)(const pid_t *pids),
		      struct daemon *psid)
{
	pid_t pids[N_ROLES_MAX];
	int status;

	points = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(points != MAP_FAILED && n <= N_ROLES_MAX);
	daemon_start(psid, many_users, NULL);
	daemon_of_roles = psid;
	atomic_store(&points[N_POINTS + N_ROLES_MAX], (uint32_t)psid->pid);
	for (size_t i = 0; i < n; i++)
		pids[i] = start_role(roles[i], psid);
	if (during)
		during(pids);
	for (size_t i = 0; i < n; i++) {
		REQUIRE_INT(waitpid(pids[i], &status, 0), ==, pids[i]);
		if (during && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			continue;
		CHECK_INT(status, ==, 0);
	}
	(void)munmap((void *)points, 4096);
}

void native_run_with(native_role *const roles[], size_t n, void (*during)(const pid_t *pids))
{
	struct daemon psid;

	run_roles(roles, n, during, &psid);
	fake_wait_counts(&psid, 0, 0);
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

void native_run_lost(native_role *const roles[], size_t n)
{
	struct daemon psid;

	run_roles(roles, n, NULL, &psid);
	daemon_kill(&psid);
	daemon_run(&psid, false, NULL);
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

void native_run_for_users(native_role *const roles[], size_t n)
{
	many_users = true;
	native_run_with(roles, n, NULL);
	many_users = false;
}

void native_become(uid_t uid)
{
	/* Its folder is for root's eyes, as those of all daemons of tests. */
	MUST_IS(chmod(daemon_of_roles->dir, 0755), 0);
	MUST_IS(setresuid(uid, uid, uid), 0);
}

void native_run(native_role *const roles[], size_t n)
{
	native_run_with(roles, n, NULL);
}

void native_reach(unsigned point)
{
	atomic_store(&points[point % N_POINTS], 1);
}

bool native_is_reached(unsigned point)
{
	return atomic_load(&points[point % N_POINTS]) != 0;
}

void native_await(unsigned point)
{
	while (!native_is_reached(point))
		nap();
}

void *native_share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	REQUIRE(memory != MAP_FAILED);
	return memory;
}

void native_unshare(void *memory, size_t size)
{
	(void)munmap(memory, size);
}

void native_known_as(unsigned i)
{
	atomic_store(&points[N_POINTS + i % N_ROLES_MAX], (uint32_t)getpid());
}

pid_t native_pid_of(unsigned i)
{
	uint32_t pid;

	while (!(pid = atomic_load(&points[N_POINTS + i % N_ROLES_MAX])))
		nap();
	return (pid_t)pid;
}

struct daemon *native_daemon(void)
{
	return daemon_of_roles;
}

pid_t native_psid(void)
{
	return (pid_t)atomic_load(&points[N_POINTS + N_ROLES_MAX]);
}

pulc_port *native_open(enum pulc_kind kind, const char *name)
{
	pulc_port *port = NULL;

	MUST_IS(pulc_port_open(kind, 0, name, &port), 0);
	return port;
}

struct pulc_address native_find(const char *name)
{
	struct pulc_address address;
	int e;

	while ((e = pulc_find(name, &address)) == -ENOENT)
		nap();
	MUST_IS(e, 0);
	return address;
}

pulc_op *native_receive_begin(pulc_port *p, void *to, size_t len, const struct pulc_address *from)
{
	struct iovec iov = { to, len };
	pulc_op *op = NULL;

	MUST_IS(pulc_ireceivev(p, &iov, 1, from, 0, &op), 0);
	return op;
}

pulc_op *native_send_begin(pulc_port *p, const struct pulc_address *to, const void *from,
			   size_t len)
{
	pulc_op *op = NULL;

	MUST_IS(pulc_isend(p, to, from, len, &op), 0);
	return op;
}

pulc_op *native_tag_receive(struct pulc_tag want, void *to, size_t len)
{
	pulc_op *op = NULL;

	MUST_IS(pulc_tag_ireceive(&want, to, len, &op), 0);
	return op;
}

pulc_op *native_tag_send(uint32_t peer, uint64_t tag, const void *from, size_t len)
{
	pulc_op *op = NULL;

	MUST_IS(pulc_tag_isend(peer, tag, from, len, &op), 0);
	return op;
}

uint32_t native_peer_named(const char *name)
{
	struct pulc_address a = native_find(name);
	uint32_t peer;

	MUST_IS(pulc_peer_find(&a, &peer), 0);
	return peer;
}

void native_fill(unsigned char *buf, size_t len, unsigned number)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(number * 131 + i * 7 + (i >> 8));
}

bool native_holds(const unsigned char *buf, size_t len, unsigned number)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (unsigned char)(number * 131 + i * 7 + (i >> 8)))
			return false;
	return true;
}
