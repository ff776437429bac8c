/*
 * Text that comes from others and is shown to people: names of programs above all, which may hold
 * any bytes. psid makes it plain when it comes in, and whoever writes to a terminal does so again,
 * for what a psid says is somebody else's word, too.
 *
 * UTF-8 as RFC 3629 has it: the shortest form only, no surrogates, nothing above 0x10ffff.
 */
#include "utf8.h"

#include <string.h>

int32_t wire_utf8_next(const char **text)
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

/* Control characters (C0, delete, C1), separators of lines, and those of Unicode's bidirectional
 * algorithm that reach beyond themselves (UAX 9: embeddings, overrides, isolates). */
bool wire_utf8_is_shown(int32_t c)
{
	return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && !(c >= 0x2028 && c <= 0x202e) &&
	       !(c >= 0x2066 && c <= 0x2069);
}

char *wire_utf8_plain(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	while (*text) {
		const char *start = text;
		bool shown = wire_utf8_is_shown(wire_utf8_next(&text));
		size_t len = shown ? (size_t)(text - start) : 1;

		if (n + len >= size)
			break;
		memmove(buf + n, shown ? start : "?", len);
		n += len;
	}
	buf[n] = '\0';
	return buf;
}
