/*
 * starve: processes of a case get no processor, from a chosen system call on, for a chosen time.
 *
 * 	starve MSEC [WHO.N[.M][:MSEC]]... -- NAME=PID...
 *
 * Traces the named processes, all their threads and all that they fork, and says "ready". A child's
 * name is its parent's and a number: a1 is the first child of a. Each process's system calls are
 * counted from then on, through an exec. WHO.N holds all threads of WHO before its N-th system call
 * for MSEC; WHO.N.M before the M-th of the atomic instructions in the shim that follow on that
 * system call and come before the next. Several are held each in its turn, one with a time of its
 * own (:MSEC) for that.
 *
 * When all but the processes whose name is in capitals have ended, those are let go, and for each
 * process a line says what it has done: "NAME N_CALLS", and for each hold "held WHO.N" or, where
 * the process never came there, "missed WHO.N M", M being the atomic instructions that were seen.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/ptrace.h>

#define N_PROCESSES 64
#define N_THREADS 256
#define N_HOLDS 8
#define SHIM "libpulc-preload.so"
#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |  \
	 PTRACE_O_TRACEEXEC)

struct process {
	char name[32];
	pid_t pid;
	unsigned n_calls, n_children, n_threads;
	bool is_held;
	uint64_t msec_until;
};

struct thread {
	pid_t tid;
	struct process *process;
	bool is_parked, is_listening; /* stopped: by us, or with its group */
	int signal;		      /* to be delivered when it goes on */
};

struct hold {
	char who[32];
	unsigned n_call, n_atom, n_seen;
	uint64_t msec;
	bool is_stepping, is_done;
};

static struct process processes[N_PROCESSES];
static struct thread threads[N_THREADS];
static struct hold holds[N_HOLDS];
static unsigned n_processes, n_threads, n_holds;
static uint64_t msec_hold;

static uint64_t msec_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- who is there ---------------------------------------------------------------------------- */

static struct process *process_new(const char *name, pid_t pid)
{
	struct process *p = &processes[n_processes++];

	if (n_processes == N_PROCESSES)
		exit(2);
	*p = (struct process){ .pid = pid };
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	return p;
}

static struct process *process_of(pid_t pid)
{
	for (unsigned i = n_processes; i-- > 0;)
		if (processes[i].pid == pid && processes[i].n_threads)
			return &processes[i];
	return NULL;
}

static struct thread *thread_of(pid_t tid)
{
	for (unsigned i = 0; i < n_threads; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	return NULL;
}

static struct thread *thread_new(pid_t tid, struct process *p)
{
	struct thread *t = thread_of(0);

	if (!t && n_threads == N_THREADS)
		exit(2);
	if (!t)
		t = &threads[n_threads++];
	*t = (struct thread){ .tid = tid, .process = p };
	p->n_threads++;
	return t;
}

static void thread_free(struct thread *t)
{
	t->process->n_threads--;
	*t = (struct thread){ 0 };
}

static pid_t group_of(pid_t tid)
{
	char path[64], line[256];
	int pid = tid;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Tgid: %d", &pid) == 1)
			break;
	if (file)
		(void)fclose(file);
	return pid;
}

static bool is_wanted(const struct process *p)
{
	return p->n_threads && !isupper((unsigned char)p->name[0]);
}

static bool any_wanted(void)
{
	for (unsigned i = 0; i < n_processes; i++)
		if (is_wanted(&processes[i]))
			return true;
	return false;
}

/* ---- going on -------------------------------------------------------------------------------- */

static struct hold *hold_stepping(const struct process *p)
{
	for (unsigned i = 0; i < n_holds; i++)
		if (holds[i].is_stepping && strcmp(holds[i].who, p->name) == 0)
			return &holds[i];
	return NULL;
}

static void go_on(struct thread *t)
{
	int signal = t->signal;

	t->is_parked = true;
	if (t->process->is_held)
		return;
	t->is_parked = false;
	t->signal = 0;
	if (t->is_listening)
		(void)ptrace(PTRACE_LISTEN, t->tid, NULL, NULL);
	else
		(void)ptrace(hold_stepping(t->process) ? PTRACE_SINGLESTEP : PTRACE_SYSCALL, t->tid,
			     NULL, (void *)(intptr_t)signal);
}

/* t is stopped already. */
static void hold_process(const struct thread *t, struct hold *hold)
{
	struct process *p = t->process;

	hold->is_done = true;
	hold->is_stepping = false;
	p->is_held = true;
	p->msec_until = msec_now() + (hold->msec ? hold->msec : msec_hold);
	for (unsigned i = 0; i < n_threads; i++)
		if (threads[i].tid && threads[i].process == p && &threads[i] != t &&
		    !threads[i].is_parked)
			(void)ptrace(PTRACE_INTERRUPT, threads[i].tid, NULL, NULL);
}

static void let_go(struct process *p)
{
	p->is_held = false;
	for (unsigned i = 0; i < n_threads; i++)
		if (threads[i].tid && threads[i].process == p && threads[i].is_parked)
			go_on(&threads[i]);
}

/* Of those that are held, who is due? Returns for how long nobody is. */
static uint64_t look_at_holds(void)
{
	uint64_t now = msec_now(), least = 1000;

	for (unsigned i = 0; i < n_processes; i++) {
		struct process *p = &processes[i];

		if (p->is_held && now >= p->msec_until)
			let_go(p);
		else if (p->is_held && p->msec_until - now < least)
			least = p->msec_until - now;
	}
	return least;
}

/* ---- atomic instructions of the shim --------------------------------------------------------- */

#ifdef __x86_64__
static bool is_in_shim(pid_t tid, uint64_t at)
{
	unsigned long first, end;
	char path[64], line[512];
	bool found = false;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, SHIM) && sscanf(line, "%lx-%lx", &first, &end) == 2 &&
			at >= first && at < end;
	if (file)
		(void)fclose(file);
	return found;
}

