/* Lists of nodes, as people write them. */
#ifndef PULC_TOOLS_HOSTS_H
#define PULC_TOOLS_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#define HOSTS_N_MAX 65536u
#define HOSTS_SIZE_NAME 64u

struct host {
	char name[HOSTS_SIZE_NAME];
	uint32_t slots; /* 0: not said */
};

/* All zero is an empty list. */
struct hosts {
	struct host *items;
	size_t n;
};

/*
 * Adds what a list says: names separated by commas or white space, each perhaps with ranges in
 * brackets and a number of slots: "n1,n[2-4,7]:2". len bytes of text. Returns 0; -EINVAL: not such
 * a list; -E2BIG: more than HOSTS_N_MAX; -ENOMEM. What was added before an error stays.
 */
int hosts_parse(struct hosts *hosts, const char *text, size_t len);
/*
 * The same from a file, where also "n1 slots=2" and comments behind # are understood. Returns as
 * hosts_parse, -EINVAL with the number of the line; -ENODATA: it names no node; the errno of
 * opening or reading it.
 */
int hosts_read(struct hosts *hosts, const char *path, unsigned *ret_line);
void hosts_deinit(struct hosts *hosts);

#endif
