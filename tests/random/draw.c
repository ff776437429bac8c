/*
 * A sequence is drawn while it is played on the kernel: who sleeps and who has which descriptors is known then, so most calls have
 * sense. The same seed draws the same sequence, because the kernel does the same each time.
 *
 * The grammar below has a row for each form of a call, with letters behind @ for what is drawn, and how often it is to come among
 * streams and among datagrams. What has no one outcome on the kernel is not in it:
 *
 * - sizes are small, so that no buffer is ever full: what a full one does is a matter of sizes and of time;
 * - at most one byte is urgent: of two, the first may fall into the stream (docs/differences.md);
 * - nothing is given away while somebody sleeps: what is under way then comes with its sender's next call (docs/upgrade.md);
 * - nor is anything sent in pieces then, of which the sleeper may see one or more;
 * - each datagram sent is an edge for EPOLLOUT on the kernel, and not in a queue (docs/differences.md);
 * - where SO_RCVLOWAT was set nobody sleeps: the kernel does not wake one who wants less (docs/differences.md);
 * - one sleeps at a time: which of two that want the same is woken is nobody's promise, and somebody has to be awake.
 */
#include "draw.h"

#include <stdlib.h>
#include <string.h>

#define N_LINES_MIN 40
#define N_LINES_MORE 50

enum {
	SLEEPS = 1,
	URGENT = 2,
	GIVES = 4,
	TAKES = 8,
	FORKS = 16,
	DIES = 32,
	PIECES = 64,
	LOWAT = 128
};

static const struct row {
	const char *form;
	unsigned char streams, datagrams, traits;
} grammar[] = {
	{ "p@p send @s @n @F", 40, 30, 0 },
	{ "p@p write @s @n", 12, 8, 0 },
	{ "p@p writev @s @n", 8, 6, 0 },
	{ "p@p sendmsg @s @n @F", 8, 8, 0 },
	{ "p@p sendmmsg @s @n @F", 4, 8, PIECES },
	{ "p@p sendto @s @n @F @a", 0, 50, 0 },
	{ "p@p sendfile @s @n", 6, 2, PIECES },
	{ "p@p splice_in @s @n", 6, 0, PIECES },
	{ "p@p send_null @s @b -", 1, 1, 0 },
	{ "p@p send @s 3 OOB|NOSIGNAL", 2, 0, URGENT },
	{ "p@p recv @s @r @R", 44, 40, 0 },
	{ "p@p recvfrom @s @r @R", 4, 16, 0 },
	{ "p@p recvmsg @s @r @R", 10, 14, 0 },
	{ "p@p recvmmsg @s @r @R", 4, 10, 0 },
	{ "p@p recv @s @r @W", 10, 6, SLEEPS },
	{ "p@p read @s @r", 8, 4, SLEEPS },
	{ "p@p readv @s @r", 5, 3, SLEEPS },
	{ "p@p splice_out @s @r", 5, 0, SLEEPS },
	{ "p@p recv_null @s @b DONTWAIT", 2, 1, 0 },
	{ "p@p recv @s 1 OOB|DONTWAIT", 2, 1, 0 },
	{ "p@p poll @m @S @v", 24, 18, 0 },
	{ "p@p poll -1 @S @v", 4, 3, SLEEPS },
	{ "p@p select @m @S @v", 10, 8, 0 },
	{ "p@p select -1 @S @v", 2, 2, SLEEPS },
	{ "p@p epoll @x", 6, 5, 0 },
	{ "p@p epoll_add @e @s @E", 24, 20, 0 },
	{ "p@p epoll_mod @e @s @E", 12, 10, 0 },
	{ "p@p epoll_del @e @s -", 4, 4, 0 },
	{ "p@p epoll_wait @e @m", 40, 32, 0 },
	{ "p@p epoll_wait @e -1", 4, 3, SLEEPS },
	{ "p@p shutdown @s @h", 7, 2, 0 },
	{ "p@p close @s", 8, 4, 0 },
	{ "p@p close @e", 1, 1, 0 },
	{ "p@p reset @s", 3, 0, 0 },
	{ "p@p dup @s @x", 8, 6, 0 },
	{ "p@p dup @s @s", 2, 1, 0 },
	{ "p@p give @s", 8, 6, GIVES },
	{ "p@p take @x", 9, 7, TAKES },
	{ "p@p fork @f", 3, 3, FORKS },
	{ "p@p exec", 2, 2, 0 },
	{ "p@p exit", 1, 1, DIES },
	{ "kill p@p", 1, 1, DIES },
	{ "signal p@q", 6, 5, 0 },
	{ "p@p nonblock @s @b", 5, 4, 0 },
	{ "p@p flags @s", 2, 2, 0 },
	{ "p@p patience @s @t", 4, 3, 0 },
	{ "p@p lowat @s @w", 3, 0, LOWAT },
	{ "p@p error @s", 6, 8, 0 },
	{ "p@p unread @s", 8, 8, 0 },
	{ "p@p unsent @s", 4, 0, 0 },
	{ "p@p peer @s", 4, 5, 0 },
	{ "p@p mark @s", 2, 0, 0 },
	{ "p@p state @s", 3, 0, 0 },
	{ "p@p connect @s @a", 2, 12, 0 },
	{ "p@p disconnect @s", 1, 5, 0 },
};

