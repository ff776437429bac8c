/*
 * Names that ranks publish and look up: the head keeper has them (keeper/names.c), here they pass
 * into and out of libpmix's types.
 *
 * A value travels as libpmix packs it. Whatever range a rank gives a name, it is the job's: there
 * is nobody else to ask. A name that ends with its first reader does, one that ends with its
 * process too; the others end with the job.
 */
#include "published.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>

#include "cleanup.h"
#include "macros.h"
#include "pmi.h"
#include "serve.h"
#include "waiter.h"

/* A question in the making. */
struct question {
	Pulc__Job__Names names;
	Pulc__Job__Name *items;
	Pulc__Job__Name **list;
};

/* Returns 0, -ENOMEM. */
static int question_init(struct question *q, Pulc__Job__NamesAct act, const pmix_proc_t *proc,
			 size_t n_max)
{
	pulc__job__names__init(&q->names);
	q->names.act = act;
	q->names.service = FENCE_PMIX;
	q->names.rank = proc->rank;
	q->items = calloc(n_max + 1, sizeof(*q->items));
	q->list = calloc(n_max + 1, sizeof(*q->list));
	q->names.names = q->list;
	return q->items && q->list ? 0 : -ENOMEM;
}

static void question_deinit(struct question *q)
{
	for (size_t i = 0; i < q->names.n_names; i++)
		free(q->items[i].value.data);
	free(q->items);
	free(q->list);
}

static Pulc__Job__Name *add_name(struct question *q, const char *key)
{
	Pulc__Job__Name *name = &q->items[q->names.n_names];

	pulc__job__name__init(name);
	name->key = (char *)key;
	q->list[q->names.n_names++] = name;
	return name;
}

static pmix_status_t ask(struct question *q, const struct waiter *waiter)
{
	JOB_MESSAGE(msg, NAMES, names) = &q->names;

	q->names.token = waiter_add(waiter);
	if (!q->names.token)
		return PMIX_ERR_NOMEM;
	serve_put(&msg);
	return PMIX_SUCCESS;
}

/* ---- values ---------------------------------------------------------------------------------- */

static pmix_status_t pack(const pmix_value_t *value, ProtobufCBinaryData *ret_bytes)
{
	pmix_data_buffer_t buffer;
	pmix_status_t status;

	PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
	status = PMIx_Data_pack(NULL, &buffer, (void *)value, 1, PMIX_VALUE);
	if (status == PMIX_SUCCESS) {
		ret_bytes->data = malloc(buffer.bytes_used + 1);
		if (!ret_bytes->data)
			status = PMIX_ERR_NOMEM;
	}
	if (status == PMIX_SUCCESS) {
		memcpy(ret_bytes->data, buffer.base_ptr, buffer.bytes_used);
		ret_bytes->len = buffer.bytes_used;
	}
	PMIX_DATA_BUFFER_DESTRUCT(&buffer);
	return status;
}

static pmix_status_t unpack(const ProtobufCBinaryData *bytes, pmix_value_t *value)
{
	char *copy = malloc(bytes->len + 1);
	pmix_data_buffer_t buffer;
	pmix_status_t status;
	int32_t n = 1;

	if (!copy)
		return PMIX_ERR_NOMEM;
	if (bytes->len > 0)
		memcpy(copy, bytes->data, bytes->len);
	PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
	PMIX_DATA_BUFFER_LOAD(&buffer, copy, bytes->len); /* owns the copy */
	status = PMIx_Data_unpack(NULL, &buffer, value, &n, PMIX_VALUE);
	PMIX_DATA_BUFFER_DESTRUCT(&buffer);
	return status;
}

/* ---- questions ------------------------------------------------------------------------------- */

pmix_status_t published_add(const pmix_proc_t *proc, const pmix_info_t *info, size_t n_info,
			    pmix_op_cbfunc_t call, void *data)
{
	struct question q;
	pmix_status_t status = PMIX_SUCCESS;

	if (question_init(&q, PULC__JOB__NAMES_ACT__PUBLISH, proc, n_info) < 0)
		status = PMIX_ERR_NOMEM;
	for (size_t i = 0; status == PMIX_SUCCESS && i < n_info; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_PERSISTENCE)) {
			q.names.once = info[i].value.data.persist == PMIX_PERSIST_FIRST_READ;
			q.names.of_task = info[i].value.data.persist == PMIX_PERSIST_PROC;
		} else if (!PMIX_CHECK_RESERVED_KEY(info[i].key)) {
			status = pack(&info[i].value, &add_name(&q, info[i].key)->value);
		}
	}
	if (status == PMIX_SUCCESS)
		status = ask(&q, &(struct waiter){ .op = call, .data = data });
	question_deinit(&q);
	return status;
}

