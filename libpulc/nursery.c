/*
 * Who holds a socket before its upgrade.
 *
 * After the upgrade all state that a family of processes shares lies in the side's area. Before it
 * there is no area, and one thing must be known: whether another process may hold the same socket,
 * for it would go on reading and writing the kernel. So each tracked socket has an entry in a small
 * memory that forked children share: the ids of the processes that hold it. A holder that is gone
 * without leaving is found out by asking the kernel whether the process exists.
 *
 * A process that goes on making sockets keeps the entry of one that it has closed for its next one,
 * with its id in it: between processes that do so at the same time each word here would be a line
 * on its way from one to the other, several times for each socket.
 *
 * An entry with more holders than it has room for counts as shared for ever: staying on the kernel
 * is always right. So it does if one of them lives in another pid namespace, where neither's
 * numbers say anything of the other: 1 there is not 1 here. A child that finds itself in one, which
 * shows in that it sees no parent, has the entries of what it inherits say so, and begins a family,
 * with a memory of its own. A child made by vfork or posix_spawn lives in its parent's memory until
 * it execs; the program that it becomes is counted by what it is given (leave.c), until it ends.
 *
 * Who is about to execute a program holds what is close-on-exec no more, unless exec fails. So its
 * number stays in the entry, marked, until it is known that it can't come back. The kernel says
 * that: the process writes its number into a word of the family's as into a robust futex that it
 * has locked (the pending entry of its list, shm/lock.c), and the kernel takes it out when the
 * process has got another memory, or ends.
 *
 * A UDP socket has no area of its own after its upgrade either, for flows come and go. So what its
 * holders share besides stands here as well, behind the entries: that one of them was told an error
 * by the kernel which is still to be told.
 */
#include <errno.h>
#include <sys/mman.h>

#include <pulc/process.h>

#include "client.h"
#include "clock.h"
#include "forks.h"
#include "macros.h"
#include "private.h"
#include "rawsys.h"

#define N_ENTRIES 65536u
#define N_HOLDERS 4
/* Entries looked at for a free one, one after the other; and as many once more anywhere, also for
 * one whose holders are dead. */
#define N_TRIES 64u

/* Who has made so many keeps an entry: it is left behind, for who looks for dead holders, where
 * such a process ends. */
#define N_BEFORE_KEEPING 8u

/* A child that has not said within this that it runs is waited for only if it is known to live
 * (forks.c). */
#define MSEC_FORK 1000u
/* Of the word that counts forks: the number of those under way; above it, of the round: a new one
 * begins where those of one are not waited for any more. What a child says that is later than that
 * is not taken for another child's. */
#define FORK_BITS 20
#define FORK_MASK ((1u << FORK_BITS) - 1)
#define NSEC_PER_MSEC (1000 * NSEC_PER_USEC)

struct entry {
	_Atomic uint32_t pids[N_HOLDERS];
};

/* Beside the number of a holder: it is about to execute a program. No process has so high a
 * number. */
#define MAY_RETURN 0x40000000u
/* So many of a family at the same time. One that finds no room counts as a holder until it ends. */
#define N_EXECUTING 16u

/* Entry 0 is no socket's: it counts the forks under way, and says where the family looks for a free
 * entry: where one was left (0: taken since), then at the next. What is left while that is not
 * taken is the next: so a server that forks for each connection goes on with few entries on one
 * page. */
struct family {
	_Atomic uint32_t forks; /* see FORK_BITS */
	_Atomic uint32_t msec_last_fork;
	_Atomic uint32_t left;
	_Atomic uint32_t next;
};

static_assert(sizeof(struct family) == sizeof(struct entry), "entry 0");
/* Nor are those behind it: the numbers of those who are about to execute a program. */
#define FIRST_EXECUTING 1u
/* And what is known of children that have not said that they run. */
#define FIRST_FORK (FIRST_EXECUTING + N_EXECUTING / N_HOLDERS)
#define FIRST_ENTRY                                                                                \
	(FIRST_FORK + (sizeof(struct forks) + sizeof(struct entry) - 1) / sizeof(struct entry))

/* Behind the entries: a byte for each. */
#define SIZE_NURSERY (N_ENTRIES * (sizeof(struct entry) + sizeof(_Atomic uint8_t)))

static struct entry *_Atomic nursery;

/* Of this process alone. */
static OFTEN _Atomic uint32_t
	kept; /* an entry of no socket, which nobody but this process is in; 0: none */
static OFTEN _Atomic uint32_t n_entered; /* since it began or was forked */
static OFTEN uint32_t
	fork_round;	     /* of the last fork (client lock), or of the one that it comes from */
