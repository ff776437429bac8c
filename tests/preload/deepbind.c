/* Connections in the hands of a library that looks for libc's functions before it looks for the
 * shim's. */
#include "case.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>

struct deep {
	void *handle;
	ssize_t (*send)(int fd, const void *buf, size_t len);
	ssize_t (*receive)(int fd, void *buf, size_t len);
	int (*poll)(struct pollfd *fds, nfds_t n, int msec);
};

/* It lies beside this program. */
static void path_of_deep(char *path, size_t size)
{
	char self[PATH_MAX] = "";

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		abort();
	(void)snprintf(path, size, "%s/deep.so", dirname(self));
}

static struct deep load(const char *path, int flags)
{
	struct deep d = { .handle = dlopen(path, flags) };

	if (!d.handle) {
		(void)fprintf(stderr, "%s\n", dlerror());
		abort();
	}
	d.send = (ssize_t(*)(int, const void *, size_t))dlsym(d.handle, "deep_send");
	d.receive = (ssize_t(*)(int, void *, size_t))dlsym(d.handle, "deep_receive");
	d.poll = (int (*)(struct pollfd *, nfds_t, int))dlsym(d.handle, "deep_poll");
	return d;
}

static void talk(struct play *p, int flags)
{
	char path[PATH_MAX], buf[16] = "";
	struct pollfd pfd = { .events = POLLIN };
	struct deep d;

	path_of_deep(path, sizeof(path));
	d = load(path, flags);
	A {
		SEND("one");
		R(d.send(FD, "two", 3));
		SEND("three");
	}
	B {
		settle(p, FD, 11);
		R(d.receive(FD, buf, 7));
		say_bytes(p, "its own", buf, 7);
		R(recv(FD, buf, sizeof(buf), 0));
		say_bytes(p, "the program's", buf, 4);
		R(d.send(FD, "!", 1));
	}
	A {
		pfd.fd = FD;
		R(d.poll(&pfd, 1, 5000));
		say_poll(p, "events", pfd.revents);
		R(d.receive(FD, buf, sizeof(buf)));
	}
	dlclose(d.handle);
}

CASE(deepbind_lazily, DUO)
{
	talk(p, RTLD_LAZY | RTLD_DEEPBIND);
}

CASE(deepbind_at_once, DUO)
{
	talk(p, RTLD_NOW | RTLD_DEEPBIND);
}

CASE(deepbind_not, DUO)
{
	talk(p, RTLD_NOW);
}

/* By this program's own folder, which libc knows by the address that dlopen() returns to. */
CASE(dlopen_by_the_callers_folder, DUO)
{
	struct deep d = load("deep.so", RTLD_NOW);

	A { R(d.send(FD, "x", 1)); }
	B { RECV(4); }
	dlclose(d.handle);
}

/* With a name alone nobody is told apart: the program is on the kernel from then on. */
CASE(deepbind_by_the_callers_folder, DUO)
{
	struct deep d = load("deep.so", RTLD_NOW | RTLD_DEEPBIND);

	A { R(d.send(FD, "x", 1)); }
	B { RECV(4); }
	dlclose(d.handle);
}
