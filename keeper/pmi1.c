/*
 * PMI-1, the dialogue that MPICH and its relatives start up with (grammar: Flux RFC 13).
 *
 * A task writes lines of "cmd=NAME KEY=VALUE ..." on the descriptor named in PMI_FD, and reads one
 * line for each. Keys are put into a space of the job; a barrier exchanges what was put between the
 * nodes. A task that has begun and ends without its finalize would leave the others waiting for
 * ever: its end counts as a failure, whatever its exit status (reported by keeper_abort).
 *
 * What is not served (dynamic processes) is answered with a failure, not with silence.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "fence.h"
#include "head.h"
#include "kvs.h"
#include "macros.h"
#include "mapping.h"
#include "pmi.h"
#include "task.h"

#define SIZE_LINE 4096u

static void stop_reading(struct pmi1 *pmi)
{
	if (pmi->fd < 0)
		return;
	if (pmi->reading)
		uv_close((uv_handle_t *)&pmi->poll, NULL);
	pmi->fd = close_own(pmi->fd);
	free(pmi->line);
	pmi->line = NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct task *task, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A task that does not read its answers can't have more of them than its socket holds. */
static void answer(struct task *task, const char *format, ...)
{
	char line[SIZE_LINE];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(line) - 1)
		return;
	line[n] = '\n';
	if (task->pmi.fd >= 0)
		(void)send(task->pmi.fd, line, (size_t)n + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The value of key in a line: up to the next space, or, for the last one, to the end. Returns 0,
 * -ENOENT. */
static int value_of(const char *line, const char *key, bool to_end, char *buf, size_t size)
{
	size_t len_key = strlen(key), len;
	const char *p = line;

	while ((p = strstr(p, key)) && !((p == line || p[-1] == ' ') && p[len_key] == '='))
		p += len_key;
	if (!p)
		return -ENOENT;
	p += len_key + 1;
	len = to_end ? strlen(p) : strcspn(p, " ");
	if (len >= size)
		return -EMSGSIZE;
	memcpy(buf, p, len);
	buf[len] = '\0';
	return 0;
}

static void init(struct task *task, const char *line)
{
	(void)line;
	task->pmi.initialised = true;
	task->keeper->any_mpi = true;
	answer(task, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
}

static void get_maxes(struct task *task, const char *line)
{
	(void)line;
	answer(task, "cmd=maxes kvsname_max=%u keylen_max=%u vallen_max=%u", KVS_SIZE_KEY,
	       KVS_SIZE_KEY, KVS_SIZE_VALUE);
}

static void get_appnum(struct task *task, const char *line)
{
	(void)line;
	answer(task, "cmd=appnum appnum=0");
}

static void get_my_kvsname(struct task *task, const char *line)
{
	(void)line;
	answer(task, "cmd=my_kvsname kvsname=kvs_%u", task->keeper->start->number);
}

static void get_universe_size(struct task *task, const char *line)
{
	(void)line;
	answer(task, "cmd=universe_size size=%u", task->keeper->n_ranks);
}

static void put(struct task *task, const char *line)
{
	char key[KVS_SIZE_KEY], value[KVS_SIZE_VALUE];
	int r = value_of(line, "key", false, key, sizeof(key));

	if (r == 0)
		r = value_of(line, "value", true, value, sizeof(value));
	if (r == 0)
		r = kvs_put(task->keeper->kvs, key, value);
	answer(task, "cmd=put_result rc=%d msg=%s", r < 0 ? -1 : 0,
	       r < 0 ? strerror(-r) : "success");
}

static void get(struct task *task, const char *line)
{
	const char *value = NULL;
	char key[KVS_SIZE_KEY];

	if (value_of(line, "key", false, key, sizeof(key)) == 0)
		value = kvs_get(task->keeper->kvs, key);
	if (value)
		answer(task, "cmd=get_result rc=0 msg=success value=%s", value);
	else
		answer(task, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
}

static void barrier_in(struct task *task, const char *line)
{
	struct keeper *k = task->keeper;
	const void *news;
	size_t len;

	(void)line;
	task->pmi.waiting = true;
	for (uint32_t i = 0; i < k->n_tasks; i++)
		if (!k->tasks[i].pmi.waiting)
			return;
	news = kvs_news(k->kvs, &len);
	keeper_fence_enter(k, FENCE_PMI1, news, len);
}

void pmi1_fence_left(struct keeper *k, const Pulc__Job__Fence *fence)
{
	for (size_t i = 0; i < fence->n_parts; i++)
		if (k->n_ranks > k->n_tasks) /* else it is what we have */
			(void)kvs_merge(k->kvs, fence->parts[i].data, fence->parts[i].len);
	kvs_flush(k->kvs);
	for (uint32_t i = 0; i < k->n_tasks; i++) {
		k->tasks[i].pmi.waiting = false;
		answer(&k->tasks[i], "cmd=barrier_out");
	}
}

static void finalize(struct task *task, const char *line)
{
	(void)line;
	task->pmi.finalised = true;
	answer(task, "cmd=finalize_ack");
}

static void abort_job(struct task *task, const char *line)
{
	char code[16] = "1";

	(void)value_of(line, "exitcode", false, code, sizeof(code));
	keeper_abort(task, (uint32_t)strtol(code, NULL, 10), "");
}

/* The answer comes by pmi1_names_answered. */
static void ask_names(struct task *task, Pulc__Job__NamesAct act, char *key, char *value)
{
	Pulc__Job__Name name = PULC__JOB__NAME__INIT, *list = &name;
	Pulc__Job__Names names = PULC__JOB__NAMES__INIT;
	JOB_MESSAGE(msg, NAMES, names) = &names;

	name.key = key;
	name.value = (ProtobufCBinaryData){ .len = strlen(value), .data = (uint8_t *)value };
	names.act = act;
	names.service = FENCE_PMI1;
	names.rank = task->rank;
	names.names = &list;
	names.n_names = 1;
	keeper_head_report(task->keeper, &msg);
}

static void publish(struct task *task, const char *line)
{
	char key[KVS_SIZE_VALUE], value[KVS_SIZE_VALUE];

	if (value_of(line, "service", false, key, sizeof(key)) < 0 ||
	    value_of(line, "port", false, value, sizeof(value)) < 0)
		answer(task, "cmd=publish_result rc=-1 msg=no_name");
	else
		ask_names(task, PULC__JOB__NAMES_ACT__PUBLISH, key, value);
}

static void unpublish(struct task *task, const char *line)
{
	char key[KVS_SIZE_VALUE], none[] = "";

	if (value_of(line, "service", false, key, sizeof(key)) < 0)
		answer(task, "cmd=unpublish_result rc=-1 msg=no_name");
	else
		ask_names(task, PULC__JOB__NAMES_ACT__UNPUBLISH, key, none);
}

static void look_up(struct task *task, const char *line)
{
	char key[KVS_SIZE_VALUE], none[] = "";

	if (value_of(line, "service", false, key, sizeof(key)) < 0)
		answer(task, "cmd=lookup_result rc=-1 msg=no_name");
	else
		ask_names(task, PULC__JOB__NAMES_ACT__LOOKUP, key, none);
}

void pmi1_names_answered(struct keeper *k, const Pulc__Job__Names *names)
{
	static const char *const results[] = {
		[PULC__JOB__NAMES_ACT__PUBLISH] = "publish",
		[PULC__JOB__NAMES_ACT__UNPUBLISH] = "unpublish",
		[PULC__JOB__NAMES_ACT__LOOKUP] = "lookup",
	};
	struct task *task = keeper_task(k, names->rank);

	if (!task || names->act >= ARRAY_SIZE(results))
		return;
	if (names->error == EEXIST)
		answer(task, "cmd=%s_result rc=-1 msg=exists_already", results[names->act]);
	else if (names->error)
		answer(task, "cmd=%s_result rc=-1 msg=not_found", results[names->act]);
	else if (names->n_names > 0)
		answer(task, "cmd=lookup_result rc=0 port=%.*s", (int)names->names[0]->value.len,
		       (const char *)names->names[0]->value.data);
	else
		answer(task, "cmd=%s_result rc=0 msg=success", results[names->act]);
}

static void refuse_spawn(struct task *task, const char *line)
{
	char text[128];

	(void)line;
	(void)snprintf(text, sizeof(text), "rank %u: %s", task->rank, UNSERVED_SPAWN);
	keeper_unserved(task->keeper, text);
	answer(task, "cmd=spawn_result rc=-1 msg=not_served");
}

/* ---- questions ------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*serve)(struct task *task, const char *line);
} commands[] = {
	{ "cmd=init", init },
	{ "cmd=get_maxes", get_maxes },
	{ "cmd=get_appnum", get_appnum },
	{ "cmd=get_my_kvsname", get_my_kvsname },
	{ "cmd=get_universe_size", get_universe_size },
	{ "cmd=put", put },
	{ "cmd=get", get },
	{ "cmd=barrier_in", barrier_in },
	{ "cmd=finalize", finalize },
	{ "cmd=abort", abort_job },
	{ "cmd=publish_name", publish },
	{ "cmd=unpublish_name", unpublish },
	{ "cmd=lookup_name", look_up },
	{ "endcmd", refuse_spawn }, /* of mcmd=spawn and the lines that follow it */
};

static void serve(struct task *task, const char *line)
{
	size_t len = strcspn(line, " ");

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strlen(commands[i].name) == len && strncmp(line, commands[i].name, len) == 0) {
			commands[i].serve(task, line);
			return;
		}
}

static void serve_lines(struct task *task)
{
	struct pmi1 *pmi = &task->pmi;
	char *line = pmi->line, *end;

	while (pmi->fd >= 0 && (end = memchr(line, '\n', pmi->used - (size_t)(line - pmi->line)))) {
		*end = '\0';
		serve(task, line);
		line = end + 1;
	}
	if (pmi->fd < 0)
		return;
	pmi->used -= (size_t)(line - pmi->line);
	memmove(pmi->line, line, pmi->used);
}

static void on_line(uv_poll_t *poll, int status, int events)
{
	struct task *task = CONTAINER_OF(poll, struct task, pmi.poll);
	struct pmi1 *pmi = &task->pmi;
	ssize_t n;

	(void)status;
	(void)events;
	if (!pmi->line)
		pmi->line = malloc(SIZE_LINE);
	if (!pmi->line)
		keeper_fail("PMI", -ENOMEM);
	n = recv(pmi->fd, pmi->line + pmi->used, SIZE_LINE - pmi->used, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		pmi->used += (size_t)n;
		serve_lines(task);
	}
	if (n <= 0 || pmi->used == SIZE_LINE) /* closed, or no line of PMI-1 */
		stop_reading(pmi);
}

int pmi1_open(struct task *task, int *ret_theirs)
{
	struct pmi1 *pmi = &task->pmi;
	struct keeper *k = task->keeper;
	char mapping[KVS_SIZE_VALUE];
	int fds[2];

	if (!k->kvs) {
		k->kvs = kvs_new();
		if (!k->kvs)
			return -ENOMEM;
		if (mapping_of_places(k->start, mapping, sizeof(mapping)) == 0)
			(void)kvs_put(k->kvs, "PMI_process_mapping", mapping);
		kvs_flush(k->kvs);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	pmi->fd = fds[0];
	*ret_theirs = fds[1];
	return 0;
}

void pmi1_begin(struct task *task)
{
	struct pmi1 *pmi = &task->pmi;

	if (pmi->fd < 0)
		return;
	if (uv_poll_init(&task->keeper->loop, &pmi->poll, pmi->fd) < 0)
		keeper_fail("PMI", -ENOMEM);
	pmi->reading = true;
	(void)uv_poll_start(&pmi->poll, UV_READABLE, on_line);
}

void pmi1_close(struct task *task)
{
	struct pmi1 *pmi = &task->pmi;

	if (pmi->fd >= 0) /* its last words: a finalize or an abort may stand there */
		on_line(&pmi->poll, 0, UV_READABLE);
	stop_reading(pmi);
}
