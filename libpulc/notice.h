/* psid's end: noticed by sleepers, made up for when another one comes. */
#ifndef PULC_LIB_NOTICE_H
#define PULC_LIB_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

/* Under the client lock. */

/* The channel is gone. True: another one has to be looked for. */
bool notice_lost(void);
/* Somebody has to wait for a psid, though this process has not lost one. */
void notice_seek(void);
/* There is a psid again. */
void notice_found(void);
/* A forked child has lost nothing. */
void notice_forked(void);
/* How long to leave psid's place alone after an attempt, ns. */
uint64_t notice_gap(void);

/* ---- no lock --------------------------------------------------------------------------------- */

/* The longest sleep without a look at memory, ns. */
uint64_t notice_patience(void);
/* For waits that hardly ever sleep: to be called with each; now and then it looks. */
void notice_in_passing(void);

#endif
