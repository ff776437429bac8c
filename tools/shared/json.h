/* Messages of the wire schema as JSON. */
#ifndef PULC_TOOLS_JSON_H
#define PULC_TOOLS_JSON_H

#include <stdio.h>

#include "client.pb-c.h"

/*
 * Prints every field of msg as one JSON object on one line, without a line end: numbers as
 * numbers, enums by name, addresses as text, repeated fields as arrays. The fields of a singular
 * message inside (a tuple) are printed as if they were msg's own.
 */
void ctl_json_message(FILE *out, const ProtobufCMessage *msg);

void ctl_json_string(FILE *out, const char *text);

#endif
