/*
 * What differs under the thread sanitizer (SAN=thread).
 *
 * It follows each thread by memory that lies beside the thread's own. A child that runs in its
 * parent's memory and thread (clone with CLONE_VM) is none that it knows of, and confuses it: it
 * sees no atomic operation of that thread any more.
 *
 * It compares the threads of one process, by the atomic operations between them: locks, also those
 * in shared memory, need no word of ours. It does not know fences, which order memory between
 * processes here, nor what another process does.
 */
#ifndef PULC_BASE_RACES_H
#define PULC_BASE_RACES_H

#include <stdbool.h>

#ifdef __SANITIZE_THREAD__
#define RACES_SOUGHT true
#else
#define RACES_SOUGHT false
#endif

#endif
