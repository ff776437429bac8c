/* What threads do while another one forks, on a fake libpulc. */
#include <poll.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "inherit.h"
#include "preload_epoll_bed.h"
#include "rawsys.h"

#define SECONDS_HANGING 30

/* Run in a fork when the shim has made itself ready for it. */
static void (*in_fork)(void);
static sem_t go, done;

static void prepare(void)
{
	if (in_fork)
		in_fork();
}

/* Before the shim's own: what is to be done before a fork is done in reverse order. */
__attribute__((constructor(101))) static void start(void)
{
	(void)pthread_atfork(prepare, NULL, NULL);
	(void)sem_init(&go, 0, 0);
	(void)sem_init(&done, 0, 0);
}

static void reap(pid_t pid)
{
	siginfo_t info = { 0 };
	int status;

	for (int i = 0; i < SECONDS_HANGING * 1000; i++) {
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
		    info.si_pid != 0)
			break;
		usleep(1000);
	}
	(void)kill(pid, SIGKILL);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
}

static void let_the_other_work(void)
{
	sem_post(&go);
	sem_wait(&done);
}

static void *make_set(void *arg)
{
	int *ep = arg;

	sem_wait(&go);
	*ep = epoll_create1(0);
	sem_post(&done);
	return NULL;
}

static void sets_are_made_meanwhile(void)
{
	int eps[N_EVENTS], made = -1;
	pthread_t thread;
	struct bed b;
	pid_t pid;

	/* No free record of a set is left that this thread would hold in its fork. */
	for (int i = 0; i < N_EVENTS; i++)
		eps[i] = epoll_create1(0);
	pthread_create(&thread, NULL, make_set, &made);
	in_fork = let_the_other_work;
	pid = fork();
	in_fork = NULL;
	if (pid == 0)
		_exit(pre_self()->n_locked == 0 ? 0 : 1);
	reap(pid);
	pthread_join(thread, NULL);
	CHECK_INT(pre_self()->n_locked, ==, 0);
	close(made);
	for (int i = 0; i < N_EVENTS; i++)
		close(eps[i]);
	begin(&b, EPOLLIN);
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	end(&b);
}

static void *make_and_close_sets(void *arg)
{
	const _Atomic bool *enough = arg;
	int eps[4];

	while (!atomic_load(enough)) {
		for (int i = 0; i < 4; i++)
			eps[i] = epoll_create1(0);
		for (int i = 0; i < 4; i++)
			close(eps[i]);
	}
	return NULL;
}

