/*
 * The terminal's other screen, on which nothing scrolls and from which one comes back to what was
 * there before, and its keys one by one and unseen. Both are put back whenever this process does
 * not run on: at its end, when a signal ends it, and when Ctrl-Z stops it.
 *
 * Stopped and continued (the job control of shells; POSIX, General Terminal Interface): the handler
 * of SIGTSTP puts everything back and only then stops; SIGCONT takes it again. Both happen between
 * two pictures only, for half a picture is not to end on the usual screen; the next picture is due
 * at once then. SIGSTOP can't be seen coming: SIGCONT takes again what was never put back.
 * Continued in the background the terminal is another's: we stop as who writes to it there does
 * (SIGTTOU), until we are in the foreground.
 *
 * SIGINT and SIGTERM may come at any time, for nothing goes on after them.
 */
#include "screen.h"

#include <stdbool.h>
#include <termios.h>
#include <unistd.h>

#define OTHER_SCREEN "\033[?1049h\033[?25l\033[?7l"
#define USUAL_SCREEN "\033[?7h\033[?25h\033[?1049l"

/* What is to be put back. */
static volatile sig_atomic_t on_screen, takes_keys;
static struct termios usual;
/* The terminal's keys were ours at the beginning. Behind somebody else's program on it they are
 * not. */
static volatile sig_atomic_t is_in_front;

static bool is_foreground(void)
{
	return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void take_keys(void)
{
	struct termios keys;

	/* Taken still, after a SIGSTOP: what is usual is known already. */
	if (!takes_keys && tcgetattr(STDIN_FILENO, &usual) < 0)
		return;
	keys = usual;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	keys.c_cc[VMIN] = 1;
	keys.c_cc[VTIME] = 0;
	takes_keys = 1; /* first: a signal may come in between */
	if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) < 0)
		takes_keys = 0;
}

static void put_back(void)
{
	if (on_screen)
		(void)!write(STDOUT_FILENO, USUAL_SCREEN, sizeof(USUAL_SCREEN) - 1);
	if (takes_keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &usual);
	on_screen = takes_keys = 0;
}

static void take(void);

/* Does what the signal does to others, once everything is put back. Comes back from a stop only. */
static void on_signal(int number)
{
	sigset_t only;

	put_back();
	(void)signal(number, SIG_DFL);
	(void)sigemptyset(&only);
	(void)sigaddset(&only, number);
	(void)raise(number);
	(void)sigprocmask(SIG_UNBLOCK, &only, NULL);
	if (!on_screen) /* it did not stop us, or whoever continued us sent no SIGCONT that we heard */
		take();
}

static void on_continue(int number)
{
	(void)number;
	take();
}

static void take(void)
{
	if (is_in_front && !is_foreground()) {
		(void)raise(SIGTTOU);
		return; /* with a SIGCONT when we are in the foreground */
	}
	if (signal(SIGTSTP, on_signal) == SIG_IGN) /* nobody is there who would continue us */
		(void)signal(SIGTSTP, SIG_IGN);
	if (is_in_front)
		take_keys();
	on_screen = 1;
	(void)!write(STDOUT_FILENO, OTHER_SCREEN, sizeof(OTHER_SCREEN) - 1);
}

void ctl_screen_enter(struct ctl_screen *screen)
{
	sigset_t stops;

	(void)sigemptyset(&stops);
	(void)sigaddset(&stops, SIGTSTP);
	(void)sigaddset(&stops, SIGCONT);
	(void)sigprocmask(SIG_BLOCK, &stops, &screen->blocked);
	(void)sigdelset(&screen->blocked, SIGTSTP);
	(void)sigdelset(&screen->blocked, SIGCONT);
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	(void)signal(SIGCONT, on_continue);
	is_in_front = is_foreground();
	take();
	screen->keys = takes_keys ? STDIN_FILENO : -1;
}

void ctl_screen_leave(void)
{
	put_back();
}
