/*
 * tools/shared/text.c: what numbers, addresses, names and hostile strings look like to people.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "shared/text.h"

static char buf[256];

static void enum_names(void)
{
	const ProtobufCEnumDescriptor *type = &pulc__wire__reason__descriptor;

	CHECK_STR(ctl_text_enum(type, 1, buf, sizeof(buf)), "waiting-peer");
	CHECK_STR(ctl_text_enum(type, 0, buf, sizeof(buf)), "none");
	CHECK_STR(ctl_text_enum(type, 9999, buf, sizeof(buf)), "unknown-9999");
	CHECK_STR(ctl_text_enum(type, 1, buf, 8), "waiting");
}

static const char *endpoint(const void *bytes, size_t len, unsigned port)
{
	ProtobufCBinaryData address = { .len = len, .data = (uint8_t *)bytes };

	return ctl_text_endpoint(&address, port, buf, sizeof(buf));
}

static void endpoints(void)
{
	static const uint8_t mapped[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	static const uint8_t longest[16] = { 0x20, 1,	 0xd,  0xb8, 0x11, 0x11, 0x22, 0x22,
					     0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x66, 0x66 };

	CHECK_STR(endpoint(mapped, 16, 80), "127.0.0.1:80");
	CHECK_STR(endpoint(&in6addr_loopback, 16, 65535), "[::1]:65535");
	CHECK_STR(endpoint(longest, 16, 65535), "[2001:db8:1111:2222:3333:4444:5555:6666]:65535");
	CHECK_STR(endpoint(mapped, 4, 80), "?:80");
	CHECK_STR(endpoint(NULL, 0, 0), "?:0");
}

static void byte_counts(void)
{
	static const struct {
		uint64_t n;
		const char *text;
	} cases[] = {
		{ 0, "0" },	      { 1023, "1023" },
		{ 1024, "1K" },	      { 1536, "1.5K" },
		{ 65536, "64K" },     { 10239, "9.9K" },
		{ 1048575, "1023K" }, { 1048576, "1M" },
		{ 3ull << 40, "3T" }, { UINT64_MAX, "15E" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_STR(ctl_text_bytes(cases[i].n, buf, sizeof(buf)), cases[i].text);
}

static void durations(void)
{
	CHECK_STR(ctl_text_duration(999999, buf, sizeof(buf)), "0s");
	CHECK_STR(ctl_text_duration(59ull * 1000000, buf, sizeof(buf)), "59s");
	CHECK_STR(ctl_text_duration(192ull * 1000000, buf, sizeof(buf)), "3m12s");
	CHECK_STR(ctl_text_duration(18120ull * 1000000, buf, sizeof(buf)), "5h02m");
	CHECK_STR(ctl_text_duration(792000ull * 1000000, buf, sizeof(buf)), "9d04h");
}

static void strings_are_made_harmless(void)
{
	CHECK_STR(ctl_text_plain("redis-server", buf, sizeof(buf)), "redis-server");
	CHECK_STR(ctl_text_plain("a\033[2Jb\n", buf, sizeof(buf)), "a?[2Jb?");
	CHECK_STR(ctl_text_plain("\xc3\xa4\xe2\x82\xac", buf, sizeof(buf)), "\xc3\xa4\xe2\x82\xac");
	CHECK_STR(ctl_text_plain("\xff\xc3", buf, sizeof(buf)), "??");
	CHECK_STR(ctl_text_plain("\xc2\x9b"
				 "31m",
				 buf, sizeof(buf)),
		  "?31m");
	CHECK_STR(ctl_text_plain("\xc0\xaf\xed\xa0\x80", buf, sizeof(buf)), "?????");
	CHECK_STR(ctl_text_plain("abcdef", buf, 4), "abc");
	CHECK_STR(ctl_text_plain("ab\xe2\x82\xac", buf, 5), "ab");
	/* What turns the order of all that follows, and separators of lines. */
	CHECK_STR(ctl_text_plain("a\xe2\x80\xae"
				 "b\xe2\x81\xa7\xe2\x80\xa8",
				 buf, sizeof(buf)),
		  "a?b??");
}

static const char *plain_in(const char *locale)
{
	if (locale)
		(void)setenv("LC_ALL", locale, 1);
	else
		(void)unsetenv("LC_ALL");
	(void)unsetenv("LC_CTYPE");
	(void)unsetenv("LANG");
	ctl_text_start();
	return ctl_text_plain("gr\xc3\xb6\xc3\x9f"
			      "e \xe6\xbc\xa2",
			      buf, sizeof(buf));
}

static void locales_say_what_a_terminal_has(void)
{
	CHECK_STR(plain_in("C"), "gr??e ?");
	CHECK_STR(ctl_text_cut(), "~");
	CHECK_STR(plain_in("C.UTF-8"), "gr\xc3\xb6\xc3\x9f"
				       "e \xe6\xbc\xa2");
	CHECK_STR(plain_in("xx_XX.none"), "gr\xc3\xb6\xc3\x9f"
					  "e \xe6\xbc\xa2");
	CHECK_STR(plain_in(NULL), "gr\xc3\xb6\xc3\x9f"
				  "e \xe6\xbc\xa2");
	CHECK_STR(ctl_text_cut(), "\xe2\x80\xa6");
}

static const struct test tests[] = {
	TEST(enum_names),
	TEST(endpoints),
	TEST(byte_counts),
	TEST(durations),
	TEST(strings_are_made_harmless),
	TEST(locales_say_what_a_terminal_has),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
