/*
 * What a process still owes when it ends a stream, handed to psid (psid/deliver.c).
 *
 * The conversation is one of its own (psid_talk.c): the channel would need the client lock, and a
 * forked child may have none yet. psid answers whether it takes the bytes. Who waits no longer for
 * that closes his end first and then looks once more: the answer was sent before, or can't be sent
 * any more, and then psid sends nothing.
 *
 * From before the message is sent until psid has delivered everything, the socket resets its
 * connection when its last descriptor goes, so whatever becomes of us meanwhile the receiver gets
 * all bytes or an error. Who has only shut it down keeps a descriptor. So a process that loses psid
 * remembers which streams it has not ended yet, and resets them: not at once, for a psid that ends
 * in good order goes on for half a second, and one that has only dropped the channel goes on for
 * good, and says at the next Welcome that it is the same.
 */
#include "deliver.h"

#include <sys/mman.h>

#include "cleanup.h"
#include "client.h"
#include "clock.h"
#include "macros.h"
#include "psid_talk.h"
#include "rawsys.h"
#include "tcp_count.h"
#include "talk.h"

#define NSEC_ANSWER (5 * NSEC_PER_SEC)
/* What psid may go on for without its channels. */
#define NSEC_GOES_ON (1 * NSEC_PER_SEC)

/* What psid says. Also read in a signal handler: without malloc, and with little on the stack. */
struct answer {
	struct wire_arena arena;
	uint8_t buf[WIRE_SIZE_MAX];
};

static int receive(int psid, struct answer *a, Pulc__Wire__ToClient__BodyCase *ret_kind)
{
	const Pulc__Wire__ToClient *msg;
	int fds[WIRE_FDS_MAX], e;
	size_t len, n_fds;

	e = wire_recv(psid, a->buf, &len, fds, &n_fds);
	if (e < 0)
		return e;
	while (n_fds > 0) /* who owns nothing is sent none */
		(void)raw_close(fds[--n_fds]);
	wire_arena_init(&a->arena);
	msg = pulc__wire__to_client__unpack(&a->arena.allocator, len, a->buf);
	if (!msg)
		return -EBADMSG;
	*ret_kind = msg->body_case;
	return 0;
}

static bool is_taken(int psid, struct answer *a)
{
	Pulc__Wire__ToClient__BodyCase kind = PULC__WIRE__TO_CLIENT__BODY_WELCOME;
	uint64_t nsec_end = nsec_now() + NSEC_ANSWER;
	int e = 0;

	while (e == 0 && kind == PULC__WIRE__TO_CLIENT__BODY_WELCOME) {
		e = wire_talk_await(psid, nsec_end);
		if (e == -ETIMEDOUT) {
			(void)raw_shutdown(psid, SHUT_RDWR);
			e = 0;
		}
		if (e == 0)
			e = receive(psid, a, &kind);
		e = e == -EAGAIN ? 0 : e;
	}
	return e == 0 && kind == PULC__WIRE__TO_CLIENT__BODY_DELIVERING;
}

static bool ask(int fd, int memory, const Pulc__Wire__Deliver *deliver)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	CLEANUP_FD int psid = -EBADF;
	const int fds[] = { fd, memory };
	bool taken;
	long a;

	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_DELIVER;
	msg.deliver = (Pulc__Wire__Deliver *)deliver;
	a = raw_syscall(SYS_mmap, NULL, sizeof(struct answer), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a < 0 && a > -4096)
		return false;
	taken = psid_talk_open(PULC__WIRE__ROLE__ROLE_CONTROL, &psid) == 0 &&
		wire_send_from_client(psid, &msg, fds, 2) == 0 &&
		is_taken(psid, (struct answer *)a);
	(void)raw_syscall(SYS_munmap, a, sizeof(struct answer));
	return taken;
}

static int set_linger(int fd, const struct linger *linger)
{
	return (int)raw_syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER, linger, sizeof(*linger));
}

bool deliver_rest(int fd, int memory, uint64_t size, bool shut)
{
	Pulc__Wire__Deliver deliver = PULC__WIRE__DELIVER__INIT;
	struct linger before = { 0, 0 }, by_reset = { .l_onoff = 1 };
	socklen_t len = sizeof(before);

	if (client_is_confined() || raw_getsockopt(fd, SOL_SOCKET, SO_LINGER, &before, &len) < 0)
		return false;
	deliver.size = size;
	deliver.shut = shut;
	deliver.lingers = before.l_onoff;
	deliver.sec_linger = (uint32_t)before.l_linger;
	(void)set_linger(fd, &by_reset);
	if (ask(fd, memory, &deliver))
		return true;
	(void)set_linger(fd, &before);
	return false;
}

/* ---- psid's end ------------------------------------------------------------------------------ */

/* When what is orphaned is to be reset; 0: nothing is. */
static OFTEN _Atomic uint64_t due_at;

static bool is_under_way(const struct pulc_stream *s)
{
	return s->handler == &stream_handler && pulc_stream_attached(s) && !s->left && !s->ended &&
	       tcp_is_passed_on(&s->tcp) && stream_owns(s, s->fd) && !tcp_count_is_shut(s->fd);
}

static void orphan(struct pulc_stream *s)
{
	if (s->orphaned || !is_under_way(s))
		return;
	s->orphaned = true;
	atomic_store(&due_at, nsec_now() + NSEC_GOES_ON);
}

static void give_back(struct pulc_stream *s)
{
	s->orphaned = false;
}

static void give_up(struct pulc_stream *s)
{
	if (!s->orphaned)
		return;
	s->orphaned = false;
	if (!is_under_way(s))
		return;
	tcp_reset(s->fd);
	stream_tell_own_locked(s);
}

void deliver_begins(struct pulc_stream *s)
{
	if (LIKELY(!tcp_owes(&s->tcp)) || !client_lock())
		return;
	client_glance();
	(void)client_attach();
	client_unlock();
}

void deliver_lost(void)
{
	stream_list_each(orphan);
}

void deliver_found(void)
{
	if (atomic_exchange(&due_at, 0))
		stream_list_each(give_back);
}

void deliver_look(void)
{
	if (deliver_patience() > 0)
		return;
	atomic_store(&due_at, 0);
	stream_list_each(give_up);
}

uint64_t deliver_patience(void)
{
	uint64_t due = atomic_load_explicit(&due_at, memory_order_relaxed), now;

	if (LIKELY(!due))
		return UINT64_MAX;
	now = nsec_now();
	return due > now ? due - now : 0;
}
