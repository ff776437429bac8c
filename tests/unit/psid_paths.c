/* Where a psid is looked for, and whom a process believes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "paths.h"

static char dir[64];

static void begin(void)
{
	(void)unsetenv("PULC_SOCKET");
	(void)unsetenv("PULC_RUNTIME_DIR");
	(void)unsetenv("XDG_RUNTIME_DIR");
	(void)snprintf(dir, sizeof(dir), "/tmp/pulc-paths-test.XXXXXX");
	REQUIRE(mkdtemp(dir) != NULL);
}

static void end(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -r %s", dir);
	CHECK_INT(system(command), ==, 0);
	(void)unsetenv("PULC_SOCKET");
	(void)unsetenv("PULC_RUNTIME_DIR");
	(void)unsetenv("XDG_RUNTIME_DIR");
}

static const char *in_dir(const char *name)
{
	static char path[96];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	REQUIRE(strlen(path) < sizeof(address.sun_path));
	(void)strcpy(address.sun_path, path);
	REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0);
	return fd;
}

static int try_connect(char *buf, size_t size)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int r = wire_connect(fd, buf, size);

	(void)close(fd);
	return r;
}

/* As after su(1): the session's folder is not there, or another user's. */
static void folder_of_another_session(void)
{
	char path[128], own[32];

	begin();
	(void)snprintf(own, sizeof(own), "/tmp/pulc-%u", geteuid());
	(void)setenv("XDG_RUNTIME_DIR", in_dir("none"), 1);
	CHECK_INT(wire_runtime_dir(false, path, sizeof(path)), ==, 0);
	CHECK_STR(path, own);
	(void)setenv("XDG_RUNTIME_DIR", geteuid() == 0 ? dir : "/usr", 1);
	CHECK(geteuid() != 0 || chown(dir, 7001, 7001) == 0);
	CHECK_INT(wire_runtime_dir(false, path, sizeof(path)), ==, 0);
	CHECK_STR(path, own);
	end();
}

static void candidates_come_in_order(void)
{
	const char *name;
	char path[128];

	begin();
	CHECK_INT(wire_candidate(0, path, sizeof(path)), ==, -ENOENT);
	CHECK_INT(wire_candidate(1, path, sizeof(path)), ==, -ENOENT);
	CHECK_INT(wire_candidate(2, path, sizeof(path)), ==, -ENOENT);
	CHECK_INT(wire_candidate(4, path, sizeof(path)), ==, 0);
	CHECK_STR(path, "/run/pulc/psid.sock");
	CHECK_INT(wire_candidate(5, path, sizeof(path)), ==, -ENOENT);
	(void)setenv("PULC_SOCKET", "/a/b", 1);
	(void)setenv("PULC_RUNTIME_DIR", "/c", 1);
	(void)setenv("XDG_RUNTIME_DIR", "/d", 1);
	CHECK_INT(wire_candidate(0, path, sizeof(path)), ==, 0);
	CHECK_STR(path, "/a/b");
	CHECK_INT(wire_candidate(1, path, sizeof(path)), ==, 0);
	CHECK_STR(path, "/c/psid.sock");
	CHECK_INT(wire_candidate(2, path, sizeof(path)), ==, 0);
	CHECK_STR(path, "/d/pulc/psid.sock");
	CHECK_INT(wire_candidate(2, path, 10), ==, -ENAMETOOLONG);
	CHECK_INT(wire_places_check(&name), ==, 0);
	(void)setenv("PULC_SOCKET", "relative", 1); /* not a place */
	CHECK_INT(wire_candidate(0, path, sizeof(path)), ==, -ENOENT);
	CHECK_INT(wire_places_check(&name), ==, -EINVAL);
	CHECK_STR(name, "PULC_SOCKET");
	(void)setenv("PULC_SOCKET", "", 1);
	CHECK_INT(wire_places_check(&name), ==, 0);
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	(void)setenv("PULC_RUNTIME_DIR", path, 1);
	CHECK_INT(wire_places_check(&name), ==, -ENAMETOOLONG);
	CHECK_STR(name, "PULC_RUNTIME_DIR");
	(void)setenv("PULC_RUNTIME_DIR", "/c", 1);

	CHECK_INT(wire_runtime_dir(true, path, sizeof(path)), ==, 0);
	CHECK_STR(path, "/c");
	(void)unsetenv("PULC_RUNTIME_DIR");
	CHECK_INT(wire_runtime_dir(true, path, sizeof(path)), ==, 0);
	CHECK_STR(path, "/run/pulc");
	(void)setenv("XDG_RUNTIME_DIR", dir, 1);
	CHECK_INT(wire_runtime_dir(false, path, sizeof(path)), ==, 0);
	CHECK_STR(path, in_dir("pulc"));
	(void)unsetenv("XDG_RUNTIME_DIR");
	CHECK_INT(wire_runtime_dir(false, path, sizeof(path)), ==, 0);
	CHECK(strncmp(path, "/tmp/pulc-", 10) == 0);
	end();
}

