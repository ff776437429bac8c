/* Operators: who may steer this psid without being root. */
#ifndef PULC_PSID_OPERATOR_H
#define PULC_PSID_OPERATOR_H

#include <stdbool.h>

#include "client.h"
#include "config.h"

/* Fills in the group of a system's psid that names none. */
void psid_operators_default(struct psid_config *config);
/* Asks the kernel whether who has just connected is of the group. */
void psid_operator_look(struct psid_client *client);
/* Is it root, the owner of this psid, or of its operators' group? */
bool psid_is_operator(const struct psid_client *client);

#endif
