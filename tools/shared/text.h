/* Values as people read them. Every function fills buf, always terminated, and returns it. */
#ifndef PULC_TOOLS_TEXT_H
#define PULC_TOOLS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "client.pb-c.h"

#define CTL_SIZE_ADDRESS 56 /* "[" IPv6 "]:" port */

/* The lower-case name of an enum's value, without its prefix: REASON_WAITING_PEER is
 * waiting-peer. */
char *ctl_text_enum(const ProtobufCEnumDescriptor *type, int value, char *buf, size_t size);

/* An address of the schema (16 bytes, IPv4 as v4-mapped) as "127.0.0.1" or "::1"; "?" if it is
 * none. */
char *ctl_text_address(const ProtobufCBinaryData *address, char *buf, size_t size);
/* "127.0.0.1:80", "[::1]:80" */
char *ctl_text_endpoint(const ProtobufCBinaryData *address, unsigned port, char *buf, size_t size);

/* At most five characters: "0", "1023", "1.5K", "64K", "12M" (powers of 1024). */
char *ctl_text_bytes(uint64_t n, char *buf, size_t size);

/* "12s", "3m12s", "5h02m", "9d04h" */
char *ctl_text_duration(uint64_t usec, char *buf, size_t size);

/* Reads the environment: which characters the terminal has. Until then: all. */
void ctl_text_start(void);

/* As wire_utf8_plain, in characters that the terminal has. buf may not be text. */
char *ctl_text_plain(const char *text, char *buf, size_t size);

/* Moves *text past one character, and returns how many columns that takes: 0, 1 or 2. */
size_t ctl_text_width(const char **text);

/* What stands where something was cut, one column wide. */
const char *ctl_text_cut(void);

#endif
