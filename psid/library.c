/*
 * Libraries that most psids never need: each is loaded when it is first wanted, with those that it
 * brings along, and psid does without what it is for where it is not installed.
 */
#include "library.h"

#include <dlfcn.h>

void *psid_library_load(const char *name, const struct psid_symbol *symbols, size_t n)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < n; i++) {
		*symbols[i].function = dlsym(library, symbols[i].name);
		if (!*symbols[i].function) {
			(void)dlclose(library);
			return NULL;
		}
	}
	return library;
}
