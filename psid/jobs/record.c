/*
 * Records. A psid for all users writes down what it knows of each job of this node once its keeper
 * runs: whose it is, and what it was given. The psid after it has the job from there, and nothing
 * from its keeper, which is the user's process and could say that it has no partition, other
 * people's reservation, or half of its processors.
 *
 * A file for each job in a folder of the run directory, which only psid can write to; both are gone
 * when the last job has ended, and with the machine's uptime, as all jobs are. A file that is not
 * whole is none.
 */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "psid.h"
#include "user.h"

#define FOLDER "jobs"
#define SIZE_MAX_RECORD (1u << 20) /* 1,000 tasks of 128 processors each */
#define SIZE_RECORD_PATH (PSID_SIZE_PATH + sizeof("/" FOLDER "/") + JOB_SIZE_ID)

/* id: "": of the folder. */
static void path_of(const struct psid *psid, const char *id, char path[SIZE_RECORD_PATH])
{
	(void)snprintf(path, SIZE_RECORD_PATH, "%s/" FOLDER "%s%.79s", psid->config->runtime_dir,
		       *id ? "/" : "", id);
}

static int write_file(const char *path, const uint8_t *bytes, size_t len)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	return write(fd, bytes, len) == (ssize_t)len ? 0 : -EIO;
}

/* All that the next one is to know, as the keeper would say it. */
static void describe(const struct psid_job *job, Pulc__Peer__Kept *kept, Pulc__Wire__Keep *keep)
{
	pulc__peer__kept__init(kept);
	pulc__wire__keep__init(keep);
	keep->job = (char *)job->id;
	keep->number = job->number;
	keep->n_tasks = job->n_tasks;
	keep->n_ranks = job->n_ranks;
	keep->program = (char *)job->program;
	keep->head = job->head;
	keep->n_cpus = job->n_cpus;
	keep->partition = (char *)job->partition;
	keep->reservation = (char *)job->reservation;
	keep->reserves = job->reserves;
	kept->keep = keep;
	kept->uid = job->user->uid;
	kept->keeper = (uint32_t)job->keeper;
	kept->began_usec = job->usec_started;
	kept->cgroup = job->has_cgroup;
	kept->cpus = job->cpus;
	kept->n_cpus = job->n_bound;
}

void psid_record_write(const struct psid_job *job)
{
	CLEANUP_FREE uint8_t *bytes = NULL;
	char path[SIZE_RECORD_PATH];
	Pulc__Peer__Kept kept;
	Pulc__Wire__Keep keep;
	size_t len;
	int r;

	if (!job->psid->config->system || job->is_claimed)
		return;
	describe(job, &kept, &keep);
	len = pulc__peer__kept__get_packed_size(&kept);
	bytes = malloc(len);
	path_of(job->psid, "", path);
	(void)mkdir(path, 0700);
	path_of(job->psid, job->id, path);
	if (bytes)
		(void)pulc__peer__kept__pack(&kept, bytes);
	r = bytes ? write_file(path, bytes, len) : -ENOMEM;
	if (r < 0)
		psid_log(PSID_WARNING,
			 "%s: %s: after a restart job %s is taken for what its "
			 "keeper says",
			 path, strerror(-r), job->id);
}

Pulc__Peer__Kept *psid_record_read(const struct psid *psid, const char *id)
{
	CLEANUP_FREE uint8_t *bytes = NULL;
	CLEANUP_FD int fd = -EBADF;
	char path[SIZE_RECORD_PATH];
	Pulc__Peer__Kept *kept;
	struct stat st;

	path_of(psid, id, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > (off_t)SIZE_MAX_RECORD)
		return NULL;
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes || read(fd, bytes, (size_t)st.st_size) != st.st_size)
		return NULL;
	kept = pulc__peer__kept__unpack(NULL, (size_t)st.st_size, bytes);
	if (kept && kept->keep && strcmp(kept->keep->job, id) == 0)
		return kept;
	pulc__peer__kept__free_unpacked(kept, NULL);
	return NULL;
}

static void remove_record(const struct psid *psid, const char *id)
{
	char path[SIZE_RECORD_PATH];

	path_of(psid, id, path);
	(void)unlink(path);
	path_of(psid, "", path);
	(void)rmdir(path); /* which it can be when it is empty */
}

void psid_record_remove(const struct psid_job *job)
{
	if (job->psid->config->system && job->keeper > 0)
		remove_record(job->psid, job->id);
}

void psid_records_sweep(const struct psid *psid)
{
	char path[SIZE_RECORD_PATH];
	const struct dirent *entry;
	DIR *dir;

	if (!psid->config->system)
		return;
	path_of(psid, "", path);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		Pulc__Peer__Kept *kept;

		if (entry->d_name[0] == '.')
			continue;
		kept = psid_record_read(psid, entry->d_name);
		if (!kept || kept->keeper == 0 ||
		    (kill((pid_t)kept->keeper, 0) < 0 && errno == ESRCH))
			remove_record(psid, entry->d_name);
		pulc__peer__kept__free_unpacked(kept, NULL);
	}
	if (dir)
		(void)closedir(dir);
}
