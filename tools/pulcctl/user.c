/* Users: psid knows them by number and looks no name up, so that is done here. */
#include "user.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"

char *ctl_user_name(unsigned uid, char buf[CTL_SIZE_USER])
{
	const struct passwd *user = getpwuid(uid);

	if (user)
		return ctl_text_plain(user->pw_name, buf, CTL_SIZE_USER);
	(void)snprintf(buf, CTL_SIZE_USER, "%u", uid);
	return buf;
}

int ctl_user_number(const char *name, uint32_t *ret_uid)
{
	const struct passwd *entry;
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(name, &end, 10);
	if (isdigit((unsigned char)name[0]) && !*end && !errno && n < UINT32_MAX) {
		*ret_uid = (uint32_t)n;
		return 0;
	}
	entry = getpwnam(name);
	if (!entry) {
		fprintf(stderr, "pulcctl: no user '%s'\n", name);
		return -EINVAL;
	}
	*ret_uid = entry->pw_uid;
	return 0;
}
