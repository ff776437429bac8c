/*
 * Semaphores and liars. A page that somebody scribbles over: nobody crashes, and every wait with an
 * end ends. And clients who ask psid for semaphores that are not theirs, with memory that is none,
 * and without end.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "liar.h"
#include "memory.h"
#include "psid/scene.h"
#include "sem.h"

#define N_SEMS_CLIENT 256u

/* ---- the page -------------------------------------------------------------------------------- */

static struct shm_sem *page_new(void)
{
	struct shm_sem *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	REQUIRE(page != MAP_FAILED);
	return page;
}

static void use(struct shm_sem *page, uint32_t n, uint64_t nsec)
{
	struct shm_sem_view v = { .sem = page, .n = n, .holder = 17 };

	(void)shm_sem_post(&v);
	(void)shm_sem_wait(&v, nsec_now() + nsec);
	(void)shm_sem_try(&v);
	CHECK_INT(shm_sem_value(&v), <=, SHM_SEM_MAX);
	(void)shm_sem_post(&v);
	shm_sem_forget(&v);
}

static void each_value(void)
{
	struct shm_sem *page = page_new();

	for (size_t i = 0; i < sizeof(*page) / 4; i += i < 40 ? 1 : 97) {
		for (size_t k = 0; k < LIAR_N_VALUES; k++) {
			((_Atomic uint32_t *)page)[i] = (uint32_t)liar_values[k];
			use(page, 0, 1);
			use(page, 1, 1);
			use(page, SHM_SEM_N_HELD, 1);
		}
	}
	(void)munmap(page, sizeof(*page));
}

static void while_it_changes(void)
{
	struct shm_sem *page = page_new();
	struct liar liar = {
		.words = { (_Atomic uint64_t *)page, (_Atomic uint64_t *)page },
		.n_words = sizeof(*page) / 8,
	};

	liar_start(&liar);
	for (unsigned i = 0; i < 300; i++) {
		use(page, 0, 50 * NSEC_PER_USEC);
		use(page, 3, 50 * NSEC_PER_USEC);
		use(page, SHM_SEM_N_HELD, 50 * NSEC_PER_USEC);
	}
	liar_stop(&liar);
	(void)munmap(page, sizeof(*page));
}

/* ---- psid ------------------------------------------------------------------------------------ */

static struct fake_client hostile;

static void begin(void)
{
	scene_begin(false, NULL);
	fake_attach(&hostile, &psid, FAKE_SELF);
}

static void end(void)
{
	fake_close(&hostile);
	scene_end();
}

static void ask_open(struct fake_client *c, const char *name, uint32_t count, bool held, bool all)
{
	Pulc__Wire__SemOpen open = PULC__WIRE__SEM_OPEN__INIT;
	FROM_CLIENT(msg, SEM_OPEN, sem_open) = &open;

	open.request = 5;
	open.name = (char *)name;
	open.count = count;
	open.held = held;
	open.all = all;
	fake_send(c, &msg, NULL, 0);
}

/* Its number for us; 0: none. */
static uint32_t open_sem(struct fake_client *c, const char *name, uint32_t count, bool held)
{
	const Pulc__Wire__PortReply *reply;

	ask_open(c, name, count, held, false);
	reply = EXPECT(c, PORT_REPLY)->port_reply;
	CHECK_INT(reply->request, ==, 5);
	CHECK_INT(c->n_fds, ==, reply->error ? 0 : 1);
	CHECK_INT(reply->holder != 0, ==, reply->error == 0);
	return reply->holder;
}

static void ask_return(struct fake_client *c, int fd, const char *name, uint32_t holder)
{
	Pulc__Wire__SemJoin join = PULC__WIRE__SEM_JOIN__INIT;
	FROM_CLIENT(msg, SEM_JOIN, sem_join) = &join;

	join.request = 7;
	join.count = 1;
	join.held = true;
	join.name = (char *)name;
	join.holder = holder;
	fake_send(c, &msg, &fd, 1);
}

static void ask_join(struct fake_client *c, int fd, uint32_t count, bool held)
{
	Pulc__Wire__SemJoin join = PULC__WIRE__SEM_JOIN__INIT;
	FROM_CLIENT(msg, SEM_JOIN, sem_join) = &join;

	join.request = 6;
	join.count = count;
	join.held = held;
	fake_send(c, &msg, &fd, 1);
}

