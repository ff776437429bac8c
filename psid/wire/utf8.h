/* Text of others. */
#ifndef PULC_WIRE_UTF8_H
#define PULC_WIRE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes the UTF-8 character at *text and moves *text past it. Returns its code point; -1: the
 * byte there begins none. Not to be called at the end of the string.
 */
int32_t wire_utf8_next(const char **text);

/* May a terminal get that? Not what moves its cursor, or turns the order of what stands beside. */
bool wire_utf8_is_shown(int32_t c);

/*
 * Copies what another program says of itself, fit for terminals, logs and tables: valid UTF-8, one
 * "?" for each byte and each character that is not to be shown. What is too long is cut before a
 * character. buf may be text. Returns buf.
 */
char *wire_utf8_plain(const char *text, char *buf, size_t size);

#endif
