/* What a test shares with the processes that it kills at a named point (step.c). */
#ifndef PULC_BASE_STEP_PAGE_H
#define PULC_BASE_STEP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "step.h"

struct step_page {
	_Atomic uint32_t victim;    /* this process is killed ... */
	_Atomic uint32_t step;	    /* ... here ... */
	_Atomic uint32_t n_before;  /* ... after it has come past so often; */
	_Atomic uint32_t is_killed; /* and it was */
	_Atomic uint32_t n_by_victim[N_STEPS];
	_Atomic uint32_t n_by_others[N_STEPS];
};

extern struct step_page *step_page;

#endif
