/*
 * Closed by one thread while calls of others are inside.
 *
 * A system call holds the file that it works on: close() in another thread takes the number away at
 * once and the file when the call ends, so a receive that sleeps goes on sleeping and the peer sees
 * no end. Calls on a ring sleep by number. So whoever closes the last descriptor of such a file
 * gives it one more, at a high number, which the calls that are inside use from then on
 * (pulc_stream_moved); the one that ends last closes it for good. Epoll memberships live on as
 * well, for they end with the file.
 *
 * Who is inside is known by the hazard pointers of thread.c, and each end of a use looks at one
 * flag of the file. Closing sets the flag and then looks at the pointers, ending clears the pointer
 * and then looks at the flag. The barrier between the two is needed on both sides but paid for by
 * the one that closes (membarrier), so that an ordinary call pays nothing. Where there is no such
 * barrier, and for a close in a signal handler that has interrupted the very call, calls end as
 * they find the descriptor: closed.
 *
 * Where other descriptors of the file remain, the calls that are inside by the closed one go on
 * with one of these (pre_file's `remaining`).
 *
 * One that a handler has interrupted does not count as inside, for it ends or begins anew, if the
 * handler has not left it by longjmp. A call that a handler with SA_RESTART interrupts begins anew
 * from its descriptor, as the kernel's does (PULC_BEGIN_AGAIN): it finds it closed.
 *
 * A child forked meanwhile has none of those threads: it closes at once. So does exec, by the
 * kernel's hand.
 */
#include <linux/membarrier.h>

#include <pulc/fds.h>

#include "epoll.h"
#include "file.h"
#include "rawsys.h"

/* Can every processor that runs this program be made to show its stores? */
static bool has_barrier(void)
{
	return !__libc_single_threaded &&
	       raw_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
}

USUAL bool pre_linger(struct pre_file *f, int fd)
{
	pulc_stream *s = atomic_load(&f->stream);

	if (__builtin_expect(!pre_thread_others_inside(f), 1) || !has_barrier() ||
	    pulc_fd_copy(fd, &f->home) < 0)
		return false;
	if (s) {
		/* A call that is inside the kernel stays there, so there is nothing to be gained
		 * any more. */
		if (!pulc_stream_attached(s))
			pulc_stream_keep_on_kernel(s, fd, PULC_REASON_UNSUPPORTED);
		pulc_stream_moved(s, &f->home);
	}
	pre_members_moved(f, fd, f->home);
	atomic_store(&f->lingers, true);
	/* What was inside at the first look may have ended without seeing the flag. */
	(void)raw_syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
	return true;
}

/* Nobody is inside any more, or this is somebody's end who sees it. */
void pre_linger_end(struct pre_file *f)
{
	struct pre_use use;
	pulc_stream *s;

	/* Two that end at once see each other's pointer cleared, or the later one does. */
	atomic_thread_fence(memory_order_seq_cst);
	if (pre_thread_uses(f) || !atomic_exchange(&f->lingers, false))
		return;
	pre_use_known(&use, f);
	s = atomic_load(&f->stream);
	if (s)
		pulc_stream_closing(s, f->home);
	pre_epoll_closed(f);
	if (s)
		pulc_stream_moved(s, NULL);
	pulc_fd_release(&f->home);
	pre_use_end(&use);
	pre_files_reclaim();
}
