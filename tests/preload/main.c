/*
 * catalogue: plays one case of the catalogue and prints its log.
 *
 * 	catalogue --list		name, modes and traits of each case, a line each
 * 	catalogue NAME self|thread|process
 *
 * Environment: CASE_WARM (rings: exchange bytes until the pair is on rings; N: N exchanges),
 * CASE_ROLE (connect|accept: what A does), CASE_HOST (address of the pair), CASE_ALONE=1
 * (process mode: B runs without preloaded libraries), CASE_GATE=1 (once warm, print "gate PIDS"
 * and wait for a line of input), CASE_SECONDS (time-out).
 *
 * The program supervises: the case is played by a child in a process group of its own, which is
 * ended with the case, so that a hanging case leaves nothing behind. Exit status: 0 played,
 * 2 unknown case, 3 timed out, 4 a process of the case died, 77 mode not meant for the case.
 */
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

extern const struct tcase *__start_cases[], *__stop_cases[];

/* Long enough for a machine that does much else: nothing but a hang lasts longer. */
#define SECONDS_MAX 40
/* High, so that descriptors of the harness never take a number that a case looks at. */
#define FD_STAGE 900

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct tcase *const *)a)->name,
		      (*(const struct tcase *const *)b)->name);
}

static int list(void)
{
	size_t n = (size_t)(__stop_cases - __start_cases);
	const struct tcase **sorted = malloc(n * sizeof(*sorted));

	memcpy(sorted, __start_cases, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_names);
	for (size_t i = 0; i < n; i++)
		printf("%s%s%s%s%s%s%s\n", sorted[i]->name, sorted[i]->modes & SELF ? " self" : "",
		       sorted[i]->modes & THREAD ? " thread" : "",
		       sorted[i]->modes & PROCESS ? " process" : "",
		       sorted[i]->traits & STAYS_KERNEL ? " kernel" : "",
		       sorted[i]->traits & NO_PAIR ? " nopair" : "",
		       sorted[i]->traits & SETTLED ? " settled" : "");
	free(sorted);
	return 0;
}

static const struct tcase *find(const char *name)
{
	for (const struct tcase **c = __start_cases; c < __stop_cases; c++)
		if (strcmp((*c)->name, name) == 0)
			return *c;
	return NULL;
}

static enum play_mode mode_of(const char *name)
{
	if (strcmp(name, "self") == 0)
		return SELF;
	return strcmp(name, "thread") == 0 ? THREAD : PROCESS;
}

/* ---- playing --------------------------------------------------------------------------------- */

void play_gate(struct play *p)
{
	if (!getenv("CASE_GATE"))
		return;
	if (p->mode != PROCESS)
		p->stage->pid[SIDE_B] = p->stage->pid[SIDE_A];
	raise(SIGSTOP);
}

static bool has_pair(const struct tcase *tcase)
{
	return !(tcase->traits & (NO_PAIR | OWN_PAIR));
}

static void play(struct play *p)
{
	for (int side = SIDE_A; side <= SIDE_B; side++)
		if (p->actor & 1u << side) {
			p->stage->tid[side] = gettid();
			p->stage->pid[side] = getpid();
		}
	if (has_pair(p->tcase)) {
		play_open(p);
		play_warm(p);
		A { play_gate(p); }
	}
	play_phase(p);
	p->tcase->run(p);
	play_phase(p);
}

static void *play_thread(void *arg)
{
	play(arg);
	return NULL;
}

/* B without preloaded libraries: the same program anew, told where the stage is. */
static void become_lone_actor(const struct play *p)
{
	char listener[16], *argv[] = { "catalogue", (char *)p->tcase->name, "process", NULL };

	(void)snprintf(listener, sizeof(listener), "%d", p->listener);
	setenv("CASE_LISTENER", listener, 1);
	unsetenv("LD_PRELOAD");
	execv("/proc/self/exe", argv);
	_exit(4);
}

static int play_both(struct play *p)
{
	struct play other = *p;
	pthread_t thread;
	pid_t pid;
	int status = 0;

	p->actor = 1u << SIDE_A;
	other.actor = 1u << SIDE_B;
	if (p->mode == THREAD) {
		if (pthread_create(&thread, NULL, play_thread, &other) != 0)
			return 4;
		play(p);
		pthread_join(thread, NULL);
		return 0;
	}
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getenv("CASE_ALONE"))
			become_lone_actor(p);
		play(&other);
		exit(0);
	}
	play(p);
	waitpid(pid, &status, 0);
	return status == 0 ? 0 : 4;
}

static int play_case(struct play *p)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	if (has_pair(p->tcase))
		play_prepare_listener(p);
	if (p->mode != SELF)
		return play_both(p);
	p->actor = 1u << SIDE_A | 1u << SIDE_B;
	play(p);
	return 0;
}

