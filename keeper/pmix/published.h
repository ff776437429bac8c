/* Names that ranks publish and look up. */
#ifndef PULC_KEEPER_PUBLISHED_H
#define PULC_KEEPER_PUBLISHED_H

#include <pmix_server.h>

#include "frame.h"

/* What libpmix asks, in its thread. */
pmix_status_t published_add(const pmix_proc_t *proc, const pmix_info_t *info, size_t n_info,
			    pmix_op_cbfunc_t call, void *data);
pmix_status_t published_look_up(const pmix_proc_t *proc, char **keys, const pmix_info_t *info,
				size_t n_info, pmix_lookup_cbfunc_t call, void *data);
pmix_status_t published_remove(const pmix_proc_t *proc, char **keys, const pmix_info_t *info,
			       size_t n_info, pmix_op_cbfunc_t call, void *data);
/* The head keeper's answer to one of these, for the job of that name space. */
void published_answer(const Pulc__Job__Names *names, const char *space);

#endif