static void directories_are_verified(void)
{
	struct stat st;
	char inner[128], link[128];

	begin();
	(void)snprintf(inner, sizeof(inner), "%s/run", dir);
	(void)snprintf(link, sizeof(link), "%s/link", dir);
	(void)umask(0);
	CHECK_INT(wire_runtime_dir_make(inner, false), ==, 0);
	REQUIRE(stat(inner, &st) == 0);
	CHECK_INT(st.st_mode & 07777, ==, 0700);
	CHECK_INT(wire_runtime_dir_make(inner, false), ==, 0);
	REQUIRE(chmod(inner, 0777) == 0);
	CHECK_INT(wire_runtime_dir_make(inner, false), ==, -EPERM);
	REQUIRE(symlink(inner, link) == 0);
	CHECK_INT(wire_runtime_dir_make(link, false), ==, -ENOTDIR);
	REQUIRE(rmdir(inner) == 0);
	(void)umask(077);
	CHECK_INT(wire_runtime_dir_make(inner, true), ==, 0);
	REQUIRE(stat(inner, &st) == 0);
	CHECK_INT(st.st_mode & 07777, ==, 0755);
	if (geteuid() == 0) {
		REQUIRE(chown(inner, 65534, 65534) == 0);
		CHECK_INT(wire_runtime_dir_make(inner, true), ==, -EPERM);
	}
	CHECK_INT(wire_runtime_dir_make(in_dir("no/such"), false), ==, -ENOENT);
	(void)umask(022);
	end();
}

static void the_first_living_psid_is_taken(void)
{
	char path[128] = "";
	int fd;

	begin();
	(void)setenv("PULC_SOCKET", in_dir("dead.sock"), 1);
	(void)close(listen_at(in_dir("dead.sock")));
	(void)setenv("PULC_RUNTIME_DIR", dir, 1);
	fd = listen_at(in_dir("psid.sock"));
	CHECK_INT(try_connect(path, sizeof(path)), ==, 0);
	CHECK_STR(path, in_dir("psid.sock"));
	/* Its backlog is full: nobody waits. */
	while (try_connect(NULL, 0) == 0)
		;
	CHECK_INT(try_connect(NULL, 0), ==, -EAGAIN);
	(void)close(fd);
	end();
}

/* Another user's socket, in a place that we look at. */
static void strangers_are_not_believed(void)
{
	pid_t child;
	int ready[2];

	if (geteuid() != 0) {
		test_skip("needs root to be another user");
		return;
	}
	begin();
	REQUIRE(chmod(dir, 0777) == 0 && pipe(ready) == 0);
	(void)setenv("PULC_SOCKET", in_dir("psid.sock"), 1);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		if (setuid(65534) == 0) {
			(void)listen_at(in_dir("psid.sock"));
			(void)!write(ready[1], "r", 1);
		}
		(void)close(ready[1]);
		(void)pause();
		_exit(0);
	}
	(void)close(ready[1]);
	REQUIRE(read(ready[0], &(char){ 0 }, 1) == 1);
	CHECK_INT(try_connect(NULL, 0), ==, -EPERM);
	/* Nor when the file is made to look like ours. */
	REQUIRE(chown(in_dir("psid.sock"), 0, 0) == 0);
	CHECK_INT(try_connect(NULL, 0), ==, -EPERM);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	(void)close(ready[0]);
	end();
}

static const struct test tests[] = {
	TEST(candidates_come_in_order),	  TEST(folder_of_another_session),
	TEST(directories_are_verified),	  TEST(the_first_living_psid_is_taken),
	TEST(strangers_are_not_believed),
};

int main(int argc, char **argv)
{
	tests_hide_psids();
	return TESTS_RUN(tests, argc, argv);
}
