/*
 * The grammar has a row for each form of a call, and how often it is to come among streams, among
 * datagrams, and where both are mixed with what processes and threads do with them. What has no one
 * outcome on the kernel is not in it:
 *
 * - sizes are small, so that no buffer is ever full: what a full one does is a matter of sizes and
 *   of time;
 * - at most one byte is urgent: of two, the first may fall into the stream (docs/differences.md);
 * - nothing is given away while somebody sleeps: what is under way then comes with its sender's
 *   next call (docs/upgrade.md);
 * - nor is anything sent in pieces then, of which the sleeper may see one or more;
 * - each datagram sent is an edge for EPOLLOUT on the kernel, and not in a queue
 *   (docs/differences.md);
 * - where SO_RCVLOWAT was set nobody sleeps: the kernel does not wake one who wants less
 *   (docs/differences.md);
 * - one sleeps at a time: which of two that want the same is woken is nobody's promise, and
 *   somebody has to be awake;
 * - under a poll, a select or a splice of another thread nothing is closed (docs/differences.md);
 * - a recvmmsg that sleeps waits for one message: interrupted behind that it leaves errno 512
 *   (docs/differences.md);
 * - options for which a connection returns to the kernel, which cannot give back what a dead peer
 *   has sent, are for UDP sockets only;
 * - who waits for bytes is not stopped (docs/differences.md);
 * - nobody jumps out of a call under which something was closed, nor is it interrupted otherwise:
 *   it may begin anew with what has its number by then (docs/differences.md).
 */
#include "grammar.h"

