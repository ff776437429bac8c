/* The cgroup that this process is in: the line "0::/path" of /proc/self/cgroup. */
#include "cgroup_own.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int psid_cgroup_own(char *buf, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[512];
	int r = -ENOENT;

	if (!file)
		return -errno;
	while (r < 0 && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::/", 4) == 0 &&
		    (size_t)snprintf(buf, size, "%s", line[4] ? line + 3 : "") < size)
			r = 0;
	}
	(void)fclose(file);
	return r;
}
