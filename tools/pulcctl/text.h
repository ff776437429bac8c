/* Values as people read them. Every function fills buf, always terminated, and returns it. */
#ifndef PULCCTL_TEXT_H
#define PULCCTL_TEXT_H

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

/*
 * Decodes the UTF-8 character at *text and moves *text past it. Returns its code point; -1: the
 * byte there begins none. Not to be called at the end of the string.
 */
int32_t ctl_text_next(const char **text);

/* Copies what another program has named itself, fit for a terminal: no control characters, valid
 * UTF-8. */
char *ctl_text_plain(const char *text, char *buf, size_t size);

#endif
