/*
 * Numbers of jobs: small, and never given twice, for people and scripts hold on to them. The last
 * one stands in a file of the run directory, which is gone with the machine's uptime, as all jobs
 * are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "log.h"
#include "psid.h"

/* Opens the file when the first job comes: a psid without jobs leaves nothing behind. */
static void open_file(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;
	char path[PSID_SIZE_PATH + 16];

	(void)snprintf(path, sizeof(path), "%s/last-job", psid->config->runtime_dir);
	jobs->number_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (jobs->number_fd < 0)
		psid_log(PSID_WARNING, "%s: %s: numbers of jobs begin anew", path, strerror(errno));
	else if (pread(jobs->number_fd, &jobs->last_number, sizeof(jobs->last_number), 0) !=
		 (ssize_t)sizeof(jobs->last_number))
		jobs->last_number = 0;
}

uint32_t psid_job_number(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;

	if (jobs->last_number == 0)
		open_file(psid);
	jobs->last_number = jobs->last_number % 999999999u + 1;
	if (jobs->number_fd >= 0)
		(void)!pwrite(jobs->number_fd, &jobs->last_number, sizeof(jobs->last_number), 0);
	return jobs->last_number;
}
