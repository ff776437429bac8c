/* What is mapped of a slab or a message area takes no memory in a process that locks its own, and
 * is in no dump of core. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "area.h"
#include "harness.h"
#include "slab.h"
#include "tcp_pair.h"

#define SIZE_AREA (64ull << 20)
#define N_SLOTS 8
/* The header and a page or two of each slot, not their rings. */
#define KIB_SLAB_MAX 256
#define MAY_NOT_LOCK 77

static unsigned long kib_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? ~0ul : (unsigned long)st.st_blocks / 2;
}

/* Does the kernel keep this mark (proc(5), VmFlags) of the mapping at that place? */
static bool has_mark(const void *at, const char *mark)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to, found = 0;
	bool has = false;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			found = from;
		if (found == (unsigned long)at && strncmp(line, "VmFlags:", 8) == 0)
			has = strstr(line, mark) != NULL;
	}
	if (f)
		(void)fclose(f);
	return has;
}

/* In a process of its own, for it locks memory. 0, or the line that does not hold. */
static int map_locked(int fd, uint64_t size, bool (*map)(int, uint64_t, bool, void **))
{
	void *written, *read;

	if (mlockall(MCL_FUTURE) < 0)
		return MAY_NOT_LOCK;
	if (!map(fd, size, true, &written) || !map(fd, size, false, &read))
		return errno == EAGAIN ? MAY_NOT_LOCK : 1;
	if (kib_of(fd) > KIB_SLAB_MAX)
		return 2;
	if (has_mark(written, " lo") || has_mark(read, " lo"))
		return 3;
	if (!has_mark(written, " dd") || !has_mark(read, " dd"))
		return 4;
	return 0;
}

static void check_locked(int fd, uint64_t size, bool (*map)(int, uint64_t, bool, void **))
{
	pid_t pid = fork();
	int status = -1;

	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(map_locked(fd, size, map));
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	(void)close(fd);
	if (WIFEXITED(status) && WEXITSTATUS(status) == MAY_NOT_LOCK)
		test_skip("may not lock so much memory");
	else
		CHECK_INT(status, ==, 0);
}

static bool map_slab(int fd, uint64_t size, bool writable, void **ret_at)
{
	struct shm_slab_map map;
	int e = shm_slab_map(fd, size, writable, &map);

	*ret_at = e == 0 ? map.slab : NULL;
	errno = -e;
	return e == 0;
}

static bool map_area(int fd, uint64_t size, bool writable, void **ret_at)
{
	struct shm_area map;
	int e = shm_area_map(fd, size, writable, &map);

	*ret_at = e == 0 ? map.at : NULL;
	errno = -e;
	return e == 0;
}

static void a_slab_is_not_locked(void)
{
	uint64_t size;
	int fd = slab_make(tcp_pair_usual_rings, N_SLOTS, &size);

	CHECK_INT(kib_of(fd), <=, KIB_SLAB_MAX);
	check_locked(fd, size, map_slab);
}

static void a_message_area_is_not_locked(void)
{
	int fd = memfd_create("area", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && ftruncate(fd, SIZE_AREA) == 0);
	check_locked(fd, SIZE_AREA, map_area);
}

static const struct test tests[] = {
	TEST(a_slab_is_not_locked),
	TEST(a_message_area_is_not_locked),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
