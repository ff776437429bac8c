/* Which file has the socket of a cookie (SO_COOKIE, the kernel's name of a socket). */
#ifndef PULC_PRELOAD_COOKIES_H
#define PULC_PRELOAD_COOKIES_H

#include <stdbool.h>
#include <stdint.h>

struct pre_file;

/* From now on another process may hold f, which the caller uses, or which has no descriptor yet. */
void pre_cookie_shares(struct pre_file *f);
/* The same will be true of f, at fd, in a moment: it is listed beforehand, so that nobody has to
 * look for it. */
void pre_cookie_lists(struct pre_file *f, int fd);
/* `to`, just received, becomes one more descriptor of the file that has this cookie. False: there
 * is none. */
bool pre_cookie_join(uint64_t cookie, int to);

#endif
