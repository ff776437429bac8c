/* A file of FUSE whose server answers the test and nobody else: who asks anything about it, or
 * closes it, waits until the test ends that. */
#ifndef PULC_TESTS_PSID_SLOW_FILE_H
#define PULC_TESTS_PSID_SLOW_FILE_H

/* In a mount name space of our own. Where that can't be had there is no such file. */
void slow_file_init(void);
/* Returns a descriptor; -1: there is none. */
int slow_file_open(void);
/* Whoever waits is told that nobody is there. */
void slow_file_deinit(void);

#endif