static OFTEN bool elsewhere; /* until nursery_settle: in another pid namespace than its family */
static OFTEN struct {
	/* where this process says that it executes a program; NULL: it does not */
	_Atomic uint32_t *word;
	void *pending; /* what libc had there before */
} executing;

USUAL static struct entry *nursery_get(void)
{
	struct entry *e = atomic_load_explicit(&nursery, memory_order_acquire), *expected = NULL;
	long p;

	if (e)
		return e;
	p = raw_syscall(SYS_mmap, NULL, SIZE_NURSERY, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p < 0 && p > -4096)
		return NULL;
	e = (struct entry *)p;
	if (atomic_compare_exchange_strong(&nursery, &expected, e))
		return e;
	(void)raw_syscall(SYS_munmap, p, SIZE_NURSERY, 0, 0, 0, 0);
	return expected;
}

static struct family *family_get(void)
{
	return (struct family *)nursery_get();
}

/* Where there is a family. */
static struct forks *forks_get(void)
{
	return (struct forks *)&nursery_get()[FIRST_FORK];
}

static uint32_t msec_now(void)
{
	return (uint32_t)(nsec_now() / NSEC_PER_MSEC);
}

/* Between a fork and its child's first steps somebody holds the socket whom no entry names. */
USUAL static bool fork_under_way(void)
{
	struct family *family = family_get();
	uint32_t forks = atomic_load(&family->forks);

	if ((forks & FORK_MASK) == 0)
		return false;
	if (msec_now() - atomic_load(&family->msec_last_fork) < MSEC_FORK ||
	    forks_any_lives(forks_get()))
		return true;
	/* Not of one that has begun since. */
	return !atomic_compare_exchange_strong(&family->forks, &forks, (forks | FORK_MASK) + 1);
}

/* Not while a child may be about to enter itself: it would be in somebody else's entry, and neither
 * socket is upgraded then. */
USUAL static void note_left(uint32_t entry)
{
	uint32_t taken = 0;

	if (fork_under_way())
		return;
	if (!atomic_compare_exchange_strong(&family_get()->left, &taken, entry) && taken != entry)
		atomic_store(&family_get()->next, entry - 1);
}

USUAL static bool add(struct entry *e, uint32_t pid)
{
	uint32_t nobody;

	for (unsigned i = 0; i < N_HOLDERS; i++) {
		nobody = 0;
		if (atomic_compare_exchange_strong(&e->pids[i], &nobody, pid))
			return true;
	}
	return false;
}

static _Atomic uint32_t *executing_word(struct entry *all, unsigned i)
{
	return &all[FIRST_EXECUTING + i / N_HOLDERS].pids[i % N_HOLDERS];
}

static bool is_executing(uint32_t pid)
{
	struct entry *all = nursery_get();

	for (unsigned i = 0; i < N_EXECUTING; i++)
		if (atomic_load(executing_word(all, i)) == pid)
			return true;
	return false;
}

static bool has_ended(uint32_t pid)
{
	return raw_syscall(SYS_kill, pid, 0, 0, 0, 0, 0) == -ESRCH;
}

static bool is_gone(uint32_t pid)
{
	if (pid == PULC_ANYBODY)
		return false;
	if (UNLIKELY(pid & MAY_RETURN) && !is_executing(pid & ~MAY_RETURN))
		return true;
	return has_ended(pid & ~MAY_RETURN);
}

/* One of an entry that was found to be gone. False: it has come back since, be it that it is on the
 * way to another program by now. */
static bool forget(_Atomic uint32_t *holder, uint32_t pid)
{
	if (!atomic_compare_exchange_strong(holder, &pid, 0))
		return false;
	if (LIKELY(!(pid & MAY_RETURN)) || !is_executing(pid & ~MAY_RETURN))
		return true;
	atomic_store(holder, pid);
	return false;
}

/* Forgets holders that are gone. True: nobody is left. */
USUAL static bool is_empty(struct entry *e, bool look_for_dead)
{
	uint32_t pid;
	bool empty = true;

	for (unsigned i = 0; i < N_HOLDERS; i++) {
		pid = atomic_load(&e->pids[i]);
		if (pid && look_for_dead && is_gone(pid))
			(void)forget(&e->pids[i], pid);
		empty &= atomic_load(&e->pids[i]) == 0;
	}
	return empty;
}

