/*
 * The link to psid.
 *
 * The job does not need it: when psid is gone it goes on, and the keeper looks for the next psid
 * every MSEC_AGAIN until it finds one, and says there again what it keeps. Reports about tasks are
 * gathered for MSEC_GATHER, so that a job of many short tasks costs psid a few messages. But psid
 * hears of the last end before the owner does: who runs one job after the other must find the room
 * of the first free.
 */
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "channel.h"
#include "cleanup.h"
#include "client.pb-c.h"
#include "clock.h"
#include "head.h"
#include "kill.h"
#include "macros.h"
#include "owner.h"
#include "talk.h"

#define MSEC_AGAIN 200
#define MSEC_GATHER 20
#define MSEC_PATIENCE 100 /* with a psid that is slow to welcome us */
#define N_ENTRIES 128u

struct psid_link {
	struct keeper *keeper;
	int fd;
	bool welcome;
	bool *told; /* for each task: has its present state been reported? */
	uint64_t nsec_started;
	uv_poll_t poll;
	uv_timer_t again, gather, patience;
	bool waited; /* once, for psid's welcome */
};

static void on_again(uv_timer_t *timer);

static void lose(struct psid_link *link)
{
	uv_close((uv_handle_t *)&link->poll, NULL);
	link->fd = close_own(link->fd);
	link->welcome = false;
	(void)uv_timer_start(&link->again, on_again, MSEC_AGAIN, 0);
}

static void send_message(struct psid_link *link, const Pulc__Wire__FromClient *msg)
{
	(void)wire_send_from_client(link->fd, msg, NULL, 0);
}

/* ---- what we say ----------------------------------------------------------------------------- */

static const char *program(const struct keeper *k)
{
	const char *name = k->spec ? k->spec->arguments[0] : "", *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}

static void say_keep(struct psid_link *link)
{
	struct keeper *k = link->keeper;
	Pulc__Wire__Keep keep = PULC__WIRE__KEEP__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	char name[64];

	(void)snprintf(name, sizeof(name), "%s", program(k));
	keep.job = k->start->id;
	keep.number = k->start->number;
	keep.n_tasks = k->n_tasks;
	keep.n_ranks = k->n_ranks;
	keep.program = name;
	keep.started_usec = (nsec_now() - link->nsec_started) / NSEC_PER_USEC;
	keep.partition = k->start->partition;
	keep.reservation = k->start->reservation;
	keep.reserves = k->start->reserves;
	keep.head = k->is_head;
	keep.n_cpus = k->spec ? k->spec->cpus_per_task : 0;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_KEEP;
	msg.keep = &keep;
	send_message(link, &msg);
}

static void fill(const struct task *task, Pulc__Wire__TaskEntry *entry)
{
	static const Pulc__Wire__TaskState states[] = {
		[TASK_WAITS] = PULC__WIRE__TASK_STATE__TASK_STARTING,
		[TASK_RUNS] = PULC__WIRE__TASK_STATE__TASK_RUNNING,
		[TASK_ENDED] = PULC__WIRE__TASK_STATE__TASK_ENDED,
	};

	pulc__wire__task_entry__init(entry);
	entry->rank = task->rank;
	entry->local = task->local;
	entry->pid = (uint32_t)task->pid;
	entry->state = states[task->state];
	if (task->state == TASK_ENDED)
		entry->code = WIFSIGNALED(task->status) ? 128u + (uint32_t)WTERMSIG(task->status)
							: (uint32_t)WEXITSTATUS(task->status);
}

/* Reports up to N_ENTRIES tasks. Returns whether there are more. */
static bool report_some(struct psid_link *link)
{
	static Pulc__Wire__TaskEntry entries[N_ENTRIES];
	static Pulc__Wire__TaskEntry *pointers[N_ENTRIES];
	Pulc__Wire__TaskReport report = PULC__WIRE__TASK_REPORT__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	struct keeper *k = link->keeper;
	uint32_t i;

	for (i = 0; i < k->n_tasks && report.n_tasks < N_ENTRIES; i++) {
		if (link->told[i])
			continue;
		fill(&k->tasks[i], &entries[report.n_tasks]);
		pointers[report.n_tasks] = &entries[report.n_tasks];
		report.n_tasks++;
		link->told[i] = true;
	}
	report.tasks = pointers;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_TASK_REPORT;
	msg.task_report = &report;
	if (report.n_tasks > 0)
		send_message(link, &msg);
	return i < k->n_tasks;
}

