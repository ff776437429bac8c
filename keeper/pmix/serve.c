/*
 * Messages and the calls of libpmix that they stand for.
 *
 * A collective becomes a Fence; one of tasks of this node alone is answered at once. What a rank of
 * another node has brought to none is asked for with Modex. To connect and to disconnect are
 * collectives that bring nothing: they are of ranks of one job, that know each other.
 *
 * libpmix looks at the machine with all that hwloc has, GPUs and X11 displays too, which took four
 * fifths of our start, and uses it only where a server is to share what it has found: ours shares
 * nothing, tasks look for themselves. So it is shown a machine of one processor.
 */
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix_server.h>

#include "cleanup.h"
#include "macros.h"
#include "pmi.h"
#include "published.h"
#include "waiter.h"

static Pulc__Job__Message *begin_message;
static const Pulc__Job__Start *job;

/* ---- to the keeper --------------------------------------------------------------------------- */

void serve_put(const Pulc__Job__Message *msg)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct frame_pipe pipe;
	struct pollfd p = { .fd = SERVE_FD, .events = POLLOUT };

	(void)pthread_mutex_lock(&lock);
	if (!pipe.ops)
		frame_pipe_init(&pipe, SERVE_FD);
	if (frame_put_message(&pipe, msg) == 0)
		while (frame_flush(&pipe) == -EAGAIN)
			(void)poll(&p, 1, -1);
	(void)pthread_mutex_unlock(&lock);
}

/* ---- what libpmix asks, in its thread -------------------------------------------------------- */

static bool is_here(pmix_rank_t rank)
{
	const Pulc__Job__Place *place = job->places[job->here];

	for (size_t i = 0; i < place->n_ranks; i++)
		if (place->ranks[i] == rank)
			return true;
	return false;
}

static bool are_all_here(const pmix_proc_t *procs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (procs[i].rank == PMIX_RANK_WILDCARD ? job->n_places > 1
							: !is_here(procs[i].rank))
			return false;
	return true;
}

static bool is_whole_job(const pmix_proc_t *procs, size_t n)
{
	return n == 1 && procs[0].rank == PMIX_RANK_WILDCARD;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The ranks that take part, ascending, if they are not all. Returns a status of libpmix. */
static pmix_status_t list_ranks(const pmix_proc_t *procs, size_t n, Pulc__Job__Fence *fence)
{
	if (is_whole_job(procs, n))
		return PMIX_SUCCESS;
	for (size_t i = 0; i < n; i++)
		if (!PMIX_CHECK_NSPACE(procs[i].nspace, job->space) ||
		    !PMIX_RANK_IS_VALID(procs[i].rank))
			return PMIX_ERR_NOT_SUPPORTED;
	fence->ranks = malloc(n * sizeof(*fence->ranks) + 1);
	if (!fence->ranks)
		return PMIX_ERR_NOMEM;
	for (size_t i = 0; i < n; i++)
		fence->ranks[i] = procs[i].rank;
	fence->n_ranks = n;
	qsort(fence->ranks, n, sizeof(*fence->ranks), compare);
	return PMIX_SUCCESS;
}

/* What the tasks here bring to a collective in which other nodes take part. */
static pmix_status_t enter(enum fence_kind kind, const pmix_proc_t *procs, size_t n_procs,
			   ProtobufCBinaryData bytes, const struct waiter *waiter)
{
	Pulc__Job__Fence fence = PULC__JOB__FENCE__INIT;
	JOB_MESSAGE(msg, FENCE, fence) = &fence;
	pmix_status_t status = list_ranks(procs, n_procs, &fence);

	if (status == PMIX_SUCCESS) {
		fence.token = waiter_add(waiter);
		status = fence.token ? PMIX_SUCCESS : PMIX_ERR_NOMEM;
	}
	if (status == PMIX_SUCCESS) {
		fence.kind = kind;
		fence.parts = &bytes;
		fence.n_parts = 1;
		serve_put(&msg);
	}
	free(fence.ranks);
	return status;
}

static pmix_status_t on_fence(const pmix_proc_t *procs, size_t n_procs, const pmix_info_t *info,
			      size_t n_info, char *bytes, size_t len, pmix_modex_cbfunc_t call,
			      void *data)
{
	pmix_status_t status;

	(void)info;
	(void)n_info;
	if (are_all_here(procs, n_procs)) {
		call(PMIX_SUCCESS, bytes, len, data, free, bytes);
		return PMIX_SUCCESS;
	}
	status = enter(FENCE_PMIX, procs, n_procs,
		       (ProtobufCBinaryData){ .len = len, .data = (uint8_t *)bytes },
		       &(struct waiter){ .modex = call, .data = data });
	if (status == PMIX_SUCCESS)
		free(bytes);
	return status;
}

/* Ranks of one job need no introduction: they only meet. */
static pmix_status_t meet(enum fence_kind kind, const pmix_proc_t *procs, size_t n_procs,
			  pmix_op_cbfunc_t call, void *data)
{
	if (!are_all_here(procs, n_procs))
		return enter(kind, procs, n_procs, (ProtobufCBinaryData){ 0 },
			     &(struct waiter){ .op = call, .data = data });
	call(PMIX_SUCCESS, data);
	return PMIX_SUCCESS;
}

static pmix_status_t on_connect(const pmix_proc_t *procs, size_t n_procs, const pmix_info_t *info,
				size_t n_info, pmix_op_cbfunc_t call, void *data)
{
	(void)info;
	(void)n_info;
	return meet(FENCE_CONNECT, procs, n_procs, call, data);
}

static pmix_status_t on_disconnect(const pmix_proc_t *procs, size_t n_procs,
				   const pmix_info_t *info, size_t n_info, pmix_op_cbfunc_t call,
				   void *data)
{
	(void)info;
	(void)n_info;
	return meet(FENCE_DISCONNECT, procs, n_procs, call, data);
}

static pmix_status_t on_modex(const pmix_proc_t *proc, const pmix_info_t *info, size_t n_info,
			      pmix_modex_cbfunc_t call, void *data)
{
	Pulc__Job__Modex modex = PULC__JOB__MODEX__INIT;
	JOB_MESSAGE(msg, MODEX, modex) = &modex;

	(void)info;
	(void)n_info;
	modex.token = waiter_add(&(struct waiter){ .modex = call, .data = data });
	if (!modex.token)
		return PMIX_ERR_NOMEM;
	modex.rank = proc->rank;
	modex.asker = job->here;
	serve_put(&msg);
	return PMIX_SUCCESS;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char *text,
			      pmix_proc_t *procs, size_t n_procs, pmix_op_cbfunc_t call, void *data)
{
	Pulc__Job__Abort end = PULC__JOB__ABORT__INIT;
	JOB_MESSAGE(msg, ABORT, abort) = &end;

	(void)object;
	(void)text; /* the library has said it on the task's own stream */
	(void)procs;
	(void)n_procs;
	(void)call;
	(void)data;
	end.rank = proc->rank;
	end.code = (uint32_t)status;
	serve_put(&msg);
	return PMIX_OPERATION_SUCCEEDED;
}

static void tell_client(pmix_rank_t rank, bool finalised)
{
	Pulc__Job__PmixClient client = PULC__JOB__PMIX_CLIENT__INIT;
	JOB_MESSAGE(msg, PMIX_CLIENT, pmix_client) = &client;

	client.rank = rank;
	client.finalised = finalised;
	serve_put(&msg);
}

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_info_t *info,
				  size_t n_info, pmix_op_cbfunc_t call, void *data)
{
	(void)object;
	(void)info;
	(void)n_info;
	(void)call;
	(void)data;
	tell_client(proc->rank, false);
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t call,
				  void *data)
{
	(void)object;
	(void)call;
	(void)data;
	tell_client(proc->rank, true);
	return PMIX_OPERATION_SUCCEEDED;
}

