/*
 * Lists in replies, found by protobuf-c's description of them as json.c does: a list that is added
 * to the schema is read here already.
 *
 * A reply that is a list has one repeated message, its entries; a bool, `more`; and perhaps one
 * repeated string, the names of nodes that did not answer.
 */
#include "reply.h"

/* The oneof is a union of pointers to messages: any of its members points to the reply that there
 * is. */
static const ProtobufCMessage *body_of(const Pulc__Wire__ToClient *reply)
{
	return &reply->status->base;
}

bool ctl_reply_has_more(const Pulc__Wire__ToClient *reply)
{
	const ProtobufCMessage *body = body_of(reply);
	const ProtobufCFieldDescriptor *f =
		protobuf_c_message_descriptor_get_field_by_name(body->descriptor, "more");

	return f && *(const protobuf_c_boolean *)((const char *)body + f->offset);
}

/* The repeated field of that type: where its items are, and how many. */
static const void *find(const Pulc__Wire__ToClient *reply, ProtobufCType type, size_t *ret_n)
{
	const ProtobufCMessage *body = body_of(reply);

	for (unsigned i = 0; i < body->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &body->descriptor->fields[i];

		if (f->label != PROTOBUF_C_LABEL_REPEATED || f->type != type)
			continue;
		*ret_n = *(const size_t *)((const char *)body + f->quantifier_offset);
		return *(const void *const *)((const char *)body + f->offset);
	}
	*ret_n = 0;
	return NULL;
}

ProtobufCMessage *const *ctl_reply_entries(const Pulc__Wire__ToClient *reply, size_t *ret_n)
{
	return find(reply, PROTOBUF_C_TYPE_MESSAGE, ret_n);
}

char *const *ctl_reply_silent(const Pulc__Wire__ToClient *reply, size_t *ret_n)
{
	return find(reply, PROTOBUF_C_TYPE_STRING, ret_n);
}
