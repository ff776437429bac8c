/*
 * `pulcctl partition create`, `set` and `delete`. Names of users become numbers here: psid looks
 * none up. Nodes are listed as pulcrun's are, and "n1-n8" is also "n[1-8]", unless its ends are of
 * different names.
 */
#include "partition.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "json.h"
#include "limit.h"
#include "macros.h"
#include "hosts.h"
#include "query.h"
#include "say.h"
#include "text.h"
#include "user.h"

#define PART(name) (uint32_t) PULC__WIRE__PARTITION_PART__PART_##name

/* The number that a name ends with: where it begins. */
static const char *number_of(const char *name, size_t len)
{
	while (len > 0 && isdigit((unsigned char)name[len - 1]))
		len--;
	return name + len;
}

/* "n1-n8" as "n[1-8]" into buf. Returns whether it is such a word. */
static bool rewrite(const char *word, size_t len, char *buf, size_t size)
{
	const char *dash = memchr(word, '-', len);
	size_t len_left = dash ? (size_t)(dash - word) : 0,
	       len_right = dash ? len - len_left - 1 : 0;
	const char *left = number_of(word, len_left);
	const char *right = dash ? number_of(dash + 1, len_right) : word;
	int n_left = (int)(dash - left), n_right = (int)(word + len - right);

	if (!dash || left == word || left - word != right - dash - 1 || n_left <= 0 ||
	    n_right <= 0 || memcmp(word, dash + 1, (size_t)(left - word)) != 0)
		return false;
	return snprintf(buf, size, "%.*s[%.*s-%.*s]", (int)(left - word), word, n_left, left,
			n_right, right) < (int)size;
}

/* Up to the comma or space behind it; those in brackets are a part of it. */
static size_t word_length(const char *text)
{
	bool inside = false;
	size_t n = 0;

	for (; text[n] && (inside || !strchr(", \t\n", text[n])); n++)
		inside = text[n] == '[' || (inside && text[n] != ']');
	return n;
}

static bool has_slots(const struct hosts *hosts)
{
	for (size_t i = 0; i < hosts->n; i++)
		if (hosts->items[i].slots > 0)
			return true;
	return false;
}

static int parse_nodes(struct hosts *hosts, const char *text)
{
	char again[3 * HOSTS_SIZE_NAME];
	int r = 0;

	while (r == 0 && *text) {
		size_t len = word_length(text);

		if (rewrite(text, len, again, sizeof(again)))
			r = hosts_parse(hosts, again, strlen(again));
		else
			r = hosts_parse(hosts, text, len);
		text += len + (text[len] != '\0');
	}
	return r == 0 && (hosts->n == 0 || has_slots(hosts)) ? -EINVAL : r;
}

/* Those of the list, and their names in an array to free. */
static int fill_nodes(const char *text, struct hosts *hosts, char ***ret_names,
		      Pulc__Wire__Partition *partition)
{
	char **names;

	if (parse_nodes(hosts, text) < 0) {
		fprintf(stderr, "pulcctl: '%s' is no list of nodes such as n1,n[2-4] or n1-n4\n",
			text);
		return -EINVAL;
	}
	names = calloc(hosts->n, sizeof(*names));
	if (!names)
		return -ENOMEM;
	*ret_names = names;
	for (size_t i = 0; i < hosts->n; i++)
		names[i] = hosts->items[i].name;
	partition->nodes = names;
	partition->n_nodes = hosts->n;
	return 0;
}

/* What the options say, and in *change which parts that are. */
static int fill(const struct ctl_options *o, uint32_t *users, Pulc__Wire__Partition *partition,
		uint32_t *change)
{
	int r = 0;

	partition->exclusive = o->exclusive == CTL_YES;
	partition->is_default = o->is_default == CTL_YES;
	partition->owner = (uint32_t)geteuid();
	partition->users = users;
	if (o->owner)
		r = ctl_user_number(o->owner, &partition->owner);
	for (unsigned i = 0; r == 0 && i < o->n_users && !o->all_users; i++)
		r = ctl_user_number(o->users[i], &users[partition->n_users++]);
	*change |= o->nodes ? PART(NODES) : 0;
	*change |= o->exclusive != CTL_UNSAID ? PART(EXCLUSIVE) : 0;
	*change |= o->is_default != CTL_UNSAID ? PART(DEFAULT) : 0;
	*change |= o->owner ? PART(OWNER) : 0;
	*change |= o->n_users || o->all_users ? PART(USERS) : 0;
	for (unsigned i = 0; r >= 0 && i < o->n_limits; i++) {
		r = ctl_limit_take(o->limits[i], partition);
		*change |= r > 0 ? (uint32_t)r : 0;
	}
	return MIN(r, 0);
}

static int show(const struct ctl_options *options, const Pulc__Wire__PartitionReply *reply)
{
	const char *text = reply->error[0] ? reply->error : reply->note;
	char plain[512];

	if (options->json) {
		ctl_json_message(stdout, &reply->base);
		putchar('\n');
	}
	if (text[0])
		fprintf(stderr, "pulcctl: %s\n", ctl_text_plain(text, plain, sizeof(plain)));
	return reply->error[0] ? EXIT_REFUSED : EXIT_SUCCESS;
}

static void free_hosts(struct hosts *hosts)
{
	hosts_deinit(hosts);
}

int ctl_partition(const struct ctl_options *options)
{
	CLEANUP(ctl_psid_close) struct ctl_psid psid = CTL_PSID_NONE;
	CLEANUP(ctl_replies_deinit) struct ctl_replies replies = { 0 };
	CLEANUP(free_hosts) struct hosts hosts = { 0 };
	CLEANUP_FREE char **names = NULL;
	uint32_t users[CTL_N_USERS_MAX];
	Pulc__Wire__Partition partition = PULC__WIRE__PARTITION__INIT;
	Pulc__Wire__PartitionRequest request = PULC__WIRE__PARTITION_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	int r;

	request.partition = &partition;
	request.gone = options->partition == CTL_PARTITION_DELETE;
	partition.name = (char *)options->name;
	if (options->nodes && fill_nodes(options->nodes, &hosts, &names, &partition) < 0)
		return EXIT_USAGE;
	if (!request.gone && fill(options, users, &partition, &request.change) < 0)
		return EXIT_USAGE;
	if (options->partition == CTL_PARTITION_CREATE)
		request.change = 0;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_PARTITION;
	msg.partition = &request;
	r = ctl_psid_open(&psid);
	if (r == 0)
		r = ctl_ask_message(&psid, &msg, &replies);
	return r != 0 ? ctl_say_error(&psid, r) : show(options, replies.items[0]->partition);
}
