/*
 * Settings in the environment of a program written to libpulc: what is none is passed over, and the
 * log says so; what is one is not talked about.
 */
#include <pulc/block.h>

#include <string.h>
#include <sys/mman.h>

#include "log.h"
#include "psid/native_case.h"

static char said[4096];

/* What the log says of a process with these settings. */
static void begin_with(const char *queue, const char *alloc, const char *pull, const char *tcp)
{
	int fd = memfd_create("log", MFD_CLOEXEC);
	pulc_port *port;
	ssize_t len;
	void *block;

	MUST(fd >= 0);
	pulc_log_fd = fd;
	(void)setenv("PULC_QUEUE_MAX", queue, 1);
	(void)setenv("PULC_ALLOC_MAX", alloc, 1);
	(void)setenv("PULC_PULL", pull, 1);
	(void)setenv("PULC_TCP", tcp, 1);
	port = native_open(PULC_D, "own");
	MUST_IS(pulc_alloc(2u << 20, 0, &block), 0);
	MUST_IS(pulc_free(block), 0);
	MUST_IS(pulc_port_close(port), 0);
	pulc_log_fd = -1;
	len = pread(fd, said, sizeof(said) - 1, 0);
	MUST(len >= 0);
	said[len] = '\0';
}

static void with_nonsense(void)
{
	begin_with("64M", "-1", "yes", "fast");
	MUST(strstr(said, "PULC_QUEUE_MAX=64M: expected a number: passed over\n"));
	MUST(strstr(said, "PULC_ALLOC_MAX=-1: expected a number: passed over\n"));
	MUST(strstr(said, "PULC_PULL=yes: expected 0 or 1: passed over\n"));
	MUST(strstr(said, "PULC_TCP=fast: expected plain or io_uring: passed over\n"));
}

static void with_sense(void)
{
	begin_with("1000000", "4194304", "0", "plain");
	MUST(!strstr(said, "passed over"));
	begin_with("", "", "", "");
	MUST(!strstr(said, "passed over"));
}

static void nonsense_is_said(void)
{
	NATIVE_RUN(with_nonsense);
}

static void sense_is_not(void)
{
	NATIVE_RUN(with_sense);
}

static const struct test tests[] = { TEST(nonsense_is_said), TEST(sense_is_not) };

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
