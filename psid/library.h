/* A library that psid loads when it is first wanted: see library.c. */
#ifndef PULC_PSID_LIBRARY_H
#define PULC_PSID_LIBRARY_H

#include <stddef.h>

struct psid_symbol {
	void **function; /* where its address goes */
	const char *name;
};

/* Returns the library, for dlclose() if it is not to stay; NULL: it is not installed, or lacks one
 * of these. */
void *psid_library_load(const char *name, const struct psid_symbol *symbols, size_t n);

#endif
