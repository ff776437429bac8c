/*
 * The channel to psid.
 *
 * Attaching is asynchronous: connect, Hello, and go on; the hints that follow lie behind Hello in
 * the socket's queue and psid takes them in order. Its answers are read when somebody looks: at a
 * data call of a stream that waits for its upgrade, and when a publisher lacks a bell. Nobody
 * sleeps on the channel and nothing depends on psid answering: without it connections stay where
 * they are.
 *
 * When psid goes away the channel is closed and rings go on; whoever sleeps, or hints, looks for a
 * new one (notice.c). It is told of our connections (return.c); what told the old one about us
 * (bells) is told because the generation has changed.
 *
 * Source: pulc-1998, 4.3 (registration and version check at PSID).
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <pulc/fds.h>
#include <pulc/process.h>

#include "board.h"
#include "clock.h"
#include "deliver.h"
#include "environment.h"
#include "lock.h"
#include "log.h"
#include "macros.h"
#include "notice.h"
#include "paths.h"
#include "peers.h"
#include "private.h"
#include "rawsys.h"
#include "receive.h"
#include "return.h"
#include "pairs.h"
#include "state.h"
#include "unsent.h"
#include "upgrade.h"

#define HINT_AFTER_DEFAULT 4
/* Where a forked child would first have to become a client: so many times that. A child that serves
 * one connection pays for that too, and has it back only after dozens of requests and their
 * answers. */
#define N_TIMES_FORKED 2
/* Credit is asked for in lumps of this. */
#define SIZE_CREDIT (64ull << 20)
#define SIZE_CREDIT_FORKED (8ll << 20)
/* A psid that has not answered after this is as good as none. */
#define NSEC_CREDIT (20 * 1000 * NSEC_PER_USEC)
/* Somebody else may take the answer that a send waits for: then it sees so after this. */
#define NSEC_MOMENT (1 * 1000 * NSEC_PER_USEC)
/* A psid that gave nothing is not asked again before this. */
#define NSEC_DENIED (100 * 1000 * NSEC_PER_USEC)
/* After the first refusal a second, then twice as long each time, up to 2^10 s. */
#define N_REFUSALS_MAX 10

static OFTEN struct {
	struct shm_lock lock;
	int fd;
	int spare; /* an unconnected socket for the next channel */
	uint32_t id;
	uint32_t node; /* this one's number in its cluster; 0: it is in none */
	int pid;
	int uid;	 /* at the other end of the channel, as psid knows it */
	uint32_t parent; /* the client that this process was before it was forked */
	struct shm_boards *boards;
	uint32_t generation;
	uint32_t hint_after;
	bool hint_after_fixed; /* by the environment */
	bool disabled;	       /* by the environment */
	uint32_t n_refusals;   /* one after the other */
	int error;	/* why the last attempt failed, or the last channel ended: never 0, */
	int error_said; /* and what the log says of it */
	/* the channel stays open, so that psid takes us for alive, and is never used again */
	bool confined;
	bool read_environment;
	bool remembered;   /* where psids are found */
	bool forked;	   /* since the last attachment: connections are inherited */
	bool adopted;	   /* Adopt was said, and no Welcome has come since */
	uint64_t instance; /* the psid that said Welcome last */
	uint32_t n_psids;  /* that have said it */
	uint64_t nsec_retry;
	_Atomic int64_t credit;
	_Atomic uint64_t size_wanted; /* credit that somebody lacks, or will soon; 0: none */
	/* when psid was asked for it; 0: it was not, or has answered */
	_Atomic uint64_t nsec_asked;
	_Atomic uint64_t nsec_denied; /* when it gave nothing, or could not be asked */
} self = { .fd = -1, .spare = -1, .error = -ENOENT, .hint_after = HINT_AFTER_DEFAULT };

USUAL bool client_lock(void)
{
	return shm_lock(&self.lock.word);
}

/* Whoever wants to hear of upgraded streams hears of them here, where no lock is held. */
USUAL void client_unlock(void)
{
	struct pulc_stream *attached = stream_take_attached();

	shm_unlock(&self.lock.word);
	stream_say_attached(attached);
}

uint32_t client_id(void)
{
	return self.id;
}

uint32_t client_node(void)
{
	return self.node;
}

struct shm_boards *client_boards(void)
{
	return self.boards;
}

int client_channel(void)
{
	return self.fd;
}

bool client_is_itself(void)
{
	return raw_geteuid() == self.uid;
}