/* Only a holder adds others, so an entry without any is taken by its first word. */
static bool take(struct entry *e, uint32_t pid, bool look_for_dead)
{
	uint32_t nobody = 0;

	return is_empty(e, look_for_dead) &&
	       atomic_compare_exchange_strong(&e->pids[0], &nobody, pid);
}

/* Neighbours get places far apart: Murmur's finalizer. */
static uint32_t scatter(uint32_t n)
{
	n = (n ^ n >> 16) * 0x85ebca6bu;
	n = (n ^ n >> 13) * 0xc2b2ae35u;
	return n ^ n >> 16;
}

static bool is_only(struct entry *e, uint32_t pid)
{
	unsigned n_own = 0;
	uint32_t found;

	for (unsigned i = 0; i < N_HOLDERS; i++) {
		found = atomic_load(&e->pids[i]);
		n_own += found == pid;
		if (found && found != pid)
			return false;
	}
	return n_own == 1;
}

/*
 * True: the entry is this process's, which is its only holder, for its next socket. In a child that
 * libc knows nothing of the number that we go by is its parent's; then nothing is changed of that
 * one's entry, and the child's socket is somebody else's to nursery_alone.
 */
USUAL static bool keep(struct entry *e, uint32_t entry)
{
	uint32_t none = 0;

	return atomic_load_explicit(&n_entered, memory_order_relaxed) >= N_BEFORE_KEEPING &&
	       is_only(e, (uint32_t)client_pid()) && !fork_under_way() &&
	       atomic_compare_exchange_strong(&kept, &none, entry);
}

/* What a child is not in. */
USUAL void nursery_forked(void)
{
	atomic_store(&kept, 0);
	atomic_store(&n_entered, 0);
	executing.word = NULL;
	/* So it is, too, for one that has been given its parent's parent (CLONE_PARENT): that does
	 * no harm. A sandbox may forbid to ask. */
	elsewhere = !client_is_confined() && raw_syscall(SYS_getppid) == 0;
}

USUAL uint32_t nursery_inherit(uint32_t entry)
{
	nursery_share(entry, UNLIKELY(elsewhere) ? PULC_ANYBODY : client_pid());
	return UNLIKELY(elsewhere) ? 0 : entry;
}

USUAL void nursery_settle(void)
{
	struct entry *all;

	if (LIKELY(!elsewhere))
		return;
	elsewhere = false;
	all = atomic_exchange(&nursery, NULL);
	if (all)
		(void)raw_syscall(SYS_munmap, all, SIZE_NURSERY);
}

/*
 * The whole family counts its tries in one place, so that its processes don't look at one another's
 * fresh entries. Where many that lie side by side are in use for long, a free one is found
 * elsewhere: only a nursery that is full has none.
 */
USUAL uint32_t nursery_enter(void)
{
	struct entry *all = nursery_get();
	uint32_t i = atomic_exchange(&kept, 0), pid;

	if (i && is_only(&all[i], (uint32_t)client_pid()))
		return i;
	(void)atomic_fetch_add_explicit(&n_entered, 1, memory_order_relaxed);
	pid = (uint32_t)raw_getpid();
	i = all ? atomic_exchange(&family_get()->left, 0) % N_ENTRIES : 0;
	if (i && take(&all[i], pid, false))
		return i;
	for (uint32_t n = 0; all && n < 2 * N_TRIES; n++) {
		i = atomic_fetch_add_explicit(&family_get()->next, 1, memory_order_relaxed);
		i = (n < N_TRIES ? i : scatter(i)) % (N_ENTRIES - FIRST_ENTRY) + FIRST_ENTRY;
		if (take(&all[i], pid, n >= N_TRIES))
			return i;
	}
	return 0;
}

/* Somebody unknown counts only for as long as somebody known does. */
USUAL static void forget_anybody(struct entry *e)
{
	uint32_t pids[N_HOLDERS];

	for (unsigned i = 0; i < N_HOLDERS; i++) {
		pids[i] = atomic_load(&e->pids[i]);
		if (pids[i] && pids[i] != PULC_ANYBODY)
			return;
	}
	for (unsigned i = 0; i < N_HOLDERS; i++)
		(void)atomic_compare_exchange_strong(&e->pids[i], &pids[i], 0);
}

USUAL void nursery_leave(uint32_t entry)
{
	struct entry *all = nursery_get();
	uint32_t pid, expected;

	if (all && entry && keep(&all[entry], entry))
		return;
	pid = (uint32_t)raw_getpid();
	for (unsigned i = 0; all && entry && i < N_HOLDERS; i++) {
		expected = pid;
		if (atomic_compare_exchange_strong(&all[entry].pids[i], &expected, 0)) {
			forget_anybody(&all[entry]);
			if (is_empty(&all[entry], false))
				note_left(entry);
			return;
		}
	}
}

