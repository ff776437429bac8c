/* The whole terminal for pictures, and the terminal as it was whenever we are not there. */
#ifndef PULCCTL_SCREEN_H
#define PULCCTL_SCREEN_H

#include <signal.h>

struct ctl_screen {
	int keys;	  /* typed keys come here; -1: they are not ours */
	sigset_t blocked; /* while nothing is drawn; for ctl_watch */
};

/*
 * Takes the other screen of the terminal on stdout, and its keys. From now on SIGTSTP and SIGCONT
 * are blocked but where `blocked` holds.
 */
void ctl_screen_enter(struct ctl_screen *screen);
/* Puts everything back for good. Harmless if nothing was taken. */
void ctl_screen_leave(void);

#endif