const struct row grammar[] = {
	{ "p@p send @s @n @F", { 40, 30, 40 }, 0 },
	{ "p@p write @s @n", { 12, 8, 12 }, 0 },
	{ "p@p writev @s @n", { 8, 6, 8 }, 0 },
	{ "p@p sendmsg @s @n @F", { 8, 8, 8 }, 0 },
	{ "p@p sendmmsg @s @n @F", { 4, 8, 8 }, PIECES },
	{ "p@p sendto @s @n @F @a", { 0, 50, 0 }, 0 },
	{ "p@p sendfile @s @n", { 6, 2, 6 }, PIECES },
	{ "p@p splice_in @s @n", { 6, 0, 6 }, PIECES },
	{ "p@p send_null @s @b -", { 1, 1, 1 }, 0 },
	{ "p@p send @s 3 OOB|NOSIGNAL", { 2, 0, 2 }, URGENT },
	{ "p@p recv @s @r @R", { 44, 40, 44 }, 0 },
	{ "p@p recvfrom @s @r @R", { 4, 16, 16 }, 0 },
	{ "p@p recvmsg @s @r @R", { 10, 14, 14 }, 0 },
	{ "p@p recvmmsg @s @r @R", { 4, 10, 10 }, 0 },
	{ "p@p recv @s @r @W", { 10, 6, 10 }, SLEEPS },
	{ "p@p read @s @r", { 8, 4, 8 }, SLEEPS },
	{ "p@p readv @s @r", { 5, 3, 5 }, SLEEPS },
	{ "p@p splice_out @s @r", { 5, 0, 5 }, SLEEPS | STEPS },
	{ "p@p recv_null @s @b DONTWAIT", { 2, 1, 2 }, 0 },
	{ "p@p recv @s 1 OOB|DONTWAIT", { 2, 1, 2 }, 0 },
	{ "p@p poll @m @S @v", { 24, 18, 24 }, 0 },
	{ "p@p poll -1 @S @v", { 4, 3, 4 }, SLEEPS | STEPS | BEARS_STOP },
	{ "p@p select @m @S @v", { 10, 8, 10 }, 0 },
	{ "p@p select -1 @S @v", { 2, 2, 2 }, SLEEPS | STEPS | BEARS_STOP },
	{ "p@p epoll @x", { 6, 5, 6 }, 0 },
	{ "p@p epoll_add @e @s @E", { 24, 20, 24 }, 0 },
	{ "p@p epoll_mod @e @s @E", { 12, 10, 12 }, 0 },
	{ "p@p epoll_del @e @s -", { 4, 4, 4 }, 0 },
	{ "p@p epoll_wait @e @m", { 40, 32, 40 }, 0 },
	{ "p@p epoll_wait @e -1", { 4, 3, 4 }, SLEEPS | BEARS_STOP },
	{ "p@p shutdown @s @h", { 7, 2, 7 }, 0 },
	{ "p@p close @s", { 8, 4, 8 }, CLOSES },
	{ "p@p close @e", { 1, 1, 1 }, CLOSES },
	{ "p@p reset @s", { 3, 0, 3 }, 0 },
	{ "p@p dup @s @x", { 8, 6, 8 }, 0 },
	{ "p@p dup @s @s", { 2, 1, 2 }, CLOSES },
	{ "p@p give @s", { 8, 6, 8 }, GIVES },
	{ "p@p take @x", { 9, 7, 9 }, TAKES | CLOSES },
	{ "p@p fork @f", { 3, 3, 3 }, FORKS },
	{ "p@p exec", { 2, 2, 2 }, ALONE },
	{ "p@p exit", { 1, 1, 1 }, DIES },
	{ "kill p@p", { 1, 1, 1 }, DIES },
	{ "signal p@q", { 6, 5, 4 }, 0 },
	{ "p@p nonblock @s @b", { 5, 4, 5 }, 0 },
	{ "p@p flags @s", { 2, 2, 2 }, 0 },
	{ "p@p patience @s @t", { 4, 3, 4 }, 0 },
	{ "p@p lowat @s @w", { 3, 0, 1 }, LOWAT },
	{ "p@p error @s", { 6, 8, 8 }, 0 },
	{ "p@p unread @s", { 8, 8, 8 }, 0 },
	{ "p@p unsent @s", { 4, 0, 4 }, 0 },
	{ "p@p peer @s", { 4, 5, 5 }, 0 },
	{ "p@p mark @s", { 2, 0, 2 }, 0 },
	{ "p@p state @s", { 3, 0, 3 }, 0 },
	{ "p@p connect @s @a", { 2, 12, 0 }, 0 },
	{ "p@p disconnect @s", { 1, 5, 5 }, 0 },
	{ "p@p sendto @u @n @F @U", { 0, 0, 24 }, 0 },
	{ "p@p connect @u @U", { 0, 0, 6 }, 0 },
	{ "p@p connect @s @a", { 0, 0, 2 }, 0 },
	{ "p@p connect @x @a", { 0, 0, 3 }, OPENS },
	{ "p@p begin @x @a", { 0, 0, 4 }, OPENS },
	{ "p@p accept @l @x @b", { 0, 0, 6 }, SLEEPS | ACCEPTS },
	{ "join", { 0, 0, 10 }, JOINS },
	{ "p@p shutdown @l @h", { 0, 0, 1 }, 0 },
	{ "p@p give @l", { 0, 0, 1 }, GIVES },
	{ "p@p poll @m @l IN", { 0, 0, 2 }, 0 },
	{ "p@p epoll_add @e @l @E", { 0, 0, 3 }, 0 },
	{ "p@p epoll_add @e @e IN", { 0, 0, 3 }, 0 },
	{ "p@p thread @f", { 0, 0, 4 }, FORKS },
	{ "p@p cancel @z", { 0, 0, 8 }, CANCELS },
	{ "jump p@z", { 0, 0, 8 }, WAKES | JUMPS },
	{ "signal p@z", { 0, 0, 3 }, WAKES },
	{ "p@p pwritev2 @s @n", { 0, 0, 3 }, 0 },
	{ "p@p preadv2 @s @r", { 0, 0, 4 }, 0 },
	{ "p@p more @s @n", { 0, 0, 4 }, PIECES },
	{ "p@p corked @s @n", { 0, 0, 3 }, PIECES },
	{ "p@p print @s @n", { 0, 0, 3 }, PIECES },
	{ "p@p stream @s @n", { 0, 0, 3 }, LEAVES },
	{ "p@p spawn @s @b", { 0, 0, 3 }, LEAVES },
	{ "p@p in_line @s @b", { 0, 0, 2 }, 0 },
	{ "p@p peek_at @u @o", { 0, 0, 2 }, LEAVES },
	{ "p@p told @s @T @b", { 0, 0, 6 }, LEAVES },
	{ "p@p told @u stamp @b", { 0, 0, 3 }, LEAVES },
	{ "p@p odd @s @O", { 0, 0, 6 }, 0 },
	{ "p@p cloexec @s @b", { 0, 0, 3 }, 0 },
	{ "p@p dup @e @x", { 0, 0, 2 }, 0 },
	{ "p@p exec plain", { 0, 0, 1 }, ALONE | LEAVES },
	{ "p@p masked_ppoll @s", { 0, 0, 2 }, 0 },
	{ "p@p masked_pselect @s", { 0, 0, 2 }, 0 },
	{ "p@p masked_epoll @e", { 0, 0, 2 }, 0 },
	{ "nudge p@z", { 0, 0, 8 }, WAKES },
	{ "prod p@z @Z", { 0, 0, 10 }, WAKES },
	{ "strip p@z @Z", { 0, 0, 5 }, WAKES | CLOSES },
	{ "p@p borrow @s", { 0, 0, 4 }, 0 },
	{ "p@p lowest", { 0, 0, 4 }, 0 },
	{ "p@p recvmmsg @s @r WAITFORONE", { 0, 0, 3 }, SLEEPS },
	{ "p@p sendmmsg_to @u @n @U @U", { 0, 0, 6 }, PIECES },
	{ "p@p send @s @n @G", { 0, 0, 4 }, 0 },
	{ "p@p recv @s @r @Q", { 0, 0, 4 }, 0 },
	{ "p@p options @s", { 0, 0, 4 }, 0 },
	{ "p@p bell @x", { 0, 0, 0, 10 }, 0 },
	{ "p@p toll @y", { 0, 0, 0, 16 }, 0 },
	{ "p@p hush @y", { 0, 0, 0, 10 }, 0 },
	{ "p@p poll @m @S@y @v", { 0, 0, 0, 12 }, 0 },
	{ "p@p poll @m @S @V", { 0, 0, 0, 12 }, 0 },
	{ "p@p poll -1 @S@y @v", { 0, 0, 0, 8 }, SLEEPS | STEPS | BEARS_STOP },
	{ "p@p poll -1 @S @V", { 0, 0, 0, 6 }, SLEEPS | STEPS | BEARS_STOP },
	{ "p@p select -1 @S@y IN", { 0, 0, 0, 6 }, SLEEPS | STEPS | BEARS_STOP },
	{ "p@p epoll_add @e @y @E", { 0, 0, 0, 16 }, 0 },
	{ "p@p epoll_add @e @s @X", { 0, 0, 0, 20 }, 0 },
	{ "p@p epoll_add @e @e @E", { 0, 0, 0, 12 }, 0 },
	{ "p@p epoll_mod @e @s @X", { 0, 0, 0, 10 }, 0 },
	{ "p@p epoll_wait @e -1", { 0, 0, 0, 12 }, SLEEPS | BEARS_STOP },
	{ "pause p@z", { 0, 0, 0, 32 }, WAKES | STOPS },
	{ "p@p twice @s @s", { 0, 0, 0, 10 }, 0 },
	{ "p@p wonder @s @N", { 0, 0, 0, 8 }, 0 },
	{ "p@p wonder @e @N", { 0, 0, 0, 6 }, 0 },
	{ "p@p switch @s @N", { 0, 0, 0, 12 }, 0 },
	{ "p@p copy @s @x @b", { 0, 0, 0, 8 }, 0 },
	{ "p@p copy @s @s @b", { 0, 0, 0, 6 }, CLOSES },
	{ "p@p copy @s @e @b", { 0, 0, 0, 2 }, CLOSES },
	{ "p@p sweep @s", { 0, 0, 0, 6 }, CLOSES },
	{ "p@p give_both @s @s", { 0, 0, 0, 8 }, GIVES },
	{ "p@p peer_in @b", { 0, 0, 0, 10 }, CLOSES },
	{ "p@p spill @b", { 0, 0, 0, 4 }, TAKES | CLOSES },
	{ "p@p parts @s @n", { 0, 0, 0, 12 }, 0 },
	{ "p@p nothing @s", { 0, 0, 0, 6 }, 0 },
	{ "p@p enclosed @s @n @N", { 0, 0, 0, 12 }, 0 },
	{ "p@p named @s @n @a", { 0, 0, 0, 6 }, 0 },
	{ "p@p misnamed @s @n @N", { 0, 0, 0, 6 }, 0 },
	{ "p@p clipped @s @r", { 0, 0, 0, 10 }, 0 },
	{ "p@p timed @s @r @N", { 0, 0, 0, 10 }, 0 },
	{ "p@p into @s @r @b", { 0, 0, 0, 10 }, 0 },
	{ "p@p relay @s @n @s", { 0, 0, 0, 10 }, PIECES },
	{ "p@p own @s", { 0, 0, 0, 6 }, 0 },
	{ "p@p same @s @s", { 0, 0, 0, 6 }, 0 },
	{ "p@p linger @s @b", { 0, 0, 0, 8 }, 0 },
	{ "p@p option @s @n", { 0, 0, 0, 12 }, 0 },
	{ "p@p choose @s @n @b", { 0, 0, 0, 12 }, 0 },
	{ "p@p misuse @s @N", { 0, 0, 0, 12 }, 0 },
	{ "p@p peek_at @s @o", { 0, 0, 0, 4 }, LEAVES | SPARES },
	{ "p@p told @s stamp @b", { 0, 0, 0, 4 }, LEAVES | SPARES },
	{ "p@p close @l", { 0, 0, 0, 4 }, CLOSES },
	{ "p@p anew @x A", { 0, 0, 0, 24 }, LISTENS },
	{ "p@p anew @x @U", { 0, 0, 0, 8 }, 0 },
};

