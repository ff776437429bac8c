/* Threads beside the loop, for what may hang. */
#ifndef PULC_PSID_THREAD_H
#define PULC_PSID_THREAD_H

/* Nobody waits for its end; signals stay the loop's. Returns 0; negative errno. */
int psid_thread_start(void *(*run)(void *arg), void *arg);

#endif
