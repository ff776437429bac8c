/* What a keeper that is a copy is given. */
#ifndef PULC_KEEPER_GIFTS_H
#define PULC_KEEPER_GIFTS_H

/*
 * Waits at the socket of that number, and has everything at its number then. Returns 0; -EPIPE:
 * there will be no job; negative errno.
 */
int keeper_gifts_take(void);

#endif
