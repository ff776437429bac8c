/*
 * JSON straight from the schema: the printer walks protobuf-c's description of a message, so that
 * a field added to the schema appears under its own name, and none can be forgotten.
 *
 * A singular message inside another is folded into it: an entry of `pulcctl sockets` has
 * local_addr, not tuple.local_addr. Left out: oneof, optional and floating-point fields, which no
 * reply has.
 */
#include "json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "text.h"
#include "utf8.h"

void ctl_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	while (*text) {
		const char *start = text;
		int32_t c = wire_utf8_next(&text);

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", (char)c);
		else if (c < 0)
			fputs("\\ufffd", out);
		else if (!wire_utf8_is_shown(c))
			fprintf(out, "\\u%04x", (unsigned)c);
		else
			fwrite(start, 1, (size_t)(text - start), out);
	}
	fputc('"', out);
}

/* Bytes in the schema are addresses. */
static void print_address(FILE *out, const ProtobufCBinaryData *address)
{
	char text[CTL_SIZE_ADDRESS];

	if (address->len == 16)
		fprintf(out, "\"%s\"", ctl_text_address(address, text, sizeof(text)));
	else
		fputs("null", out);
}

static void print_value(FILE *out, const ProtobufCFieldDescriptor *f, const void *value)
{
	char name[64];

	switch (f->type) {
	case PROTOBUF_C_TYPE_UINT32:
		fprintf(out, "%" PRIu32, *(const uint32_t *)value);
		break;
	case PROTOBUF_C_TYPE_UINT64:
		fprintf(out, "%" PRIu64, *(const uint64_t *)value);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		fputs(*(const protobuf_c_boolean *)value ? "true" : "false", out);
		break;
	case PROTOBUF_C_TYPE_ENUM:
		ctl_json_string(
			out, ctl_text_enum(f->descriptor, *(const int *)value, name, sizeof(name)));
		break;
	case PROTOBUF_C_TYPE_STRING:
		ctl_json_string(out, *(char *const *)value ? *(char *const *)value : "");
		break;
	case PROTOBUF_C_TYPE_BYTES:
		print_address(out, value);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		ctl_json_message(out, *(ProtobufCMessage *const *)value);
		break;
	default:
		fputs("null", out);
	}
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_UINT64:
		return sizeof(uint64_t);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	default:
		return sizeof(uint32_t);
	}
}

static void print_array(FILE *out, const ProtobufCFieldDescriptor *f, const ProtobufCMessage *msg)
{
	size_t n = *(const size_t *)((const char *)msg + f->quantifier_offset);
	const char *items = *(const char *const *)((const char *)msg + f->offset);

	fputc('[', out);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			fputc(',', out);
		print_value(out, f, items + i * size_of(f));
	}
	fputc(']', out);
}

/* Prints "name":value pairs, each but the very first after a comma. */
static void print_fields(FILE *out, const ProtobufCMessage *msg, bool *first)
{
	for (unsigned i = 0; i < msg->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &msg->descriptor->fields[i];
		const void *value = (const char *)msg + f->offset;

		if (f->type == PROTOBUF_C_TYPE_MESSAGE && f->label != PROTOBUF_C_LABEL_REPEATED) {
			if (*(ProtobufCMessage *const *)value)
				print_fields(out, *(ProtobufCMessage *const *)value, first);
			continue;
		}
		fprintf(out, "%s\"%s\":", *first ? "" : ",", f->name);
		*first = false;
		if (f->label == PROTOBUF_C_LABEL_REPEATED)
			print_array(out, f, msg);
		else
			print_value(out, f, value);
	}
}

void ctl_json_message(FILE *out, const ProtobufCMessage *msg)
{
	bool first = true;

	fputc('{', out);
	print_fields(out, msg, &first);
	fputc('}', out);
}