USUAL void nursery_share(uint32_t entry, int child)
{
	struct entry *all = nursery_get();

	if (all && entry && !add(&all[entry], (uint32_t)child))
		atomic_store(&all[entry].pids[0], PULC_ANYBODY);
}

_Atomic uint8_t *nursery_refused(uint32_t entry)
{
	struct entry *all = entry ? nursery_get() : NULL;

	return all ? (_Atomic uint8_t *)(all + N_ENTRIES) + entry : NULL;
}

/* ---- exec ------------------------------------------------------------------------------------ */

static bool take_word(_Atomic uint32_t *word, uint32_t pid)
{
	uint32_t now = atomic_load(word);

	return ((now & FUTEX_TID_MASK) == 0 || has_ended(now & FUTEX_TID_MASK)) &&
	       atomic_compare_exchange_strong(word, &now, pid);
}

/* Under the client lock: once for all that this process leaves. */
static bool say_executing(struct entry *all, uint32_t pid)
{
	for (unsigned i = 0; i < N_EXECUTING && !executing.word; i++)
		if (take_word(executing_word(all, i), pid))
			executing.word = executing_word(all, i);
	return executing.word;
}

static bool replace(struct entry *e, uint32_t pid, uint32_t by)
{
	uint32_t expected;

	for (unsigned i = 0; i < N_HOLDERS; i++) {
		expected = pid;
		if (atomic_compare_exchange_strong(&e->pids[i], &expected, by))
			return true;
	}
	return false;
}

void nursery_leave_for_now(uint32_t entry)
{
	struct entry *all = nursery_get();
	uint32_t pid = (uint32_t)raw_getpid();

	if (all && entry && say_executing(all, pid))
		(void)replace(&all[entry], pid, pid | MAY_RETURN);
}

void nursery_return(uint32_t entry)
{
	struct entry *all = nursery_get();
	uint32_t pid = (uint32_t)raw_getpid();

	if (all && entry && executing.word && !replace(&all[entry], pid | MAY_RETURN, pid))
		nursery_share(entry, (int)pid);
}

void nursery_executes(void)
{
	if (!executing.word)
		return;
	executing.pending = shm_self.robust->list_op_pending;
	shm_self.robust->list_op_pending =
		(struct robust_list *)((char *)executing.word - shm_self.robust->futex_offset);
	atomic_signal_fence(memory_order_seq_cst);
}

void nursery_exec_failed(void)
{
	if (!executing.word)
		return;
	shm_self.robust->list_op_pending = executing.pending;
	atomic_store(executing.word, 0);
	executing.word = NULL;
}

/* ---- forks and spawned programs -------------------------------------------------------------- */

USUAL void nursery_fork_begins(bool is_told)
{
	struct family *family = family_get();

	if (!family)
		return;
	atomic_store(&family->msec_last_fork, msec_now());
	fork_round = atomic_fetch_add(&family->forks, 1) >> FORK_BITS;
	forks_begin(forks_get(), is_told ? FORKS_BY | (uint32_t)raw_getpid() : FORKS_NOBODY);
}

USUAL void nursery_fork_told(int pid)
{
	forks_tell(pid > 0 ? (uint32_t)pid : FORKS_NOBODY);
}

USUAL void nursery_fork_done(void)
{
	struct family *family = family_get();
	uint32_t forks = family ? atomic_load(&family->forks) : 0;

	forks_done();
	while ((forks & FORK_MASK) && forks >> FORK_BITS == fork_round &&
	       !atomic_compare_exchange_weak(&family->forks, &forks, forks - 1))
		;
}

static _Atomic uint32_t n_spawning;

void nursery_spawn_begins(void)
{
	(void)atomic_fetch_add(&n_spawning, 1);
}

void nursery_spawn_done(void)
{
	(void)atomic_fetch_sub(&n_spawning, 1);
}

bool nursery_alone(uint32_t entry)
{
	struct entry *all = nursery_get();
	uint32_t me = (uint32_t)raw_getpid(), pid;

	if (!all || !entry || fork_under_way() || atomic_load(&n_spawning))
		return false;
	for (unsigned i = 0; i < N_HOLDERS; i++) {
		pid = atomic_load(&all[entry].pids[i]);
		if (pid == 0 || pid == me)
			continue;
		if (!is_gone(pid) || !forget(&all[entry].pids[i], pid))
			return false;
	}
	return true;
}
