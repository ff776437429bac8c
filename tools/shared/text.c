/*
 * Numbers, addresses, names and foreign strings as text.
 *
 * The names of reasons have one home, the schema: they are taken from protobuf-c's description of
 * the enum, so a reason added there is shown here without a line of code. Program names come from
 * programs and may hold anything: see psid/wire/utf8.h. A locale that says another character set
 * than UTF-8 gets ASCII; none at all, or one that is not installed here, says nothing about the
 * terminal, and terminals take UTF-8.
 */
#include "text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "macros.h"
#include "utf8.h"

#define USEC_PER_S 1000000u
#define S_PER_DAY 86400u

char *ctl_text_enum(const ProtobufCEnumDescriptor *type, int value, char *buf, size_t size)
{
	const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, value);
	const char *name = v ? strchr(v->name, '_') : NULL;
	size_t n = 0;

	if (!name) {
		(void)snprintf(buf, size, "unknown-%d", value);
		return buf;
	}
	while (*++name && n + 1 < size)
		buf[n++] = *name == '_' ? '-' : (char)tolower((unsigned char)*name);
	buf[n] = '\0';
	return buf;
}

static bool is_v4_mapped(const uint8_t *address)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(address, prefix, sizeof(prefix)) == 0;
}

char *ctl_text_address(const ProtobufCBinaryData *address, char *buf, size_t size)
{
	const char *text = NULL;

	if (address->len == 16) {
		if (is_v4_mapped(address->data))
			text = inet_ntop(AF_INET, address->data + 12, buf, (socklen_t)size);
		else
			text = inet_ntop(AF_INET6, address->data, buf, (socklen_t)size);
	}
	if (!text)
		(void)snprintf(buf, size, "?");
	return buf;
}

char *ctl_text_endpoint(const ProtobufCBinaryData *address, unsigned port, char *buf, size_t size)
{
	char host[INET6_ADDRSTRLEN];

	(void)ctl_text_address(address, host, sizeof(host));
	(void)snprintf(buf, size, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	return buf;
}

char *ctl_text_bytes(uint64_t n, char *buf, size_t size)
{
	static const char units[] = "KMGTPE";
	unsigned unit = 0;
	uint64_t tenths;

	if (n < 1024) {
		(void)snprintf(buf, size, "%u", (unsigned)n);
		return buf;
	}
	while (n >> 10 >= 1024) {
		n >>= 10;
		unit++;
	}
	tenths = n * 10 / 1024;
	if (tenths < 100 && tenths % 10 != 0)
		(void)snprintf(buf, size, "%u.%u%c", (unsigned)tenths / 10, (unsigned)tenths % 10,
			       units[unit]);
	else
		(void)snprintf(buf, size, "%u%c", (unsigned)tenths / 10, units[unit]);
	return buf;
}

char *ctl_text_duration(uint64_t usec, char *buf, size_t size)
{
	uint64_t s = usec / USEC_PER_S;
	unsigned day = (unsigned)(s % S_PER_DAY);

	if (s < 60)
		(void)snprintf(buf, size, "%us", day);
	else if (s < 3600)
		(void)snprintf(buf, size, "%um%02us", day / 60, day % 60);
	else if (s < S_PER_DAY)
		(void)snprintf(buf, size, "%uh%02um", day / 3600, day / 60 % 60);
	else
		(void)snprintf(buf, size, "%llud%02uh", (unsigned long long)(s / S_PER_DAY),
			       day / 3600);
	return buf;
}

/* What is said first counts, as for setlocale(3). */
static const char *locale_said(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return value;
	}
	return NULL;
}

static bool is_ascii;

void ctl_text_start(void)
{
	const char *said = locale_said();

	is_ascii = said && setlocale(LC_CTYPE, said) && strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	(void)setlocale(LC_CTYPE, "C.UTF-8"); /* which wcwidth(3) goes by */
}

/* In place: each character that is none of ASCII becomes one. */
static void make_ascii(char *text)
{
	const char *from = text;

	while (*from) {
		int32_t c = wire_utf8_next(&from);

		*text++ = c < 0x80 ? (char)c : '?';
	}
	*text = '\0';
}

char *ctl_text_plain(const char *text, char *buf, size_t size)
{
	(void)wire_utf8_plain(text, buf, size);
	if (is_ascii)
		make_ascii(buf);
	return buf;
}

size_t ctl_text_width(const char **text)
{
	int32_t c = wire_utf8_next(text);
	int width = c < 0 ? -1 : wcwidth((wchar_t)c);

	return width < 0 ? 1 : (size_t)width;
}

const char *ctl_text_cut(void)
{
	return is_ascii ? "~" : "\xe2\x80\xa6";
}
