/* Names that people write: of settings, and of variables in the environment. */
#ifndef PULC_WIRE_VARIABLES_H
#define PULC_WIRE_VARIABLES_H

#include <stddef.h>

/*
 * The name of a list that whoever wrote `name` may have meant, or NULL. RING_SIZES, ringsizes and
 * PULC_RING_SIZES are RingSizes written otherwise. nth gives the names, and NULL behind the last.
 */
const char *wire_name_meant(const char *name, const char *(*nth)(size_t i));

/* What is to be said of a variable that nobody reads; meant as from wire_name_meant. */
typedef void (*wire_variable_fn)(void *context, const char *name, const char *meant);

/* Calls say for each PULC_* of the environment that PULC does not know. */
void wire_variables_check(wire_variable_fn say, void *context);

#endif