static void sets_come_and_go_meanwhile(void)
{
	_Atomic bool enough = false;
	pthread_t threads[2];
	pid_t pid;

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, make_and_close_sets, &enough);
	for (int i = 0; i < 100; i++) {
		pid = fork();
		if (pid == 0)
			_exit(pre_self()->n_locked == 0 ? 0 : 1);
		reap(pid);
	}
	CHECK_INT(pre_self()->n_locked, ==, 0);
	atomic_store(&enough, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static pid_t parent;

static void be_in_the_midst_of_it(void)
{
	if (getpid() == parent)
		let_the_other_work();
}

static void *take_up(void *arg)
{
	(void)pre_inherit(*(int *)arg);
	return NULL;
}

/* Who takes it up in the parent is not in the child. */
static void a_connection_is_taken_up_meanwhile(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pthread_t thread;
	pid_t pid;

	REQUIRE(pre_file_install(fd, &pre_file_inherited));
	parent = getpid();
	fake.inheriting = be_in_the_midst_of_it;
	pthread_create(&thread, NULL, take_up, &fd);
	sem_wait(&go);
	pid = fork();
	if (pid == 0) {
		(void)pre_inherit(fd);
		_exit(pre_file_at(fd) == &pre_file_other ? 0 : 1);
	}
	reap(pid);
	sem_post(&done);
	pthread_join(thread, NULL);
	fake.inheriting = NULL;
	CHECK(pre_file_at(fd) == &pre_file_other);
	close(fd);
}

struct closing {
	int fd;
	_Atomic bool inside;
};

static void *stay_inside(void *arg)
{
	struct closing *c = arg;
	struct pre_use use;

	if (!pre_use_stream(&use, c->fd))
		return NULL;
	atomic_store(&c->inside, true);
	while (atomic_load(&c->inside))
		usleep(100);
	pre_use_end(&use);
	return NULL;
}

static void *close_it(void *arg)
{
	close(((struct closing *)arg)->fd);
	return NULL;
}

/* What keeps the connection open for those who are inside is of no use in a child, which has none
 * of them. */
static void a_connection_with_calls_inside_is_closed_meanwhile(void)
{
	struct closing c = { 0 };
	pthread_t threads[2];
	pulc_stream *s;
	int fds[2];
	pid_t pid;

	fake_pair(fds);
	s = pulc_stream_ref(fake_of(fds[0]));
	c.fd = fds[0];
	pthread_create(&threads[0], NULL, stay_inside, &c);
	while (!atomic_load(&c.inside))
		usleep(100);
	parent = getpid();
	fake.moving = be_in_the_midst_of_it;
	pthread_create(&threads[1], NULL, close_it, &c);
	sem_wait(&go);
	pid = fork();
	if (pid == 0)
		_exit(!s->home && s->n_closings == 1 ? 0 : 1);
	reap(pid);
	CHECK(s->home);
	sem_post(&done);
	pthread_join(threads[1], NULL);
	fake.moving = NULL;
	CHECK_INT(s->n_closings, ==, 0);
	atomic_store(&c.inside, false);
	pthread_join(threads[0], NULL);
	CHECK_INT(s->n_closings, ==, 1);
	pulc_stream_unref(s);
	close(fds[1]);
}

static bool is_shared(int fd)
{
	return atomic_load(&pre_file_at(fd)->shared);
}

static int marked, made[2];

/* The shim's part is done by now. */
static void look_whether_it_is_marked(void)
{
	marked = is_shared(marked);
	fake_pair(made);
}

/* Who writes to a file after the fork copies its page; but what is made meanwhile is another
 * process's too. */
static void files_are_marked_before_and_those_made_meanwhile_after(void)
{
	int fds[2];
	pid_t pid;

	fake_pair(fds);
	CHECK(!is_shared(fds[0]));
	marked = fds[0];
	in_fork = look_whether_it_is_marked;
	pid = fork();
	in_fork = NULL;
	if (pid == 0)
		_exit(is_shared(fds[0]) && is_shared(made[0]) ? 0 : 1);
	reap(pid);
	CHECK_INT(marked, ==, true);
	CHECK(is_shared(made[0]) && is_shared(made[1]));
	for (unsigned i = 0; i < 2; i++) {
		close(fds[i]);
		close(made[i]);
	}
}

static int n_own(void)
{
	int n = 0;

	for (int fd = pulc_fd_next_own(0); fd >= 0; fd = pulc_fd_next_own(fd + 1))
		n++;
	return n;
}

/* The number of what a set has of its own is claimed by the program in a child that uses the set
 * too: that child may close the set. 0: the number is the program's then, and nothing is left. */
static int claim_and_close(struct bed *b, int claimed)
{
	int pipes[2], n_of_child = n_own();

	(void)wait_now(b);
	if (pipe(pipes) != 0 || dup2(pipes[0], claimed) != claimed)
		return 1;
	(void)wait_now(b);
	close(b->ep);
	if (write(pipes[1], "x", 1) != 1 || fcntl(claimed, F_GETFD) < 0)
		return 2;
	/* The bell and the private half. */
	return n_own() == n_of_child - 2 ? 0 : 3;
}

static void what_a_set_has_of_its_parents_gives_way_to_the_program(void)
{
	struct bed b;
	pid_t pid;

	begin(&b, EPOLLIN);
	REQUIRE(n_own() >= 2);
	for (int fd = pulc_fd_next_own(0); fd >= 0; fd = pulc_fd_next_own(fd + 1)) {
		pid = fork();
		if (pid == 0)
			_exit(claim_and_close(&b, fd));
		reap(pid);
	}
	fake_arrive(b.s, 1);
	CHECK_INT(wait_now(&b), ==, 1);
	end(&b);
}

static bool is_set_ready(int ep)
{
	struct pollfd pfd = { .fd = ep, .events = POLLIN };
	struct timespec now = { 0 };

	return raw_syscall(SYS_ppoll, &pfd, 1, &now, NULL, 8) == 1;
}

/* A set comes to have ring members after the fork, and both use it. */
static void a_child_leaves_what_wakes_its_parent(void)
{
	struct bed b = { .ep = epoll_create1(0) };
	int go_on[2];
	pid_t pid;
	char c;

	REQUIRE_INT(pipe(go_on), ==, 0);
	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	add(b.ep, b.fds[0], EPOLLIN, 3);
	pid = fork();
	if (pid == 0)
		_exit(read(go_on[0], &c, 1) == 1 && wait_now(&b) == 0 ? 0 : 1);
	fake_attach(b.s);
	fake_arrive(b.s, 1);
	CHECK(is_set_ready(b.ep));
	REQUIRE_INT(write(go_on[1], "x", 1), ==, 1);
	reap(pid);
	CHECK(is_set_ready(b.ep));
	CHECK_INT(wait_now(&b), ==, 1);
	close(go_on[0]);
	close(go_on[1]);
	end(&b);
}

/* The bell of a child is not in the set that it shares. */
static int poll_in_child(struct bed *b)
{
	struct pollfd pfd = { .fd = b->ep, .events = POLLIN };
	char c;

	if (poll(&pfd, 1, 0) != 0)
		return 1;
	fake_arrive(b->s, 1);
	if (poll(&pfd, 1, 0) != 1 || pfd.revents != POLLIN || poll(&pfd, 1, 3000) != 1)
		return 2;
	if (wait_now(b) != 1 || recv(b->fds[0], &c, 1, 0) != 1)
		return 3;
	return poll(&pfd, 1, 10) == 0 ? 0 : 4;
}

static void a_child_polls_what_it_shares(void)
{
	struct bed b;
	pid_t pid;

	begin(&b, EPOLLIN);
	pid = fork();
	if (pid == 0)
		_exit(poll_in_child(&b));
	reap(pid);
	end(&b);
}

static const struct test tests[] = {
	TEST(sets_are_made_meanwhile),
	TEST(sets_come_and_go_meanwhile),
	TEST(a_connection_is_taken_up_meanwhile),
	TEST(a_connection_with_calls_inside_is_closed_meanwhile),
	TEST(files_are_marked_before_and_those_made_meanwhile_after),
	TEST(what_a_set_has_of_its_parents_gives_way_to_the_program),
	TEST(a_child_leaves_what_wakes_its_parent),
	TEST(a_child_polls_what_it_shares),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
