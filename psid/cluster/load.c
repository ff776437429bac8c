/*
 * The load of this node, from what the kernel says: how many processes run or want to (the fourth
 * field of loadavg, at this moment), memory available, and pressure-stall information where there
 * is any.
 *
 * Load averages lag by a minute, so the number of runnable processes is sampled and smoothed over
 * some seconds here. Tasks that PULC started are counted by themselves, exactly and at once,
 * whether they run or sleep at the moment; so they are taken off each sample before it is smoothed:
 * what is left is foreign, and the load is foreign plus tasks.
 *
 * The folder of these files can be another one than /proc, for containers that see figures of their
 * own elsewhere.
 */
#include "load.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "macros.h"

#define SIZE_FILE 4096
#define SEC_SMOOTH 3.0 /* time constant */
#define N_CPUS_MAX 8192

void psid_load_init(struct psid_load_meter *meter, const char *from)
{
	*meter = (struct psid_load_meter){ .from = from };
}

/* The beginning of a file as text. Returns buf, empty if there is no such file. */
static char *slurp(const struct psid_load_meter *meter, const char *name, char buf[SIZE_FILE])
{
	char path[256];
	ssize_t n = -1;
	CLEANUP_FD int fd = -EBADF;

	(void)snprintf(path, sizeof(path), "%s/%s", meter->from, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		n = read(fd, buf, SIZE_FILE - 1);
	buf[MAX(n, 0)] = '\0';
	return buf;
}

static void sample_runnable(struct psid_load_meter *meter, uint64_t usec_now,
			    const struct psid_load *load)
{
	double sec = (double)(usec_now - meter->usec_last) / USEC_PER_SEC, now;
	char buf[SIZE_FILE];
	unsigned n_runnable;

	if (sscanf(slurp(meter, "loadavg", buf), "%*s %*s %*s %u/", &n_runnable) != 1)
		return;
	/* This process is running, or it could not ask. */
	now = (double)n_runnable - 1 - load->n_tasks;
	now = now < 0 ? 0 : now;
	if (meter->usec_last == 0)
		meter->foreign = now;
	else
		meter->foreign += (now - meter->foreign) * (sec / (sec + SEC_SMOOTH));
}

/* The number behind a name at the beginning of a line. Returns 0, -ENOENT. */
static int number_of(const char *text, const char *name, uint64_t *ret_number)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, strlen(name)) != 0)
			continue;
		*ret_number = strtoull(line + strlen(name), NULL, 10);
		return 0;
	}
	return -ENOENT;
}

static void sample_memory(struct psid_load_meter *meter, struct psid_load *load)
{
	uint64_t kib_total, kib_available;
	char buf[SIZE_FILE];

	(void)slurp(meter, "meminfo", buf);
	if (number_of(buf, "MemTotal:", &kib_total) < 0 || kib_total == 0 ||
	    number_of(buf, "MemAvailable:", &kib_available) < 0)
		return;
	meter->mib_memory = (uint32_t)MIN(kib_total / 1024, UINT32_MAX);
	load->percent_memory =
		(uint8_t)((double)MIN(kib_available, kib_total) / (double)kib_total * 100);
}

static uint8_t stall_of(const struct psid_load_meter *meter, const char *name)
{
	char buf[SIZE_FILE];
	double percent;

	if (sscanf(slurp(meter, name, buf), "some avg10=%lf", &percent) != 1 || percent < 0)
		return UINT8_MAX;
	return (uint8_t)(percent > 100 ? 100 : percent);
}

void psid_load_sample(struct psid_load_meter *meter, uint64_t usec_now, struct psid_load *load)
{
	sample_runnable(meter, usec_now, load);
	sample_memory(meter, load);
	load->centi_foreign = (uint16_t)MIN(meter->foreign * 100, UINT16_MAX);
	load->percent_stall[0] = stall_of(meter, "pressure/cpu");
	load->percent_stall[1] = stall_of(meter, "pressure/memory");
	load->percent_stall[2] = stall_of(meter, "pressure/io");
	meter->usec_last = usec_now;
}

uint16_t psid_load_cores(void)
{
	cpu_set_t *set = CPU_ALLOC(N_CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(N_CPUS_MAX);
	int n = 0;

	if (set && sched_getaffinity(0, size, set) == 0)
		n = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	return (uint16_t)MAX(n, 1);
}