const unsigned n_grammar = sizeof(grammar) / sizeof(grammar[0]);

/* Two connections between the players, and one of which player 0 has both ends. E is a port that
 * nobody has. */
static const char *const prelude_streams[] = {
	"p0 vacate E",		 "p0 listen l A",	  "p1 connect a A",
	"p0 accept l a",	 "p1 connect b A",	  "p0 accept l b",
	"p0 connect c A",	 "p0 accept l d",	  "warm p0 a - p1 a - @k",
	"warm p0 b - p1 b - @k", "warm p0 c - p0 d - @k", "p0 nonblock a @b",
	"p1 nonblock a @b",
};

/* Two sockets that are connected to each other, and two that are not. */
static const char *const prelude_datagrams[] = {
	"p0 vacate E u",	 "p0 bound a A",     "p1 bound a B",	 "p0 bound b C",
	"p1 bound b D",		 "p0 connect a B",   "p1 connect a A",	 "warm p0 a A p1 a B @k",
	"warm p0 b C p1 b D @k", "p0 nonblock a @b", "p1 nonblock b @b",
};

/* A connection between the players, one of which player 0 has both ends, two UDP sockets of which
 * one is connected, of either family; and a thread beside one of the players. E and H are ports
 * that nobody has. */
static const char *const prelude_mixed[] = {
	"p0 vacate E",		 "p0 vacate H u",	  "p0 listen l A @4",
	"p1 connect a A",	 "p0 accept l a",	  "p0 connect c A",
	"p0 accept l d",	 "p0 bound u F @4",	  "p1 bound v G @4",
	"p1 connect v F",	 "warm p0 a - p1 a - @k", "warm p0 c - p0 d - @k",
	"warm p0 u G p1 v - @k", "p0 nonblock a @b",	  "p1 nonblock v @b",
	"p@b thread 2",
};

const struct prelude preludes[N_DRAWS] = {
	{ prelude_streams, sizeof(prelude_streams) / sizeof(prelude_streams[0]) },
	{ prelude_datagrams, sizeof(prelude_datagrams) / sizeof(prelude_datagrams[0]) },
	{ prelude_mixed, sizeof(prelude_mixed) / sizeof(prelude_mixed[0]) },
	{ prelude_mixed, sizeof(prelude_mixed) / sizeof(prelude_mixed[0]) },
};
