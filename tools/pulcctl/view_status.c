/*
 * `pulcctl status`: psid itself, as a list of names and values, and a table of what each user
 * holds.
 */
#include "view.h"

#include <stdarg.h>

#include "cleanup.h"
#include "json.h"
#include "macros.h"
#include "text.h"
#include "user.h"

/* One line of the list. */
static void print_item(FILE *out, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void print_item(FILE *out, const char *name, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(out, "%12s: ", name);
	vfprintf(out, format, args);
	fputc('\n', out);
	va_end(args);
}

/* "2 (version 1, user 1)": since the daemon began. */
static void print_refused(FILE *out, const Pulc__Wire__StatusReply *s)
{
	char text[512] = "", reason[64];
	unsigned long long sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_refused && n < sizeof(text); i++) {
		const Pulc__Wire__Refused *r = s->refused[i];

		(void)ctl_text_enum(&pulc__wire__reason__descriptor, (int)r->reason, reason,
				    sizeof(reason));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %llu", n > 0 ? ", " : " (",
				      reason, (unsigned long long)r->n);
		sum += r->n;
	}
	print_item(out, "sent away", "%llu%s%s", sum, text, n > 0 ? ")" : "");
}

static void print_list(FILE *out, const Pulc__Wire__StatusReply *s)
{
	char text[16], path[256], version[64];

	print_item(out, "psid", "%s, pid %u, up %s",
		   ctl_text_plain(s->version, version, sizeof(version)), s->pid,
		   ctl_text_duration(s->uptime_usec, text, sizeof(text)));
	print_item(out, "serves", "%s", s->system ? "all users" : "one user");
	print_item(out, "socket", "%s", ctl_text_plain(s->socket_path, path, sizeof(path)));
	print_item(out, "clients", "%u (at most %u)", s->n_clients, s->limit_processes);
	print_refused(out, s);
	print_item(out, "connections", "%u on rings, %u waiting for their peer", s->n_connections,
		   s->n_hints);
	print_item(out, "memory", "%s in %u areas",
		   ctl_text_bytes(s->size_bytes, text, sizeof(text)), s->n_areas);
	print_item(out, "upgrades", "%llu, and %llu denied", (unsigned long long)s->n_upgrades,
		   (unsigned long long)s->n_denied);
	print_item(out, "moved", "%s through rings that have ended",
		   ctl_text_bytes(s->size_rings, text, sizeof(text)));
	print_item(out, "malformed", "%llu messages", (unsigned long long)s->n_malformed);
	print_item(out, "forwarded", "%llu wake-ups", (unsigned long long)s->n_rings_forwarded);
}

static int add_user(struct ctl_table *table, const Pulc__Wire__StatusReply *s,
		    const Pulc__Wire__UserUse *use)
{
	char name[CTL_SIZE_USER], clients[16], areas[16], size[16];
	char max_clients[16], max_areas[16], max_size[16];
	const char *cells[] = {
		ctl_user_name(use->uid, name),
		clients,
		max_clients,
		areas,
		max_areas,
		ctl_text_bytes(use->size_bytes, size, sizeof(size)),
		ctl_text_bytes(s->limit_bytes_uid, max_size, sizeof(max_size)),
	};

	(void)snprintf(clients, sizeof(clients), "%u", use->n_clients);
	(void)snprintf(areas, sizeof(areas), "%u", use->n_areas);
	(void)snprintf(max_clients, sizeof(max_clients), "%u", s->limit_clients_uid);
	(void)snprintf(max_areas, sizeof(max_areas), "%u", s->limit_areas_uid);
	return ctl_table_add(table, cells);
}

static int print_users(FILE *out, const Pulc__Wire__StatusReply *s, const struct ctl_room *room)
{
	static const struct ctl_column columns[] = {
		{ .title = "USER" },
		{ .title = "CLIENTS", .right = true },
		{ .title = "MAX", .right = true },
		{ .title = "AREAS", .right = true },
		{ .title = "MAX", .right = true },
		{ .title = "MEMORY", .right = true },
		{ .title = "MAX", .right = true },
	};
	CLEANUP(ctl_table_cleanup) struct ctl_table *table = NULL;
	int r;

	r = ctl_table_new(columns, ARRAY_SIZE(columns), &table);
	for (size_t i = 0; r == 0 && i < s->n_users; i++)
		r = add_user(table, s, s->users[i]);
	if (r == 0)
		ctl_table_print(table, out, room);
	return r;
}

int ctl_status_print(FILE *out, const struct ctl_replies *replies,
		     const struct ctl_options *options, const struct ctl_room *room)
{
	const Pulc__Wire__StatusReply *s = replies->items[0]->status;

	if (options->json) {
		ctl_json_message(out, &s->base);
		fputc('\n', out);
		return 0;
	}
	print_list(out, s);
	if (s->n_users == 0)
		return 0;
	fputc('\n', out);
	return print_users(out, s, room);
}