static pmix_status_t ask_for_keys(Pulc__Job__NamesAct act, const pmix_proc_t *proc, char **keys,
				  const pmix_info_t *info, size_t n_info,
				  const struct waiter *waiter)
{
	struct question q;
	pmix_status_t status = PMIX_ERR_NOMEM;
	size_t n = 0;

	while (keys && keys[n])
		n++;
	if (question_init(&q, act, proc, n) == 0) {
		for (size_t i = 0; i < n; i++)
			(void)add_name(&q, keys[i]);
		for (size_t i = 0; i < n_info; i++) {
			if (PMIX_CHECK_KEY(&info[i], PMIX_WAIT)) /* of 0 or less all are meant */
				q.names.n_wait = info[i].value.type == PMIX_INT &&
								 info[i].value.data.integer > 0
							 ? (uint32_t)info[i].value.data.integer
							 : UINT32_MAX;
			else if (PMIX_CHECK_KEY(&info[i], PMIX_TIMEOUT))
				q.names.sec_wait = (uint32_t)MAX(info[i].value.data.integer, 0);
		}
		status = ask(&q, waiter);
	}
	question_deinit(&q);
	return status;
}

pmix_status_t published_look_up(const pmix_proc_t *proc, char **keys, const pmix_info_t *info,
				size_t n_info, pmix_lookup_cbfunc_t call, void *data)
{
	return ask_for_keys(PULC__JOB__NAMES_ACT__LOOKUP, proc, keys, info, n_info,
			    &(struct waiter){ .lookup = call, .data = data });
}

pmix_status_t published_remove(const pmix_proc_t *proc, char **keys, const pmix_info_t *info,
			       size_t n_info, pmix_op_cbfunc_t call, void *data)
{
	return ask_for_keys(PULC__JOB__NAMES_ACT__UNPUBLISH, proc, keys, info, n_info,
			    &(struct waiter){ .op = call, .data = data });
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer_found(const Pulc__Job__Names *names, const char *space,
			 const struct waiter *waiter)
{
	pmix_status_t status = PMIX_SUCCESS;
	pmix_pdata_t *found = NULL;

	PMIX_PDATA_CREATE(found, names->n_names);
	for (size_t i = 0; found && i < names->n_names; i++) {
		PMIX_LOAD_PROCID(&found[i].proc, space, names->names[i]->rank);
		PMIX_LOAD_KEY(found[i].key, names->names[i]->key);
		if (status == PMIX_SUCCESS)
			status = unpack(&names->names[i]->value, &found[i].value);
	}
	if (!found)
		status = PMIX_ERR_NOMEM;
	waiter->lookup(status, found, found ? names->n_names : 0, waiter->data);
	if (found)
		PMIX_PDATA_FREE(found, names->n_names);
}

static pmix_status_t status_of(const Pulc__Job__Names *names)
{
	switch (names->error) {
	case 0:
		return PMIX_SUCCESS;
	case ENOENT: /* who takes away what is not there has what he wants */
		return names->act == PULC__JOB__NAMES_ACT__UNPUBLISH ? PMIX_SUCCESS
								     : PMIX_ERR_NOT_FOUND;
	case EEXIST:
		return PMIX_ERR_DUPLICATE_KEY;
	default:
		return PMIX_ERR_TIMEOUT;
	}
}

void published_answer(const Pulc__Job__Names *names, const char *space)
{
	CLEANUP_FREE struct waiter *waiter = waiter_take(names->token);

	if (waiter && waiter->op)
		waiter->op(status_of(names), waiter->data);
	else if (waiter && waiter->lookup && names->n_names > 0)
		answer_found(names, space, waiter);
	else if (waiter && waiter->lookup)
		waiter->lookup(status_of(names), NULL, 0, waiter->data);
}
