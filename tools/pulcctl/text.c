/*
 * Numbers, addresses, names and foreign strings as text.
 *
 * The names of reasons have one home, the schema: they are taken from protobuf-c's description of
 * the enum, so a reason added there is shown here without a line of code. Program names
 * come from programs and may hold anything; what reaches a terminal is reduced to
 * printable UTF-8, one replacement character for each byte that is not.
 */
#include "text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

int32_t ctl_text_next(const char **text)
{
	/* By the number of bytes: the smallest code point that needs so many. */
	static const int32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)*text;
	int n = *p < 0x80 ? 1 : *p >> 5 == 0x06 ? 2 : *p >> 4 == 0x0e ? 3 : *p >> 3 == 0x1e ? 4 : 0;
	int32_t c = n == 1 ? *p : n > 1 ? *p & (0x7f >> n) : -1;

	for (int i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			c = -1;
			break;
		}
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < 0 || c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
		*text += 1;
		return -1;
	}
	*text += n;
	return c;
}

char *ctl_text_plain(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	while (*text) {
		const char *start = text;
		int32_t c = ctl_text_next(&text);
		bool shown = c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0);
		size_t len = shown ? (size_t)(text - start) : 1;

		if (n + len >= size)
			break;
		memcpy(buf + n, shown ? start : "?", len);
		n += len;
	}
	buf[n] = '\0';
	return buf;
}