static void close_sem(struct fake_client *c, uint32_t holder)
{
	Pulc__Wire__SemClose close = PULC__WIRE__SEM_CLOSE__INIT;
	FROM_CLIENT(msg, SEM_CLOSE, sem_close) = &close;

	close.holder = holder;
	fake_send(c, &msg, NULL, 0);
}

static int sealed_memory(uint64_t size)
{
	char head[16] = { 0 };
	int fd;

	REQUIRE_INT(psid_memory_new("liar", size, head, sizeof(head), &fd), ==, 0);
	return fd;
}

static void nonsense_ends_the_client(void)
{
	char long_name[100];

	memset(long_name, 'n', sizeof(long_name));
	long_name[99] = '\0';
	begin();
	for (unsigned i = 0; i < 9; i++) {
		int fd = -EBADF;

		switch (i) {
		case 0:
			ask_open(&hostile, long_name, 1, false, false);
			break;
		case 1:
			ask_open(&hostile, "", SHM_SEM_MAX + 1, false, false);
			break;
		case 2:
			ask_open(&hostile, "", 0, true, false);
			break;
		case 3:
			ask_open(&hostile, "", SHM_SEM_N_HELD + 1, true, false);
			break;
		case 4: /* not sealed */
			fd = memfd_create("liar", MFD_CLOEXEC);
			REQUIRE_INT(ftruncate(fd, SHM_PAGE), ==, 0);
			ask_join(&hostile, fd, 0, false);
			break;
		case 5: /* too large */
			fd = sealed_memory(2 * (uint64_t)SHM_PAGE);
			ask_join(&hostile, fd, 0, false);
			break;
		case 6: /* not even memory */
			fd = dup(STDIN_FILENO);
			ask_join(&hostile, fd, 0, false);
			break;
		case 7:
			fd = sealed_memory(SHM_PAGE);
			ask_join(&hostile, fd, SHM_SEM_N_HELD + 1, true);
			break;
		case 8:
			fd = sealed_memory(SHM_PAGE);
			ask_return(&hostile, fd, long_name, 1);
			break;
		}
		fake_expect_end(&hostile);
		fake_close(&hostile);
		(void)close_own(fd);
		fake_attach(&hostile, &psid, FAKE_SELF);
	}
	end();
}

/* Sealed as psid's is, but there is no semaphore in it. */
static void other_memory_is_no_semaphore(void)
{
	int fd = sealed_memory(SHM_PAGE);

	begin();
	ask_join(&hostile, fd, 0, false);
	CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->error, !=, 0);
	(void)close_own(fd);
	end();
}

static void they_are_limited_and_paid_for(void)
{
	Pulc__Wire__StatusReply before, after;
	unsigned n = 0;

	begin();
	fake_status(&psid, &before);
	CHECK_INT(open_sem(&a, "one", 1, false), !=, 0);
	CHECK_INT(open_sem(&b, "one", 1, false), !=, 0);
	fake_status(&psid, &after);
	CHECK_INT(after.n_areas, ==, before.n_areas + 1);
	/* And a little for each part. */
	CHECK_INT(after.size_bytes, >, before.size_bytes + SHM_PAGE);
	CHECK_INT(after.size_bytes, <, before.size_bytes + SHM_PAGE + 1024);
	while (n <= N_SEMS_CLIENT && open_sem(&hostile, "one", 0, false))
		n++;
	CHECK_INT(n, ==, N_SEMS_CLIENT);
	CHECK_INT(open_sem(&hostile, "", 0, false), ==, 0);
	/* Of the other kind. */
	CHECK_INT(open_sem(&a, "one", 1, true), ==, 0);
	fake_status(&psid, &after);
	CHECK_INT(after.n_areas, ==, before.n_areas + 1);
	end();
}