/* With a lock prefix, xchg with memory, or mfence. */
static bool is_atomic(const uint8_t *code)
{
	unsigned i = 0;

	while (code[i] == 0x66 || code[i] == 0xf2 || code[i] == 0xf3) i++;
	if (code[i] == 0xf0)
		return true;
	if ((code[i] & 0xf0) == 0x40)
		i++;
	if (code[i] == 0xf0)
		return true;
	if (code[i] == 0x86 || code[i] == 0x87)
		return code[i + 1] < 0xc0;
	return code[i] == 0x0f && code[i + 1] == 0xae && code[i + 2] == 0xf0;
}

static void stepped(struct thread *t, struct hold *hold)
{
	struct user_regs_struct regs;
	struct iovec own, its;
	uint8_t code[8] = { 0 };

	if (ptrace(PTRACE_GETREGS, t->tid, NULL, &regs) < 0)
		return;
	own = (struct iovec){ code, sizeof(code) };
	its = (struct iovec){ (void *)regs.rip, sizeof(code) };
	(void)process_vm_readv(t->tid, &own, 1, &its, 1, 0);
	if (code[0] == 0x0f && code[1] == 0x05) /* syscall */
		hold->is_stepping = false;
	else if (is_atomic(code) && is_in_shim(t->tid, regs.rip) && ++hold->n_seen == hold->n_atom)
		hold_process(t, hold);
}
#else
static void stepped(struct thread *t, struct hold *hold)
{
	(void)t;
	hold->is_stepping = false;
}
#endif

/* ---- what happens ---------------------------------------------------------------------------- */

static void called(struct thread *t)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, (void *)sizeof(info), &info) <= 0)
		return;
	for (unsigned i = 0; i < n_holds; i++) {
		struct hold *hold = &holds[i];

		if (hold->is_done || strcmp(hold->who, t->process->name) != 0)
			continue;
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY && !hold->n_atom &&
		    t->process->n_calls + 1 == hold->n_call)
			hold_process(t, hold);
		if (info.op == PTRACE_SYSCALL_INFO_EXIT && hold->n_atom &&
		    t->process->n_calls == hold->n_call)
			hold->is_stepping = true;
	}
	t->process->n_calls += info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

/* Its first stop may have come before its maker's word. */
static void made(const struct thread *maker, int event)
{
	unsigned long message = 0;
	struct process *p = maker->process;
	struct thread *t;
	char name[48];
	pid_t tid;

	(void)ptrace(PTRACE_GETEVENTMSG, maker->tid, NULL, &message);
	tid = (pid_t)message;
	t = thread_of(tid);
	if (event == PTRACE_EVENT_CLONE && group_of(tid) == p->pid) {
		if (!t)
			(void)thread_new(tid, p);
		return;
	}
	(void)snprintf(name, sizeof(name), "%s%u", p->name, ++p->n_children);
	if (t)
		(void)snprintf(t->process->name, sizeof(t->process->name), "%.31s", name);
	else
		(void)thread_new(tid, process_new(name, tid));
}

