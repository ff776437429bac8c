/*
 * The cgroup of a job: <root>/<job> for its keeper, and in it `tasks` for all that the job starts.
 *
 * The root is this psid's (root.c). No controller is switched on: the cgroup is there so that one
 * write kills all that is in it. Where we may not make one there is none, and the process tree
 * serves instead.
 *
 * Where another user's keeper must put tasks into it, folder and cgroup.procs are given to that
 * user, and nothing else. A removal that fails because the dead are not buried yet is tried again,
 * and so is one of more folders than are removed at once: what the job's user makes there is his.
 * When the job has ended he can make no more. After a restart the folders that no keeper has
 * claimed within MSEC_CLAIM are swept.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "client.h"
#include "folders.h"
#include "job.h"
#include "log.h"
#include "macros.h"
#include "psid.h"
#include "root.h"
#include "spare.h"

#define MSEC_CLAIM 10000
#define MSEC_AGAIN 50
#define N_STEPS 200 /* of a removal at once */
#define FOLDER "job."

static void path_of(const struct psid_jobs *jobs, const char *id, const char *rest, char *buf,
		    size_t size)
{
	(void)snprintf(buf, size, "%.500s/" FOLDER "%.80s%s", jobs->cgroup_root, id, rest);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The user's keeper may put processes into it. */
static int give(const char *path, uid_t uid)
{
	char procs[700];

	if (uid == geteuid())
		return 0;
	(void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	return chown(path, uid, (gid_t)-1) < 0 || chown(procs, uid, (gid_t)-1) < 0 ? -errno : 0;
}

static int make_folder(const char *path, uid_t uid, int *ret_fd)
{
	int r;

	if (mkdir(path, 0755) < 0)
		return -errno;
	r = give(path, uid);
	if (r < 0)
		return r;
	*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* What the user may make in it: no deeper than N_STEPS, so that it can be removed, and no more than
 * that takes a few turns for. A kernel that cannot be told so lets it be. */
static void limit(int folder)
{
	static const char *const limits[][2] = { { "cgroup.max.depth", "32" },
						 { "cgroup.max.descendants", "1000" } };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		CLEANUP_FD int fd = openat(folder, limits[i][0], O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			(void)!write(fd, limits[i][1], strlen(limits[i][1]));
	}
}

int psid_cgroup_make(struct psid *psid, const char *id, uid_t uid, int *ret_keeper, int *ret_tasks)
{
	struct psid_jobs *jobs = psid->jobs;
	CLEANUP_FD int keeper = -EBADF, tasks = -EBADF;
	char path[640];
	int r;

	if (!jobs->cgroup_root[0])
		return -ENOENT;
	r = psid_root_keep(jobs->cgroup_root, &jobs->cgroup_fd);
	if (r < 0)
		return r;
	path_of(jobs, id, "", path, sizeof(path));
	r = make_folder(path, uid, &keeper);
	if (r < 0)
		return r;
	limit(keeper);
	path_of(jobs, id, "/tasks", path, sizeof(path));
	r = make_folder(path, uid, &tasks);
	if (r < 0) {
		psid_cgroup_remove(psid, id);
		return r;
	}
	*ret_keeper = TAKE_FD(keeper);
	*ret_tasks = TAKE_FD(tasks);
	return 0;
}

int psid_cgroup_give(struct psid *psid, const char *id, uid_t uid)
{
	char path[640];
	int r;

	path_of(psid->jobs, id, "", path, sizeof(path));
	r = give(path, uid);
	if (r < 0)
		return r;
	path_of(psid->jobs, id, "/tasks", path, sizeof(path));
	return give(path, uid);
}

bool psid_cgroup_has(const struct psid_jobs *jobs, const char *id, pid_t pid)
{
	char path[640];
	FILE *file;
	int member;
	bool has = false;

	if (!jobs->cgroup_root[0])
		return false;
	path_of(jobs, id, "/cgroup.procs", path, sizeof(path));
	file = fopen(path, "re");
	while (file && !has && fscanf(file, "%d", &member) == 1)
		has = member == pid;
	if (file)
		(void)fclose(file);
	return has;
}

bool psid_cgroup_find(const struct psid_jobs *jobs, pid_t pid, char ret_id[JOB_SIZE_ID])
{
	DIR *dir = jobs->cgroup_root[0] ? opendir(jobs->cgroup_root) : NULL;
	const struct dirent *entry;
	bool has = false;

	while (dir && !has && (entry = readdir(dir))) {
		const char *id = entry->d_name + strlen(FOLDER);

		has = strncmp(entry->d_name, FOLDER, strlen(FOLDER)) == 0 &&
		      strlen(id) < JOB_SIZE_ID && psid_cgroup_has(jobs, id, pid);
		if (has)
			(void)strcpy(ret_id, id);
	}
	if (dir)
		(void)closedir(dir);
	return has;
}

/* ---- removing -------------------------------------------------------------------------------- */

static void write_to(const char *path, const char *name, const char *value)
{
	char file[700];
	CLEANUP_FD int fd = -EBADF;

	(void)snprintf(file, sizeof(file), "%s/%s", path, name);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, value, strlen(value));
}

/* Ends what is in it, and lets nobody make more: processes of its user that are elsewhere could
 * make folders as fast as we remove them. */
static void kill_all(const char *path)
{
	write_to(path, "cgroup.max.descendants", "0");
	write_to(path, "cgroup.kill", "1");
}

static void on_sweep(uv_timer_t *timer);

void psid_cgroup_remove(struct psid *psid, const char *id)
{
	struct psid_jobs *jobs = psid->jobs;
	char path[640];

	path_of(jobs, id, "/tasks", path, sizeof(path));
	(void)rmdir(path);
	path_of(jobs, id, "", path, sizeof(path));
	if (rmdir(path) == 0)
		return;
	kill_all(path);
	if (!psid_folders_remove(path, N_STEPS) && uv_timer_get_due_in(&jobs->sweep) == 0)
		(void)uv_timer_start(&jobs->sweep, on_sweep, MSEC_AGAIN, 0);
}

/* Everything that belongs to no job. */
static void on_sweep(uv_timer_t *timer)
{
	struct psid_jobs *jobs = CONTAINER_OF(timer, struct psid_jobs, sweep);
	DIR *dir = opendir(jobs->cgroup_root);
	const struct dirent *entry;
	bool left = false;
	char path[640];

	while (dir && (entry = readdir(dir))) {
		const char *id = entry->d_name + strlen(FOLDER);

		if (strncmp(entry->d_name, FOLDER, strlen(FOLDER)) != 0 ||
		    psid_job_find(jobs->psid, id) || psid_spare_is(jobs->psid, id))
			continue;
		path_of(jobs, id, "", path, sizeof(path));
		kill_all(path);
		left |= !psid_folders_remove(path, N_STEPS);
	}
	if (dir)
		(void)closedir(dir);
	if (left)
		(void)uv_timer_start(timer, on_sweep, MSEC_AGAIN, 0);
}

void psid_cgroups_start(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;
	int r;

	(void)uv_timer_init(&psid->loop, &jobs->sweep);
	jobs->cgroup_fd = -EBADF;
	r = psid_root_open(psid->config, jobs->cgroup_root, &jobs->cgroup_fd);
	if (r < 0) {
		jobs->cgroup_fd = close_own(jobs->cgroup_fd);
		jobs->cgroup_root[0] = '\0';
		psid_log(PSID_DEBUG, "jobs have no cgroup here: %s", strerror(-r));
		return;
	}
	(void)uv_timer_start(&jobs->sweep, on_sweep, MSEC_CLAIM, 0);
}