/* Nobody ends what is another one's, nor frees what it holds. */
static void parts_are_ones_own(void)
{
	struct shm_sem_view v = { .n = 1 }, theirs = { .n = 1 };

	begin();
	v.holder = open_sem(&a, "one", 1, true);
	REQUIRE_INT(shm_sem_map(a.fds[0], &v.sem), ==, 0);
	theirs.holder = open_sem(&hostile, "one", 1, true);
	theirs.sem = v.sem;
	CHECK_INT(theirs.holder, !=, v.holder);
	CHECK_INT(shm_sem_try(&v), ==, 0);
	CHECK_INT(shm_sem_post(&theirs), ==, -EPERM);
	close_sem(&hostile, v.holder);
	close_sem(&hostile, 0);
	CHECK(fake_is_quiet(&hostile));
	CHECK_INT(shm_sem_value(&v), ==, 0);
	/* It gives back by ending. */
	fake_close(&a);
	CHECK_INT(shm_sem_wait(&theirs, nsec_now() + 40 * NSEC_PER_SEC), ==, 0);
	shm_sem_unmap(v.sem);
	fake_attach(&a, &psid, FAKE_SELF);
	end();
}

/* What another psid has made: an empty one. */
static int another_psids(void)
{
	struct shm_sem head = { .magic = SHM_MAGIC_SEM, .version = SHM_VERSION };
	int fd;

	REQUIRE_INT(psid_memory_new("sem", SHM_PAGE, &head, sizeof(head), &fd), ==, 0);
	return fd;
}

/* Who comes back keeps number and name, and nobody else comes under that number; a name that was
 * made anew remains with the new one. */
static void numbers_come_back_once(void)
{
	int fd[2] = { another_psids(), another_psids() };
	const Pulc__Wire__PortReply *reply;
	struct shm_sem_view v = { .n = 1, .holder = 77 };

	begin();
	REQUIRE_INT(shm_sem_map(fd[0], &v.sem), ==, 0);
	CHECK_INT(shm_sem_try(&v), ==, 0);
	ask_return(&a, fd[0], "one", 77);
	reply = EXPECT(&a, PORT_REPLY)->port_reply;
	CHECK(reply->error == 0 && reply->holder == 0);
	ask_return(&hostile, fd[0], "one", 77);
	CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->error, !=, 0);
	ask_return(&hostile, fd[1], "one", 77);
	CHECK_INT(EXPECT(&hostile, PORT_REPLY)->port_reply->error, ==, 0);
	close_sem(&hostile, 77);
	CHECK(fake_is_quiet(&hostile));
	CHECK_INT(shm_sem_value(&v), ==, 0);
	v.holder = open_sem(&b, "one", 1, true);
	CHECK_INT(v.holder, !=, 0);
	fake_close(&a);
	CHECK_INT(shm_sem_wait(&v, nsec_now() + 40 * NSEC_PER_SEC), ==, 0);
	shm_sem_unmap(v.sem);
	(void)close_own(fd[0]);
	(void)close_own(fd[1]);
	fake_attach(&a, &psid, FAKE_SELF);
	end();
}

/* Another user opens only what is for all. */
static void users_are_kept_apart(void)
{
	static const char *const settings[] = { "PULC_ALLOW_USERS=root, 65534", NULL };

	if (geteuid() != 0) {
		test_skip("needs root");
		return;
	}
	scene_begin(true, settings);
	fake_attach(&hostile, &psid, 65534);
	CHECK_INT(open_sem(&a, "ours", 1, false), !=, 0);
	CHECK_INT(open_sem(&hostile, "ours", 1, false), ==, 0);
	CHECK_INT(open_sem(&hostile, "theirs", 1, false), !=, 0);
	CHECK_INT(open_sem(&a, "theirs", 1, false), !=, 0);
	ask_open(&a, "everybody's", 1, true, true);
	CHECK_INT(EXPECT(&a, PORT_REPLY)->port_reply->error, ==, 0);
	CHECK_INT(open_sem(&hostile, "everybody's", 1, true), !=, 0);
	end();
}

static const struct test tests[] = {
	TEST(each_value),
	TEST(while_it_changes),
	TEST(nonsense_ends_the_client),
	TEST(other_memory_is_no_semaphore),
	TEST(they_are_limited_and_paid_for),
	TEST(parts_are_ones_own),
	TEST(numbers_come_back_once),
	TEST(users_are_kept_apart),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