USUAL int client_pid(void)
{
	return self.pid;
}

bool client_is_borrowed(void)
{
	return self.pid && raw_getpid() != self.pid;
}

PULC_EXPORT void pulc_process_confined(void)
{
	self.confined = true;
}

USUAL bool client_is_confined(void)
{
	return self.confined;
}

USUAL PULC_EXPORT bool pulc_process_attached(void)
{
	return self.id != 0;
}

uint32_t client_parent(void)
{
	return self.parent;
}

uint32_t client_n_psids(void)
{
	return self.n_psids;
}

uint32_t client_generation(void)
{
	return self.generation;
}

uint64_t client_next_attempt(void)
{
	return self.disabled || self.confined ? UINT64_MAX : self.nsec_retry;
}

static void read_environment(void)
{
	const char *value;
	uint64_t n;

	if (LIKELY(self.read_environment))
		return;
	self.read_environment = true;
	if (environment_number("PULC_HINT_AFTER", NUMBER_HINT_AFTER_MAX, &n)) {
		self.hint_after = (uint32_t)n;
		self.hint_after_fixed = true;
	}
	value = secure_getenv("PULC_DISABLE");
	self.disabled = value && strcmp(value, "1") == 0;
	if (self.disabled)
		pulc_log("PULC_DISABLE is set: no psid is asked");
}

USUAL uint32_t client_hint_after(void)
{
	read_environment();
	if (UNLIKELY(self.forked) && self.fd < 0 && !self.hint_after_fixed)
		return N_TIMES_FORKED * self.hint_after;
	return self.hint_after;
}

void client_detach(void)
{
	pulc_fd_release(&self.fd);
	/* Boards stay mapped: wait sets made in them keep working between processes. */
	self.id = 0;
	self.error = -ENOENT;
	self.boards = NULL;
	atomic_store(&self.nsec_asked, 0);
	unsent_forget();
	upgrade_psid_lost();
	deliver_lost();
	if (notice_lost())
		self.nsec_retry = nsec_now() + notice_gap();
}

int client_send(const Pulc__Wire__FromClient *msg, const int *fds, size_t n_fds)
{
	int e = 0;

	if (self.fd < 0 || self.confined)
		return -ENOTCONN;
	if (UNLIKELY(unsent_any()))
		e = unsent_send(self.fd);
	if (e == 0)
		e = wire_send_from_client(self.fd, msg, fds, n_fds);
	if (e == -ETOOMANYREFS)
		e = -EAGAIN;
	if (e == -EPIPE || e == -ECONNRESET || e == -ENOTCONN) {
		client_detach();
		return -ENOTCONN;
	}
	return e;
}

static int say_hello(void)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;
	char name[17] = "?";

	(void)raw_syscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0, 0);
	hello.version = WIRE_VERSION;
	hello.role = PULC__WIRE__ROLE__ROLE_PROCESS;
	hello.program = name;
	hello.layout = SHM_VERSION;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HELLO;
	msg.hello = &hello;
	return client_send(&msg, NULL, 0);
}

/*
 * Makes the channel's socket, if it may be while nobody can see that it passes through a low
 * number: at start, and in a forked child when it is needed or before it makes a thread. Later
 * ones, after a psid was lost, take that moment's risk.
 */
static int make_channel(void)
{
	int fd = (int)raw_syscall(SYS_socket, AF_UNIX,
				  SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0);

	if (fd < 0)
		return fd;
	self.spare = fd;
	return pulc_fd_adopt(&self.spare);
}

void client_prepare(void)
{
	self.pid = raw_getpid();
	read_environment();
	spin_limit();
	if (!self.remembered)
		wire_remember();
	self.remembered = true;
	if (!self.disabled && self.fd < 0 && self.spare < 0)
		(void)make_channel();
}

static void say_why(int e)
{
	const char *name;
	char path[108];

	if (wire_places_check(&name) < 0)
		pulc_log("%s names no place of a psid: passed over", name);
	for (unsigned i = 0; i < WIRE_N_CANDIDATES; i++)
		if (wire_candidate(i, path, sizeof(path)) == 0)
			pulc_log("looked for psid at %s", path);
	if (e == -ENOENT)
		pulc_log("no psid runs: start one with `psid --daemonize`, or this program with "
			 "`pulc PROGRAM`");
	else if (e == -EPERM)
		pulc_log("only psids of other users run: start one of your own with `psid "
			 "--daemonize`");
	else
		pulc_log("no channel to psid: error %d", -e);
}

