/* A mark on a socket itself: see label.c. */
#ifndef PULC_LIB_LABEL_H
#define PULC_LIB_LABEL_H

#include <stdbool.h>

/* Says that the connection's bytes are, or will be, in rings. 0, or a negative errno: it can't be
 * said. */
int label_set(int fd);
void label_clear(int fd);

#endif
