/*
 * `pulcctl keygen`: a key for a new cluster. It needs no psid. An existing file is never touched: with
 * the key of a living cluster in it that would cut the node off.
 */
#include "keygen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "key.h"

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

int ctl_keygen(const char *path, bool json)
{
	char usual[512];
	int r = 0;

	if (!path) {
		r = usual_path(usual, sizeof(usual));
		path = usual;
		if (r == 0)
			make_folder(usual);
	}
	if (r == 0)
		r = wire_key_make(path);
	if (r < 0) {
		fprintf(stderr, "pulcctl: %s: %s\n", path,
			r == -EEXIST ? "there is one already, and it stays as it is"
				     : strerror(-r));
		return r;
	}
	if (json) {
		fputs("{\"file\":", stdout);
		ctl_json_string(stdout, path);
		puts("}");
		return 0;
	}
	printf("A new key is in %s. Every node of the cluster needs a copy, that only psid's user\n"
	       "can read, and in its psid.conf the lines\n"
	       "\n"
	       "ClusterName=NAME\n"
	       "ClusterKeyFile=%s\n"
	       "ClusterSeeds=HOST...\n",
	       path, path);
	return 0;
}