static void on_gather(uv_timer_t *timer)
{
	struct psid_link *link = CONTAINER_OF(timer, struct psid_link, gather);

	if (!link->welcome || !link->keeper->tasks || !link->told)
		return;
	while (report_some(link))
		;
}

void keeper_link_tasks(struct keeper *k)
{
	struct psid_link *link = k->psid;

	if (!link)
		return;
	if (!link->told)
		link->told = calloc(k->n_tasks + 1, sizeof(*link->told));
	for (uint32_t i = 0; link->told && i < k->n_tasks; i++)
		link->told[i] = link->told[i] && k->tasks[i].state == TASK_RUNS;
	if (!uv_is_active((uv_handle_t *)&link->gather))
		(void)uv_timer_start(&link->gather, on_gather, MSEC_GATHER, 0);
}

static void on_patience(uv_timer_t *timer)
{
	struct psid_link *link = CONTAINER_OF(timer, struct psid_link, patience);

	keeper_look_for_end(link->keeper);
}

bool keeper_link_settle(struct keeper *k)
{
	struct psid_link *link = k->psid;
	bool waits = link->fd >= 0 && !link->welcome;

	if (waits && !link->waited) {
		link->waited = true;
		(void)uv_timer_start(&link->patience, on_patience, MSEC_PATIENCE, 0);
	}
	if (waits && uv_is_active((uv_handle_t *)&link->patience))
		return false;
	on_gather(&link->gather);
	return true;
}

/* ---- what psid says -------------------------------------------------------------------------- */

static void take(struct psid_link *link, const Pulc__Wire__ToClient *msg)
{
	struct keeper *k = link->keeper;

	switch (msg->body_case) {
	case PULC__WIRE__TO_CLIENT__BODY_WELCOME:
		link->welcome = true;
		say_keep(link);
		if (link->told)
			memset(link->told, 0, k->n_tasks * sizeof(*link->told));
		on_gather(&link->gather);
		keeper_look_for_end(k);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_KEEPER_KILL:
		if (msg->keeper_kill->signal)
			keeper_head_signal(k, (int)msg->keeper_kill->signal,
					   msg->keeper_kill->only);
		else
			keeper_head_end_for(k, msg->keeper_kill->text);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_KEEPER_LOST:
		keeper_head_lost(k, msg->keeper_lost->here, msg->keeper_lost->text);
		break;
	default:
		break;
	}
}

static void on_message(uv_poll_t *poll, int status, int events)
{
	struct psid_link *link = CONTAINER_OF(poll, struct psid_link, poll);
	Pulc__Wire__ToClient *msg;
	int r;

	(void)status;
	(void)events;
	while ((r = wire_talk_take(link->fd, &msg)) == 0) {
		take(link, msg);
		pulc__wire__to_client__free_unpacked(msg, NULL);
	}
	if (r != -EAGAIN)
		lose(link);
}

/* ---- finding it ------------------------------------------------------------------------------ */

static int call(struct psid_link *link)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = link->keeper->start->socket;
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	(void)strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (uv_poll_init(&link->keeper->loop, &link->poll, fd) < 0)
		return -ENOMEM;
	link->fd = TAKE_FD(fd);
	(void)uv_poll_start(&link->poll, UV_READABLE, on_message);
	(void)wire_talk_hello(link->fd, PULC__WIRE__ROLE__ROLE_KEEPER, "keeper");
	return 0;
}

static void on_again(uv_timer_t *timer)
{
	struct psid_link *link = CONTAINER_OF(timer, struct psid_link, again);

	if (call(link) < 0)
		(void)uv_timer_start(timer, on_again, MSEC_AGAIN, 0);
}

int keeper_link_start(struct keeper *k)
{
	struct psid_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	*link = (struct psid_link){ .keeper = k, .fd = -EBADF, .nsec_started = nsec_now() };
	k->psid = link;
	r = uv_timer_init(&k->loop, &link->again);
	if (r == 0)
		r = uv_timer_init(&k->loop, &link->gather);
	if (r == 0)
		r = uv_timer_init(&k->loop, &link->patience);
	if (r == 0)
		r = uv_timer_start(&link->again, on_again, 0, 0);
	return r;
}
