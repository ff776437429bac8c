/*
 * tools/shared/json.c: every field by its own name, values that any JSON reader takes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "shared/json.h"

static char *text;

static const char *print_message(const ProtobufCMessage *msg)
{
	size_t len;
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &len);
	REQUIRE(out != NULL);
	ctl_json_message(out, msg);
	(void)fclose(out);
	return text;
}

static const char *print_string(const char *s)
{
	size_t len;
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &len);
	REQUIRE(out != NULL);
	ctl_json_string(out, s);
	(void)fclose(out);
	return text;
}

static void tuples_are_folded_in(void)
{
	uint8_t local[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, remote[16] = { [15] = 1 };
	Pulc__Wire__Tuple tuple = PULC__WIRE__TUPLE__INIT;
	Pulc__Wire__SocketEntry e = PULC__WIRE__SOCKET_ENTRY__INIT;

	tuple.local_addr = (ProtobufCBinaryData){ 16, local };
	tuple.remote_addr = (ProtobufCBinaryData){ 16, remote };
	tuple.local_port = 80;
	tuple.remote_port = 40000;
	e.conn = UINT64_MAX;
	e.program = (char *)"a\"b";
	e.path = (char *)"rings";
	e.reason = PULC__WIRE__REASON__REASON_GAVE_BACK;
	e.tuple = &tuple;
	(void)print_message(&e.base);
	CHECK(strncmp(text, "{\"conn\":18446744073709551615,\"client\":0,\"pid\":0,", 48) == 0);
	CHECK(strstr(text, ",\"program\":\"a\\\"b\",\"local_addr\":\"10.0.0.1\",\"local_port\":80,"
			   "\"remote_addr\":\"::1\",\"remote_port\":40000,\"path\":\"rings\","
			   "\"reason\":\"gave-back\",") != NULL);
	CHECK(strstr(text, ",\"waiter\":\"\",") != NULL);
	CHECK(text[strlen(text) - 1] == '}');
}

static void missing_parts_are_harmless(void)
{
	Pulc__Wire__Tuple tuple = PULC__WIRE__TUPLE__INIT;
	Pulc__Wire__SocketEntry e = PULC__WIRE__SOCKET_ENTRY__INIT;

	CHECK(strstr(print_message(&e.base), "local_addr") == NULL);
	e.tuple = &tuple;
	CHECK(strstr(print_message(&e.base), "\"local_addr\":null,\"local_port\":0,") != NULL);
}

static void repeated_messages_are_arrays(void)
{
	Pulc__Wire__UserUse root = PULC__WIRE__USER_USE__INIT, other = PULC__WIRE__USER_USE__INIT;
	Pulc__Wire__UserUse *users[] = { &root, &other };
	Pulc__Wire__StatusReply s = PULC__WIRE__STATUS_REPLY__INIT;

	CHECK(strstr(print_message(&s.base), "\"users\":[],") != NULL);
	other.uid = 1000;
	s.users = users;
	s.n_users = 2;
	s.system = true;
	(void)print_message(&s.base);
	CHECK(strstr(text, "\"system\":true,") != NULL);
	CHECK(strstr(text, "\"users\":[{\"uid\":0,\"n_clients\":0,\"n_areas\":0,\"size_bytes\":0},"
			   "{\"uid\":1000,") != NULL);
}

static void repeated_numbers_are_arrays(void)
{
	uint64_t conns[] = { 1, 1ull << 63 };
	Pulc__Wire__Adopt a = PULC__WIRE__ADOPT__INIT;

	a.conns = conns;
	a.n_conns = 2;
	CHECK(strstr(print_message(&a.base), "\"conns\":[1,9223372036854775808]") != NULL);
}

static void strings_are_escaped(void)
{
	CHECK_STR(print_string("a\\\"\n\t\x7f"), "\"a\\\\\\\"\\u000a\\u0009\\u007f\"");
	CHECK_STR(print_string("\xc3\xa4"), "\"\xc3\xa4\"");
	CHECK_STR(print_string("\xff"
			       "a\xe2\x82"),
		  "\"\\ufffda\\ufffd\\ufffd\"");
	CHECK_STR(print_string("\xc2\x9b"
			       "31m\xe2\x80\xae"),
		  "\"\\u009b31m\\u202e\"");
	CHECK_STR(print_string(""), "\"\"");
}

static const struct test tests[] = {
	TEST(tuples_are_folded_in),	    TEST(missing_parts_are_harmless),
	TEST(repeated_messages_are_arrays), TEST(repeated_numbers_are_arrays),
	TEST(strings_are_escaped),
};

int main(int argc, char **argv)
{
	int status = TESTS_RUN(tests, argc, argv);

	free(text);
	return status;
}
