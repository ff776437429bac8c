/*
 * `pulcctl keygen`: the file with a cluster's key. It needs no psid, and tells none: what is in the
 * file counts when psid reads it.
 *
 * Without an option it makes a new file, and never touches an existing one: with the key of a
 * living cluster in it that would cut the node off. The others are the steps of a change of keys: a
 * new key goes to the end of the file, where it is accepted and not used; a key is moved to the
 * beginning, where it is used; all but the first are dropped. Each may be done twice and does
 * nothing then, but --add.
 */
#include "keygen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "fingerprint.h"
#include "json.h"

static int usual_path(char *buf, size_t size)
{
	const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n;

	if (geteuid() == 0)
		n = snprintf(buf, size, "/etc/pulc/cluster.key");
	else if (dir && dir[0] == '/')
		n = snprintf(buf, size, "%s/pulc/cluster.key", dir);
	else
		n = snprintf(buf, size, "%s/.config/pulc/cluster.key", home ? home : "");
	return (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* The folder of the usual path, which may not be there on a fresh machine. */
static void make_folder(const char *path)
{
	char folder[512];
	char *slash;

	(void)snprintf(folder, sizeof(folder), "%s", path);
	for (slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(folder, 0755);
		*slash = '/';
	}
}

static int fail(const char *path, int r)
{
	fprintf(stderr, "pulcctl: %s: %s\n", path,
		r == -EEXIST ? "there is one already, and it stays as it is (--add adds a key)"
			     : strerror(-r));
	return r;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void name_key(const struct wire_keys *keys, size_t i, char name[9])
{
	(void)snprintf(name, 9, "%08x", wire_key_number(wire_key_fingerprint(keys->keys[i])));
}

/* "3f2a91c0+77b01d2e", as `pulcctl nodes` shows them. */
static char *join(const struct wire_keys *keys, char text[WIRE_N_KEYS * 9 + 1])
{
	char *at = text;

	for (size_t i = 0; i < keys->n; i++) {
		name_key(keys, i, at);
		at += 8;
		*at++ = '+';
	}
	at[-1] = '\0';
	return text;
}

static void print_json(const char *path, const struct wire_keys *keys)
{
	char name[9];

	fputs("{\"file\":", stdout);
	ctl_json_string(stdout, path);
	fputs(",\"keys\":[", stdout);
	for (size_t i = 0; i < keys->n; i++) {
		name_key(keys, i, name);
		printf("%s\"%s\"", i > 0 ? "," : "", name);
	}
	puts("]}");
}

static void say_made(const char *path, const struct wire_keys *keys)
{
	char all[WIRE_N_KEYS * 9 + 1];
	CLEANUP_FREE char *absolute = realpath(path, NULL); /* psid.conf wants it */

	printf("A new key, %s, is in %s. Every node of the cluster needs a copy, that only\n"
	       "psid's user can read, and in its psid.conf the lines\n"
	       "\n"
	       "ClusterName=NAME\n"
	       "ClusterKeyFile=%s\n"
	       "ClusterSeeds=HOST...\n",
	       join(keys, all), path, absolute ? absolute : path);
}

static void say_added(const char *path, const struct wire_keys *keys)
{
	char fresh[9], all[WIRE_N_KEYS * 9 + 1];

	name_key(keys, keys->n - 1, fresh);
	printf("A new key, %s, is in %s. It is accepted, and not used yet.\n"
	       "Copy the file to every node and run `pulcctl reload` there. When `pulcctl nodes` "
	       "shows\n"
	       "%s for all of them, go on with\n"
	       "\n"
	       "pulcctl keygen --use %s %s\n",
	       fresh, path, join(keys, all), fresh, path);
}

static void say_used(const char *path, const struct wire_keys *keys)
{
	char used[9], all[WIRE_N_KEYS * 9 + 1];

	name_key(keys, 0, used);
	printf("The key %s is the first in %s: it is used.\n", used, path);
	if (keys->n > 1)
		printf("Copy the file to every node and run `pulcctl reload` there. When `pulcctl "
		       "nodes` "
		       "shows\n"
		       "%s for all of them, go on with\n"
		       "\n"
		       "pulcctl keygen --drop-old %s\n",
		       join(keys, all), path);
}

static void say_dropped(const char *path, const struct wire_keys *keys)
{
	char used[9];

	name_key(keys, 0, used);
	printf("The key %s is the only one in %s.\n"
	       "Copy the file to every node and run `pulcctl reload` there. When `pulcctl nodes` "
	       "shows\n"
	       "%s for all of them, the key has been changed.\n",
	       used, path, used);
}

static void say_list(const char *path, const struct wire_keys *keys)
{
	char name[9];

	(void)path;
	for (size_t i = 0; i < keys->n; i++) {
		name_key(keys, i, name);
		printf("%s %s\n", name, i == 0 ? "used" : "accepted");
	}
}

/* ---- what is done ---------------------------------------------------------------------------- */

static int add(const char *path, struct wire_keys *keys)
{
	int r;

	if (keys->n == WIRE_N_KEYS) {
		fprintf(stderr,
			"pulcctl: %s: there are %u keys, no more fit in: --drop-old drops all "
			"but the first\n",
			path, WIRE_N_KEYS);
		return -ENOSPC;
	}
	r = wire_key_draw(keys->keys[keys->n]);
	if (r < 0)
		return fail(path, r);
	keys->n++;
	return 1;
}

/* The one whose name begins so. Returns where it is; -ENOENT, after saying so. */
static int find(const char *path, const struct wire_keys *keys, const char *prefix)
{
	size_t len = strlen(prefix);
	int found = -ENOENT;
	char name[9];

	for (size_t i = 0; i < keys->n; i++) {
		name_key(keys, i, name);
		if (len > 0 && strncmp(name, prefix, len) == 0)
			found = found == -ENOENT ? (int)i : -EINVAL;
	}
	if (found >= 0)
		return found;
	fprintf(stderr, "pulcctl: %s: %s key %s there (--list shows them)\n", path,
		found == -ENOENT ? "no" : "more than one", prefix);
	return -ENOENT;
}

static int use(const char *path, struct wire_keys *keys, const char *prefix)
{
	uint8_t key[WIRE_SIZE_KEY];
	int i = find(path, keys, prefix);

	if (i <= 0)
		return i;
	memcpy(key, keys->keys[i], sizeof(key));
	memmove(keys->keys[1], keys->keys[0], (size_t)i * WIRE_SIZE_KEY);
	memcpy(keys->keys[0], key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	return 1;
}

/* Returns 1: the keys have changed; 0; negative errno, after saying what is wrong. */
static int change(const char *path, const struct ctl_options *options, struct wire_keys *keys)
{
	switch (options->keygen) {
	case CTL_KEY_ADD:
		return add(path, keys);
	case CTL_KEY_USE:
		return use(path, keys, options->key);
	case CTL_KEY_DROP_OLD:
		if (keys->n == 1)
			return 0;
		keys->n = 1;
		return 1;
	default:
		return 0;
	}
}

static int read_keys(const char *path, struct wire_keys *ret_keys)
{
	char why[256];
	int r = wire_keys_read(path, ret_keys, why, sizeof(why));

	if (r < 0)
		fprintf(stderr, "pulcctl: %s\n", why);
	return r;
}

static int serve(const char *path, const struct ctl_options *options, struct wire_keys *keys)
{
	static void (*const say[])(const char *path, const struct wire_keys *keys) = {
		[CTL_KEY_MAKE] = say_made, [CTL_KEY_ADD] = say_added,
		[CTL_KEY_USE] = say_used,  [CTL_KEY_DROP_OLD] = say_dropped,
		[CTL_KEY_LIST] = say_list,
	};
	int r = options->keygen == CTL_KEY_MAKE ? wire_key_make(path) : 0;

	if (r < 0)
		return fail(path, r);
	r = read_keys(path, keys);
	if (r < 0)
		return r;
	r = change(path, options, keys);
	if (r < 0)
		return r;
	if (r > 0 && (r = wire_keys_write(path, keys)) < 0)
		return fail(path, r);
	if (options->json)
		print_json(path, keys);
	else
		say[options->keygen](path, keys);
	return 0;
}

int ctl_keygen(const struct ctl_options *options)
{
	struct wire_keys keys = { .n = 0 };
	const char *path = options->file;
	char usual[512];
	int r;

	if (!path) {
		r = usual_path(usual, sizeof(usual));
		path = usual;
		if (r < 0)
			return fail(path, r);
		if (options->keygen == CTL_KEY_MAKE)
			make_folder(usual);
	}
	r = serve(path, options, &keys);
	explicit_bzero(&keys, sizeof(keys));
	return r;
}
