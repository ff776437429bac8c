/* Whether a call interrupted by a signal begins again. */
#ifndef PULC_LIB_RESTART_H
#define PULC_LIB_RESTART_H

#include <stdbool.h>

/* True when every handler that the program has installed asks for SA_RESTART. */
bool restart_wanted(void);

#endif
