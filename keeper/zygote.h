/* A keeper without a job, of which those of jobs are copies. */
#ifndef PULC_KEEPER_ZYGOTE_H
#define PULC_KEEPER_ZYGOTE_H

#include <stdbool.h>

/*
 * Makes copies as psid asks for them, at the socket that is KEEPER_FD_START. Returns true in each
 * copy, whose socket is KEEPER_FD_START there; false when there will be none any more. title: where
 * the kernel shows an argument, as long as it is; NULL: nothing is shown.
 */
bool keeper_zygote_serve(char *title);

#endif