/* All other threads are gone, and this one has the group's number, whatever its own was. */
static void executed(struct thread *t)
{
	unsigned long former = 0;

	(void)ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &former);
	for (unsigned i = 0; i < n_threads; i++)
		if (threads[i].tid && threads[i].process == t->process && &threads[i] != t)
			thread_free(&threads[i]);
}

static void stopped(struct thread *t, int status)
{
	int signal = WSTOPSIG(status), event = status >> 16;
	struct hold *hold = hold_stepping(t->process);

	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	    event == PTRACE_EVENT_CLONE)
		made(t, event);
	else if (event == PTRACE_EVENT_EXEC)
		executed(t);
	else if (event == PTRACE_EVENT_STOP)
		t->is_listening = signal != SIGTRAP;
	else if (signal == (SIGTRAP | 0x80))
		called(t);
	else if (signal == SIGTRAP && hold)
		stepped(t, hold);
	else
		t->signal = signal;
	if (event != PTRACE_EVENT_STOP)
		t->is_listening = false;
	go_on(t);
}

static void happened(pid_t tid, int status)
{
	struct thread *t = thread_of(tid);

	if (!WIFSTOPPED(status)) {
		if (t)
			thread_free(t);
		return;
	}
	/* Whose it is says the event of its maker. */
	if (!t)
		t = thread_new(tid, process_of(group_of(tid)) ?: process_new("?", tid));
	stopped(t, status);
}

static void watch(void)
{
	struct timespec most;
	sigset_t set;
	uint64_t msec;
	int status;
	pid_t tid;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (any_wanted()) {
		while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) happened(tid, status);
		if (tid < 0 && errno == ECHILD)
			return;
		msec = look_at_holds();
		most = (struct timespec){ (time_t)(msec / 1000), (long)(msec % 1000 * 1000000) };
		if (any_wanted())
			(void)sigtimedwait(&set, NULL, &most);
	}
}

/* ---- the beginning and the end --------------------------------------------------------------- */

static int seize(const char *text)
{
	const char *number = strchr(text, '=');
	char name[32], path[64];
	struct process *p;
	struct dirent *entry;
	DIR *tasks;

	if (!number)
		return -1;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(number - text), text);
	p = process_new(name, atoi(number + 1));
	(void)snprintf(path, sizeof(path), "/proc/%d/task", p->pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = atoi(entry->d_name);

		if (tid <= 0 || thread_of(tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)OPTIONS) < 0 ||
		    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
			return -1;
		(void)thread_new(tid, p);
	}
	if (tasks)
		(void)closedir(tasks);
	return tasks ? 0 : -1;
}

static void leave_the_rest(void)
{
	int status;

	for (unsigned i = 0; i < n_threads; i++) {
		if (!threads[i].tid)
			continue;
		if (!threads[i].is_parked &&
		    ptrace(PTRACE_INTERRUPT, threads[i].tid, NULL, NULL) == 0)
			(void)waitpid(threads[i].tid, &status, __WALL);
		(void)ptrace(PTRACE_DETACH, threads[i].tid, NULL, NULL);
	}
}

static void tell(void)
{
	for (unsigned i = 0; i < n_processes; i++)
		printf("%s %u\n", processes[i].name, processes[i].n_calls);
	for (unsigned i = 0; i < n_holds; i++)
		if (holds[i].is_done)
			printf("held %s.%u\n", holds[i].who, holds[i].n_call);
		else
			printf("missed %s.%u %u\n", holds[i].who, holds[i].n_call, holds[i].n_seen);
}

static bool parse_hold(const char *text)
{
	struct hold *hold = &holds[n_holds];
	int n = sscanf(text, "%31[^.].%u.%u", hold->who, &hold->n_call, &hold->n_atom);
	const char *msec = strchr(text, ':');

	hold->msec = msec ? strtoull(msec + 1, NULL, 10) : 0;
	return n >= 2 && ++n_holds < N_HOLDS;
}

int main(int argc, char **argv)
{
	sigset_t set;
	int i = 2;

	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!parse_hold(argv[i]))
			return 2;
	if (i + 1 >= argc) {
		fprintf(stderr, "usage: starve MSEC [WHO.N[.M][:MSEC]]... -- NAME=PID...\n");
		return 2;
	}
	msec_hold = strtoull(argv[1], NULL, 10);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	for (i++; i < argc; i++)
		if (seize(argv[i]) < 0) {
			perror(argv[i]);
			return 1;
		}
	printf("ready\n");
	(void)fflush(stdout);
	watch();
	leave_the_rest();
	tell();
	return 0;
}