static struct stage *map_stage(int fd)
{
	return mmap(NULL, sizeof(struct stage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static struct stage *make_stage(void)
{
	pthread_barrierattr_t attr;
	struct stage *stage;
	int fd = memfd_create("stage", 0);

	if (dup2(fd, FD_STAGE) < 0 || ftruncate(FD_STAGE, sizeof(struct stage)) < 0)
		return NULL;
	close(fd);
	stage = map_stage(FD_STAGE);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&stage->barrier, &attr, 2);
	return stage;
}

static int play_lone_actor(struct play *p, const char *listener)
{
	p->listener = atoi(listener);
	p->stage = map_stage(FD_STAGE);
	p->actor = 1u << SIDE_B;
	play(p);
	return 0;
}

/* ---- supervising ----------------------------------------------------------------------------- */

static void pass_gate(const struct stage *stage, pid_t pid)
{
	char line[16];

	printf("gate %d %d\n", stage->pid[SIDE_A], stage->pid[SIDE_B]);
	fflush(stdout);
	(void)!fgets(line, sizeof(line), stdin);
	kill(pid, SIGCONT);
}

/* What a hanging case's threads are doing: the number of the system call is a strong hint. */
static void tell_where(const struct stage *stage)
{
	for (int side = SIDE_A; side <= SIDE_B; side++) {
		char path[64], line[256] = "";
		FILE *file;

		(void)snprintf(path, sizeof(path), "/proc/%d/syscall", stage->tid[side]);
		file = fopen(path, "re");
		if (file && fgets(line, sizeof(line), file))
			fprintf(stderr, "actor %c: phase %u, system call %s", "AB"[side],
				stage -> phase[side], line);
		if (file)
			fclose(file);
	}
}

static int status_of(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr, "the case was killed by SIG%s\n", sigabbrev_np(WTERMSIG(status)));
	return 4;
}

static int supervise(const struct stage *stage, pid_t pid)
{
	const char *text = getenv("CASE_SECONDS");
	struct timespec patience = { .tv_sec = text ? atoi(text) : SECONDS_MAX };
	sigset_t set;
	int status;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (;;) {
		pid_t ended = waitpid(pid, &status, WNOHANG | WUNTRACED);

		if (ended == pid && !WIFSTOPPED(status))
			return status_of(status);
		if (ended == pid)
			pass_gate(stage, pid);
		else if (sigtimedwait(&set, NULL, &patience) < 0 && errno == EAGAIN)
			break;
	}
	tell_where(stage);
	kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	return 3;
}

static void print_log(struct stage *stage)
{
	fwrite(stage->log.text, 1, stage->log.size, stdout);
	for (int side = SIDE_A; side <= SIDE_B; side++)
		fwrite(stage->part[side].text, 1, stage->part[side].size, stdout);
	printf("# %s\n", stage->is_warm ? "rings" : "kernel");
}

static int supervise_case(struct play *p)
{
	sigset_t set, old;
	pid_t pid;
	int result;

	p->stage = make_stage();
	if (!p->stage)
		return 4;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &old);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		if (!getenv("CASE_ALONE"))
			close(FD_STAGE);
		exit(play_case(p));
	}
	result = supervise(p->stage, pid);
	kill(-pid, SIGKILL);
	print_log(p->stage);
	return result;
}

int main(int argc, char **argv)
{
	struct play p = { .fds = { -1, -1 }, .listener = -1 };
	const char *listener = getenv("CASE_LISTENER");

	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (argc == 3 && strcmp(argv[1], "--echo") == 0)
		return echo_until_end(atoi(argv[2]));
	if (argc == 3 && strcmp(argv[1], "--echo-passed") == 0)
		return echo_passed(atoi(argv[2]));
	if (argc == 3 && strcmp(argv[1], "--count") == 0)
		return count_until_end(atoi(argv[2]));
	if (argc == 5 && strcmp(argv[1], "--pattern") == 0)
		return check_pattern(atoi(argv[2]), (size_t)atoi(argv[3]), atoi(argv[4]));
	if (argc == 5 && strcmp(argv[1], "--put") == 0)
		return write_pattern(atoi(argv[2]), (size_t)atoi(argv[3]), (size_t)atoi(argv[4]));
	if (argc != 3 || !(p.tcase = find(argv[1]))) {
		fprintf(stderr, "usage: catalogue --list | NAME self|thread|process\n");
		return 2;
	}
	p.mode = mode_of(argv[2]);
	if (!(p.tcase->modes & p.mode))
		return 77;
	return listener ? play_lone_actor(&p, listener) : supervise_case(&p);
}