/* Two connections between the players, and one of which player 0 has both ends. E is a port that nobody has. */
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

/* ---- numbers ------------------------------------------------------------------------------------------ */

static uint64_t next(struct drawer *d)
{
	uint64_t x = d->state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static unsigned below(struct drawer *d, unsigned n)
{
	return (unsigned)(next(d) % n);
}

#define ONE_OF(d, ...)                                                                             \
	({                                                                                         \
		static const char *const words_[] = { __VA_ARGS__ };                               \
		words_[below(d, sizeof(words_) / sizeof(words_[0]))];                              \
	})

void drawer_init(struct drawer *d, uint64_t seed, bool datagrams)
{
	*d = (struct drawer){ .state = seed * 2 + datagrams,
			      .datagrams = datagrams,
			      .n_players = 2 };
	d->n_lines = N_LINES_MIN + below(d, N_LINES_MORE);
}

/* ---- what stands for a letter ---------------------------------------------------------------------------- */

static unsigned size_of(struct drawer *d, bool is_send)
{
	unsigned kind = below(d, 20);

	if (kind < 13)
		return 1 + below(d, 24);
	if (kind < 15)
		return d->datagrams || !is_send ? 0 : 1;
	if (kind < 19)
		return 30 + below(d, 1000);
	return is_send && d->datagrams ? 1200 : 2000 + below(d, 6000);
}

/* A slot of one of these kinds; any letter where there is none, and now and then anyway. */
static char slot_with(struct drawer *d, const struct player *player, enum kind one, enum kind other)
{
	char found[N_SLOTS] = "";
	unsigned n = 0;

	for (unsigned i = 0; i < N_SLOTS; i++)
		if (player->kinds[i] == (char)one || player->kinds[i] == (char)other)
			found[n++] = (char)('a' + i);
	return n && below(d, 60) ? found[below(d, n)] : (char)('a' + below(d, 12));
}

static char socket_slot(struct drawer *d, const struct player *player)
{
	return slot_with(d, player, KIND_STREAM, KIND_DATAGRAM);
}

static char free_slot(struct drawer *d, const struct player *player)
{
	for (unsigned i = 0; i < N_SLOTS; i++)
		if (player->fds[i] < 0 && i != 'l' - 'a')
			return (char)('a' + i);
	return (char)('a' + below(d, N_SLOTS));
}

static void some_slots(struct drawer *d, const struct player *player, char *text)
{
	unsigned n = 1 + below(d, 4), n_text = 0;

	while (n--) {
		char slot = below(d, 8) ? socket_slot(d, player)
					: slot_with(d, player, KIND_EPOLL, KIND_LISTENER);

		if (!memchr(text, slot, n_text))
			text[n_text++] = slot;
	}
	text[n_text] = '\0';
}

static void epoll_events(struct drawer *d, char *text)
{
	const char *how;

	strcpy(text, ONE_OF(d, "IN", "IN", "OUT", "IN|OUT", "IN|RDHUP", "IN|OUT|RDHUP", "RDHUP",
			    "IN|PRI", "PRI"));
	how = ONE_OF(d, "", "", "|ET", "|ET", "|ONESHOT", "|ET|ONESHOT");
	if (!d->datagrams || !strstr(text, "OUT") || strcmp(how, "|ET") != 0)
		strcat(text, how);
}

static void put_number(char *text, unsigned n)
{
	(void)snprintf(text, 16, "%u", n);
}

static void put_letter(char *text, char letter)
{
	text[0] = letter;
	text[1] = '\0';
}

static void expand(struct drawer *d, const struct player *player, char letter, char *text)
{
	switch (letter) {
	case 's':
		put_letter(text, socket_slot(d, player));
		break;
	case 'e':
		put_letter(text, slot_with(d, player, KIND_EPOLL, KIND_EPOLL));
		break;
	case 'x':
		put_letter(text, free_slot(d, player));
		break;
	case 'S':
		some_slots(d, player, text);
		break;
	case 'n':
		put_number(text, size_of(d, true));
		break;
	case 'r':
		put_number(text, size_of(d, false));
		break;
	case 'b':
		put_number(text, below(d, 2));
		break;
	case 'k':
		put_number(text, below(d, 4));
		break;
	case 'w':
		put_number(text, 1 + below(d, 20));
		break;
	case 't':
		strcpy(text, ONE_OF(d, "0", "0", "2", "5"));
		break;
	case 'm':
		strcpy(text, ONE_OF(d, "0", "0", "0", "0", "3"));
		break;
	case 'h':
		strcpy(text, ONE_OF(d, "WR", "WR", "RD", "RDWR"));
		break;
	case 'a':
		put_letter(text, (char)('A' + below(d, d->datagrams ? 5 : 1) +
					(d->datagrams || below(d, 2) ? 0 : 4)));
		break;
	case 'F':
		strcpy(text, ONE_OF(d, "NOSIGNAL", "NOSIGNAL", "NOSIGNAL|DONTWAIT", "-"));
		break;
	case 'R':
		strcpy(text, ONE_OF(d, "DONTWAIT", "DONTWAIT", "DONTWAIT", "PEEK|DONTWAIT",
				    "TRUNC|DONTWAIT", "PEEK|TRUNC|DONTWAIT", "WAITALL|DONTWAIT",
				    "WAITALL|PEEK|DONTWAIT"));
		break;
	case 'W':
		strcpy(text, ONE_OF(d, "-", "-", "WAITALL", "PEEK", "TRUNC", "WAITALL|PEEK"));
		break;
	case 'v':
		strcpy(text, ONE_OF(d, "IN", "IN", "OUT", "IN|OUT", "IN|RDHUP", "IN|OUT|PRI|RDHUP",
				    "PRI", "RDHUP"));
		break;
	case 'E':
		epoll_events(d, text);
		break;
	case 'f':
		put_number(text, d->n_players);
		break;
	default:
		abort();
	}
}

/* @p is the player of the line, @q any one. */
static void write_line(struct drawer *d, const struct stage *stage, const char *form, unsigned who,
		       char *line)
{
	char *to = line;

	for (; *form; form++) {
		if (*form != '@') {
			*to++ = *form;
			continue;
		}
		form++;
		if (*form == 'p' || *form == 'q')
			put_number(to, *form == 'p' ? who : below(d, d->n_players));
		else
			expand(d, &stage->world->players[who], *form, to);
		to += strlen(to);
	}
	*to = '\0';
}

/* ---- a row ------------------------------------------------------------------------------------------------- */

static unsigned list_ready(const struct drawer *d, const struct stage *stage,
			   unsigned ready[N_PLAYERS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_players; i++)
		if (stage->world->players[i].pid && !stage->asleep[i])
			ready[n++] = i;
	return n;
}

static bool somebody_sleeps(const struct stage *stage)
{
	for (unsigned i = 0; i < N_PLAYERS; i++)
		if (stage->asleep[i])
			return true;
	return false;
}

static bool fits(const struct drawer *d, const struct stage *stage, const struct row *row,
		 unsigned n_ready)
{
	if (row->traits & SLEEPS && (n_ready < 2 || somebody_sleeps(stage)))
		return false;
	if (row->traits & URGENT && d->has_urgent)
		return false;
	if (row->traits & (GIVES | TAKES | PIECES | LOWAT) && somebody_sleeps(stage))
		return false;
	if (row->traits & TAKES && !d->n_in_hat)
		return false;
	if (row->traits & FORKS && d->n_players == N_PLAYERS)
		return false;
	if (row->traits & SLEEPS && d->has_lowat)
		return false;
	return !(row->traits & DIES) || (!d->has_death && d->n_drawn * 2 > d->n_lines);
}

static void note(struct drawer *d, const struct row *row)
{
	d->has_urgent |= (row->traits & URGENT) != 0;
	d->has_lowat |= (row->traits & LOWAT) != 0;
	d->has_death |= (row->traits & DIES) != 0;
	d->n_players += (row->traits & FORKS) != 0;
	d->n_in_hat += (row->traits & GIVES) != 0;
	d->n_in_hat -= (row->traits & TAKES) != 0;
}

static const struct row *draw_row(struct drawer *d, const struct stage *stage, unsigned n_ready)
{
	const size_t n_rows = sizeof(grammar) / sizeof(grammar[0]);
	unsigned sum = 0, at;

	for (size_t i = 0; i < n_rows; i++)
		sum += d->datagrams ? grammar[i].datagrams : grammar[i].streams;
	for (;;) {
		const struct row *row = grammar;

		for (at = below(d, sum);; row++) {
			unsigned weight = d->datagrams ? row->datagrams : row->streams;

			if (at < weight)
				break;
			at -= weight;
		}
		if (fits(d, stage, row, n_ready))
			return row;
	}
}

bool draw_line(struct drawer *d, const struct stage *stage, char line[CALL_MAX])
{
	const char *const *prelude = d->datagrams ? prelude_datagrams : prelude_streams;
	size_t n_prelude = d->datagrams ? sizeof(prelude_datagrams) / sizeof(prelude_datagrams[0])
					: sizeof(prelude_streams) / sizeof(prelude_streams[0]);
	unsigned ready[N_PLAYERS], n_ready = list_ready(d, stage, ready), who;
	const struct row *row;

	if (d->n_drawn++ < n_prelude) {
		write_line(d, stage, prelude[d->n_drawn - 1], 0, line);
		return true;
	}
	if (!n_ready) {
		(void)snprintf(line, CALL_MAX, "signal p%u", below(d, d->n_players));
		return d->n_drawn < d->n_lines * 2;
	}
	who = ready[below(d, n_ready)];
	row = draw_row(d, stage, n_ready);
	write_line(d, stage, row->form, who, line);
	note(d, row);
	return d->n_drawn < d->n_lines;
}
