/* Names and numbers of users. */
#ifndef PULCCTL_USER_H
#define PULCCTL_USER_H

#include <stdint.h>

#define CTL_SIZE_USER 40
/* The name of a user, or his number if he has none. */
char *ctl_user_name(unsigned uid, char buf[CTL_SIZE_USER]);
/* The number of a user who is named, or given by number. Returns 0; -EINVAL after saying that there
 * is none of that name. */
int ctl_user_number(const char *name, uint32_t *ret_uid);

#endif
