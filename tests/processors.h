/* Which processors a test's threads run on. */
#ifndef PULC_TESTS_PROCESSORS_H
#define PULC_TESTS_PROCESSORS_H

#include <stdbool.h>

/* False: the test is skipped. */
bool processors_are_two(void);
/* This thread runs on that one of those that it may use, counted from 0; where there are not so
 * many, as before. */
void processors_run_on(int number);

#endif