/* A connected channel, to which Hello was said. */
static int connect_channel(void)
{
	char path[108];
	int e = self.spare < 0 ? make_channel() : 0;

	if (e < 0)
		return e;
	e = wire_connect(self.spare, path, sizeof(path));
	/* It may have been connected before it was found to be another user's. */
	if (e == -EPERM)
		pulc_fd_release(&self.spare);
	if (e < 0)
		return e;
	pulc_fd_rehome(&self.spare, &self.fd);
	self.uid = raw_geteuid();
	e = say_hello();
	if (e < 0) {
		pulc_fd_release(&self.fd);
		return e == -ENOTCONN ? -ENOENT : e;
	}
	pulc_log("attached to psid at %s", path);
	return 0;
}

int client_attach(void)
{
	int e;

	read_environment();
	if (self.confined || (self.disabled && self.fd < 0))
		return -EPERM;
	if (self.fd >= 0)
		return 0;
	if (nsec_now() < self.nsec_retry)
		return self.error;
	if (client_is_borrowed())
		return -EPERM;
	self.nsec_retry = nsec_now() + notice_gap();
	e = connect_channel();
	if (e < 0) {
		if (pulc_log_fd >= 0 && e != self.error_said)
			say_why(e);
		self.error = self.error_said = e;
		return e;
	}
	self.error_said = 0;
	self.generation++;
	notice_found();
	/* A child's numbers may be those of this very psid: Welcome will tell. */
	self.adopted = self.forked;
	if (self.forked)
		upgrade_adopt();
	else
		return_all();
	self.forked = false;
	return 0;
}

int client_why(void)
{
	return self.confined || self.disabled ? -EPERM : self.error;
}

/* ---- messages about ourselves ---------------------------------------------------------------- */

static void welcome(const Pulc__Wire__Welcome *m, struct received *r)
{
	if (!r->boards || m->client == 0)
		return;
	self.id = m->client & 0x7fffffffu;
	self.node = m->node;
	self.boards = TAKE_BOARDS(r);
	shm_state_show(self.boards);
	shm_pairs_show(self.boards);
	if (!self.hint_after_fixed)
		self.hint_after = m->n_calls_before_hint;
	/* What the rings of connections that were brought back have taken counts at this psid
	 * too. */
	atomic_store(&self.credit, (int64_t)m->credit - (int64_t)return_credit());
	if (self.adopted)
		return_forget(m->instance != self.instance);
	self.adopted = false;
	return_all();
	if (m->instance == self.instance)
		deliver_found();
	else
		peers_age(++self.n_psids);
	self.instance = m->instance;
	self.n_refusals = 0;
	/* Those asleep on wait sets of our number before make new ones. */
	waitsets_rouse();
	pulc_log("welcome: client %u, credit %llu", self.id, (unsigned long long)m->credit);
}

/* There may be room later, or a psid of our version: it is asked again, at first soon. */
static void refused(const Pulc__Wire__Refuse *m)
{
	unsigned n = MIN(self.n_refusals, (uint32_t)N_REFUSALS_MAX);

	pulc_log("psid refuses us: %s", m->text ? m->text : "");
	client_detach();
	if (m->reason == PULC__WIRE__REASON__REASON_SHUTDOWN)
		return;
	pulc_log("it is asked again after %u s", 1u << n);
	self.error = -EPERM;
	self.nsec_retry = nsec_now() + (NSEC_PER_SEC << n);
	self.n_refusals++;
}

static void dispatch(const Pulc__Wire__ToClient *msg, struct received *r)
{
	switch (msg->body_case) {
	case PULC__WIRE__TO_CLIENT__BODY_WELCOME:
		welcome(msg->welcome, r);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_REFUSE:
		refused(msg->refuse);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_CREDIT:
		atomic_store(&self.nsec_asked, 0);
		if (!msg->credit->size)
			atomic_store(&self.nsec_denied, nsec_now());
		(void)atomic_fetch_add(&self.credit, (int64_t)msg->credit->size);
		break;
	default:
		upgrade_dispatch(msg, r);
	}
}

bool client_owes(void)
{
	return self.id != 0 && !self.confined &&
	       (unsent_any() || waitsets_are_due() || return_is_due());
}

/* What the channel had no room for when it was said. An end of psid is noticed by the next look. */
static void repeat(void)
{
	if (unsent_any() && unsent_send(self.fd) < 0)
		return;
	if (waitsets_are_due())
		waitsets_repeat();
	if (return_is_due())
		return_all();
}