/* What libpmix would refuse by itself, in words that do not tell why. */
static pmix_status_t refuse(const pmix_proc_t *proc, const char *what)
{
	Pulc__Job__Note note = PULC__JOB__NOTE__INIT;
	JOB_MESSAGE(msg, NOTE, note) = &note;
	char text[128];

	(void)snprintf(text, sizeof(text), "rank %u: %s", proc->rank, what);
	note.text = text;
	serve_put(&msg);
	return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t on_spawn(const pmix_proc_t *proc, const pmix_info_t *info, size_t n_info,
			      const pmix_app_t *apps, size_t n_apps, pmix_spawn_cbfunc_t call,
			      void *data)
{
	(void)info;
	(void)n_info;
	(void)apps;
	(void)n_apps;
	(void)call;
	(void)data;
	return refuse(proc, UNSERVED_SPAWN);
}

static pmix_server_module_t module = {
	.client_connected2 = on_connected,
	.client_finalized = on_finalized,
	.abort = on_abort,
	.spawn = on_spawn,
	.publish = published_add,
	.lookup = published_look_up,
	.unpublish = published_remove,
	.connect = on_connect,
	.disconnect = on_disconnect,
	.fence_nb = on_fence,
	.direct_modex = on_modex,
};

/* ---- what the keeper says -------------------------------------------------------------------- */

static void free_ready(Pulc__Job__PmixReady *ready)
{
	for (size_t i = 0; i < ready->n_tasks; i++) {
		pulc__job__pmix_variables__free_unpacked(ready->tasks[i], NULL);
	}
	free(ready->tasks);
}

static int init_library(void)
{
	const Pulc__Job__Place *place = job->places[job->here];
	char space[PMIX_MAX_NSLEN + 1];
	pmix_rank_t rank = job->here;
	bool no = false;
	pmix_info_t *info;
	pmix_status_t status;

	(void)snprintf(space, sizeof(space), "pulc-server-%s", job->space);
	PMIX_INFO_CREATE(info, 4);
	PMIX_INFO_LOAD(&info[0], PMIX_SERVER_NSPACE, space, PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&info[2], PMIX_HOSTNAME, place->node, PMIX_STRING);
	PMIX_INFO_LOAD(&info[3], PMIX_SERVER_TOOL_SUPPORT, &no, PMIX_BOOL);
	status = PMIx_server_init(&module, info, 4);
	PMIX_INFO_FREE(info, 4);
	return status == PMIX_SUCCESS ? 0 : -EIO;
}

/* Keeps the message. */
static int begin(Pulc__Job__Message *msg)
{
	Pulc__Job__PmixReady ready = PULC__JOB__PMIX_READY__INIT;
	JOB_MESSAGE(answer, PMIX_READY, pmix_ready) = &ready;
	int r;

	begin_message = msg;
	job = msg->pmix_begin->start;
	if (!job || job->here >= job->n_places)
		return -EBADMSG;
	(void)setenv("PMIX_MCA_gds", "hash", 1);	       /* nothing in files */
	(void)setenv("PMIX_MCA_ptl_base_if_include", "lo", 1); /* clients are here */
	(void)setenv("HWLOC_SYNTHETIC", "pu:1", 1);
	(void)setenv("HWLOC_PLUGINS_PATH", "/dev/null", 1);
	r = init_library();
	if (r == 0)
		r = serve_register(job, &ready);
	if (r == 0)
		serve_put(&answer);
	free_ready(&ready);
	return r;
}

/* What all have brought, one after the other; to free. NULL: no memory. */
static char *join_parts(const Pulc__Job__Fence *fence, size_t *ret_len)
{
	size_t len = 0, at = 0;
	char *all;

	for (size_t i = 0; i < fence->n_parts; i++)
		len += fence->parts[i].len;
	all = malloc(len + 1);
	for (size_t i = 0; all && i < fence->n_parts; i++) {
		if (fence->parts[i].len > 0)
			memcpy(all + at, fence->parts[i].data, fence->parts[i].len);
		at += fence->parts[i].len;
	}
	*ret_len = all ? len : 0;
	return all;
}

static void leave_fence(const Pulc__Job__Fence *fence)
{
	CLEANUP_FREE struct waiter *waiter = waiter_take(fence->token);
	size_t len;
	char *all;

	if (waiter && waiter->op)
		waiter->op(PMIX_SUCCESS, waiter->data);
	if (!waiter || !waiter->modex)
		return;
	all = join_parts(fence, &len);
	waiter->modex(all ? PMIX_SUCCESS : PMIX_ERR_NOMEM, all, len, waiter->data, free, all);
}

/* What libpmix knows of one of our ranks, for another node. */
static void on_answer(pmix_status_t status, char *bytes, size_t len, void *data)
{
	CLEANUP_FREE Pulc__Job__Modex *question = data;
	JOB_MESSAGE(msg, MODEX, modex) = question;

	question->answer = true;
	question->status = status;
	question->data = (ProtobufCBinaryData){ .len = len, .data = (uint8_t *)bytes };
	serve_put(&msg);
}

static void answer_modex(const Pulc__Job__Modex *modex)
{
	Pulc__Job__Modex *question = malloc(sizeof(*question));
	pmix_proc_t proc;

	if (!question)
		return;
	pulc__job__modex__init(question);
	question->token = modex->token;
	question->rank = modex->rank;
	question->asker = modex->asker;
	PMIX_LOAD_PROCID(&proc, job->space, modex->rank);
	if (PMIx_server_dmodex_request(&proc, on_answer, question) != PMIX_SUCCESS)
		on_answer(PMIX_ERR_NOT_FOUND, NULL, 0, question);
}

static void take_modex(const Pulc__Job__Modex *modex)
{
	struct waiter *waiter;
	char *copy;

	if (!modex->answer) {
		answer_modex(modex);
		return;
	}
	waiter = waiter_take(modex->token);
	if (!waiter || !waiter->modex) {
		free(waiter);
		return;
	}
	copy = malloc(modex->data.len + 1);
	if (copy && modex->data.len > 0)
		memcpy(copy, modex->data.data, modex->data.len);
	waiter->modex(copy ? modex->status : PMIX_ERR_NOMEM, copy, copy ? modex->data.len : 0,
		      waiter->data, free, copy);
	free(waiter);
}

int serve_take(Pulc__Job__Message *msg)
{
	if (msg->body_case == PULC__JOB__MESSAGE__BODY_PMIX_BEGIN && !job)
		return begin(msg);
	if (msg->body_case == PULC__JOB__MESSAGE__BODY_FENCE && job)
		leave_fence(msg->fence);
	else if (msg->body_case == PULC__JOB__MESSAGE__BODY_MODEX && job)
		take_modex(msg->modex);
	else if (msg->body_case == PULC__JOB__MESSAGE__BODY_NAMES && job)
		published_answer(msg->names, job->space);
	pulc__job__message__free_unpacked(msg, NULL);
	return 0;
}