void client_look(void)
{
	struct received r;

	/* Descriptors that come with a message would go with the child. */
	if (client_is_borrowed())
		return;
	while (self.fd >= 0 && !self.confined) {
		int e = receive_message(self.fd, &r);

		if (e == -EAGAIN || e == -ENOMEM)
			break;
		if (e < 0 && e != -EBADMSG) {
			pulc_log("psid is gone");
			client_detach();
			return;
		}
		if (e == 0)
			dispatch(r.msg, &r);
		receive_done(&r);
	}
	if (self.confined)
		return;
	peers_bury();
	if (UNLIKELY(client_owes()))
		repeat();
}

USUAL void client_glance(void)
{
	struct pollfd p = { .fd = self.fd };
	struct timespec now = { 0, 0 };

	if (self.fd < 0 || raw_ppoll(&p, 1, &now) <= 0)
		return;
	client_look();
	(void)client_attach();
}

/* ---- credit ---------------------------------------------------------------------------------- */

/* Under the client lock. */
static void ask_for_credit(uint64_t size)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__WantCredit want = PULC__WIRE__WANT_CREDIT__INIT;

	(void)client_attach();
	want.size = MAX(size, (uint64_t)SIZE_CREDIT);
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_WANT_CREDIT;
	msg.want_credit = &want;
	if (client_send(&msg, NULL, 0) == 0)
		atomic_store(&self.nsec_asked, nsec_now());
	else
		atomic_store(&self.nsec_denied, nsec_now());
}

bool client_credit_ask(void)
{
	uint64_t size;

	if (LIKELY(!atomic_load(&self.size_wanted)) || !client_lock())
		return false;
	client_look();
	size = atomic_exchange(&self.size_wanted, 0);
	if (size && atomic_load(&self.credit) < (int64_t)SIZE_CREDIT / 2 &&
	    !atomic_load(&self.nsec_asked) &&
	    nsec_now() - atomic_load(&self.nsec_denied) > NSEC_DENIED)
		ask_for_credit(size);
	client_unlock();
	return size != 0;
}

void client_credit_await(void)
{
	struct timespec moment;
	struct pollfd p;
	uint64_t asked;

	while ((asked = atomic_load(&self.nsec_asked)) != 0 && nsec_now() - asked <= NSEC_CREDIT) {
		p = (struct pollfd){ .fd = self.fd, .events = POLLIN };
		moment = (struct timespec){ .tv_nsec = NSEC_MOMENT };
		(void)raw_ppoll(&p, 1, &moment);
		if (!client_lock())
			return;
		client_look();
		client_unlock();
	}
}

static bool take(uint64_t size, int64_t *ret_left)
{
	*ret_left = atomic_fetch_sub(&self.credit, (int64_t)size) - (int64_t)size;
	if (*ret_left >= 0)
		return true;
	(void)atomic_fetch_add(&self.credit, (int64_t)size);
	return false;
}

enum tcp_credit client_credit_take(uint64_t size)
{
	uint64_t now, asked;
	int64_t left;

	if (LIKELY(take(size, &left))) {
		/* Ask early: by the time it is needed it is there. */
		if (left < (int64_t)SIZE_CREDIT / 2)
			atomic_store(&self.size_wanted, size);
		return TCP_CREDIT_GRANTED;
	}
	now = nsec_now();
	asked = atomic_load(&self.nsec_asked);
	if (now - atomic_load(&self.nsec_denied) <= NSEC_DENIED)
		return TCP_CREDIT_DENIED;
	atomic_store(&self.size_wanted, size);
	return asked && now - asked > NSEC_CREDIT ? TCP_CREDIT_DENIED : TCP_CREDIT_PENDING;
}

void client_credit_return(uint64_t size)
{
	(void)atomic_fetch_add(&self.credit, (int64_t)size);
}

USUAL void client_forked(int pid)
{
	atomic_store(&self.lock.word, 0);
	pulc_fd_release(&self.fd);
	pulc_fd_release(&self.spare);
	if (self.id)
		self.parent = self.id;
	self.id = 0;
	self.boards = NULL;
	self.forked = true;
	self.pid = pid;
	self.nsec_retry = 0;
	notice_forked();
	unsent_forget();
	atomic_store(&self.nsec_asked, 0);
	/* Until it is attached the child may grow a ring or two on its parent's good name. */
	atomic_store(&self.credit, SIZE_CREDIT_FORKED);
}
