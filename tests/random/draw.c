/*
 * A sequence is drawn while it is played on the kernel: who sleeps and who has which descriptors is
 * known then, so most calls have sense. The same seed draws the same sequence, because the kernel
 * does the same each time. What a line may be says grammar.c; here a row of it is chosen that fits,
 * and its letters are replaced.
 */
#include "grammar.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define N_LINES_MIN 40
#define N_LINES_MORE 50
#define N_PLAYERS_BEFORE 4 /* of streams and datagrams: more would draw other sequences */
#define N_UNACCEPTED_MAX 6
#define N_ODD 12
#define N_ODDER 12

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t next(struct drawer *d)
{
	uint64_t x = d->state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static unsigned below(struct drawer *d, unsigned n)
{
	assert(n > 0);
	return (unsigned)(next(d) % n);
}

#define ONE_OF(d, ...)                                                                             \
	({                                                                                         \
		static const char *const words_[] = { __VA_ARGS__ };                               \
		words_[below(d, sizeof(words_) / sizeof(words_[0]))];                              \
	})

static bool is_mixed(const struct drawer *d)
{
	return d->draw == DRAW_MIXED || d->draw == DRAW_WIDE;
}

void drawer_init(struct drawer *d, uint64_t seed, enum draw draw)
{
	*d = (struct drawer){ .state = seed * 2 + draw,
			      .draw = draw,
			      .n_players = draw >= DRAW_MIXED ? 3 : 2,
			      .accepting = -1 };
	d->n_lines = N_LINES_MIN + below(d, N_LINES_MORE);
	if (draw == DRAW_WIDE)
		d->n_lines *= 2;
	if (is_mixed(d))
		d->family = below(d, 4);
}

/* ---- what stands for a letter ---------------------------------------------------------------- */

static unsigned size_of(struct drawer *d, bool is_send)
{
	unsigned kind = below(d, 20);

	if (kind < 13)
		return 1 + below(d, 24);
	if (kind < 15)
		return d->draw == DRAW_DATAGRAMS || !is_send ? 0 : 1;
	if (kind < 19)
		return 30 + below(d, 1000);
	return is_send && d->draw != DRAW_STREAMS ? 1200 : 2000 + below(d, 6000);
}

/* A slot of one of these kinds; any letter where there is none, and now and then anyway. */
static char slot_with(struct drawer *d, const struct table *table, enum kind one, enum kind other)
{
	char found[N_SLOTS] = "";
	unsigned n = 0;

	for (unsigned i = 0; i < N_SLOTS; i++)
		if (table->kinds[i] == (char)one || table->kinds[i] == (char)other)
			found[n++] = (char)('a' + i);
	return n && below(d, 60) ? found[below(d, n)] : (char)('a' + below(d, 12));
}

static char socket_slot(struct drawer *d, const struct table *table)
{
	return slot_with(d, table, KIND_STREAM, KIND_DATAGRAM);
}

static char free_slot(struct drawer *d, const struct table *table)
{
	for (unsigned i = 0; i < N_SLOTS; i++)
		if (table->fds[i] < 0 && i != 'l' - 'a')
			return (char)('a' + i);
	return (char)('a' + below(d, N_SLOTS));
}

static void some_slots(struct drawer *d, const struct table *table, char *text)
{
	unsigned n = 1 + below(d, 4), n_text = 0;

	while (n--) {
		char slot = below(d, 8) ? socket_slot(d, table)
					: slot_with(d, table, KIND_EPOLL, KIND_LISTENER);

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
	if (d->draw == DRAW_STREAMS || !strstr(text, "OUT") || strcmp(how, "|ET") != 0)
		strcat(text, how);
}

static void put_letter(char *text, char letter)
{
	text[0] = letter;
	text[1] = '\0';
}

/* Letters that stand for one of some words. */
static const struct choice {
	char letter;
	const char *words[9];
} choices[] = {
	{ 't', { "0", "0", "2", "5" } },
	{ 'm', { "0", "0", "0", "0", "3" } },
	{ 'h', { "WR", "WR", "RD", "RDWR" } },
	{ 'o', { "-1", "0", "3" } },
	{ 'T', { "inq", "address", "hops" } },
	{ 'F', { "NOSIGNAL", "NOSIGNAL", "NOSIGNAL|DONTWAIT", "-" } },
	{ 'R',
	  { "DONTWAIT", "DONTWAIT", "DONTWAIT", "PEEK|DONTWAIT", "TRUNC|DONTWAIT",
	    "PEEK|TRUNC|DONTWAIT", "WAITALL|DONTWAIT", "WAITALL|PEEK|DONTWAIT" } },
	{ 'W', { "-", "-", "WAITALL", "PEEK", "TRUNC", "WAITALL|PEEK" } },
	{ 'v', { "IN", "IN", "OUT", "IN|OUT", "IN|RDHUP", "IN|OUT|PRI|RDHUP", "PRI", "RDHUP" } },
	{ 'U', { "F", "F", "G", "G", "H" } },
	{ 'G', { "NOSIGNAL|EOR", "NOSIGNAL|CONFIRM", "NOSIGNAL|DONTROUTE", "NOSIGNAL|PEEK" } },
	{ 'V',
	  { "-", "RDNORM", "WRNORM", "RDBAND", "RDBAND|IN", "RDNORM|WRNORM|RDHUP", "HUP|ERR" } },
	{ 'X',
	  { "IN|EXCLUSIVE", "IN|OUT|EXCLUSIVE|ET", "-", "RDNORM", "RDNORM|WRNORM|ET", "RDBAND|ET",
	    "IN|EXCLUSIVE|ONESHOT", "HUP|ERR|ET" } },
	{ 'Q', { "OOB|PEEK|DONTWAIT", "ERRQUEUE|DONTWAIT", "WAITALL|TRUNC|DONTWAIT" } },
};

static bool expand_choice(struct drawer *d, char letter, char *text)
{
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		unsigned n = 0;

		if (choices[i].letter != letter)
			continue;
		while (choices[i].words[n])
			n++;
		strcpy(text, choices[i].words[below(d, n)]);
		return true;
	}
	return false;
}

static bool expand_slot(struct drawer *d, const struct table *table, char letter, char *text)
{
	switch (letter) {
	case 's':
		put_letter(text, socket_slot(d, table));
		return true;
	case 'u':
		put_letter(text, slot_with(d, table, KIND_DATAGRAM, KIND_DATAGRAM));
		return true;
	case 'l':
		put_letter(text, slot_with(d, table, KIND_LISTENER, KIND_LISTENER));
		return true;
	case 'y':
		put_letter(text, slot_with(d, table, KIND_BELL, KIND_BELL));
		return true;
	case 'e':
		put_letter(text, slot_with(d, table, KIND_EPOLL, KIND_EPOLL));
		return true;
	case 'x':
		put_letter(text, free_slot(d, table));
		return true;
	case 'S':
		some_slots(d, table, text);
		return true;
	default:
		return false;
	}
}

static void expand_number(struct drawer *d, char letter, char *text)
{
	unsigned n = letter == 'n'   ? size_of(d, true)
		     : letter == 'r' ? size_of(d, false)
		     : letter == 'b' ? below(d, 2)
		     : letter == 'k' ? below(d, 4)
		     : letter == 'w' ? 1 + below(d, 20)
		     : letter == 'O' ? below(d, N_ODD)
		     : letter == 'N' ? below(d, N_ODDER)
		     : letter == 'f' ? d->n_players
				     : (unsigned)d->sleeper;

	(void)snprintf(text, 16, "%u", n);
}

static void expand(struct drawer *d, const struct table *table, char letter, char *text)
{
	static const char *const families[] = { "4", "4", "6", "46" };
	bool datagrams = d->draw == DRAW_DATAGRAMS;

	if (expand_choice(d, letter, text) || expand_slot(d, table, letter, text))
		return;
	if (letter == 'a')
		put_letter(text, (char)('A' + below(d, datagrams ? 5 : 1) +
					(datagrams || below(d, 2) ? 0 : 4)));
	else if (letter == 'E')
		epoll_events(d, text);
	else if (letter == '4')
		strcpy(text, families[d->family]);
	else
		expand_number(d, letter, text);
}

/* @p is the player of the line, @q any one, @z the one who sleeps, @Z a socket of that one. */
static void write_line(struct drawer *d, const struct stage *stage, const char *form, unsigned who,
		       char *line)
{
	char *to = line;

	for (; *form; form++) {
		unsigned owner = who;
		char letter;

		if (*form != '@') {
			*to++ = *form;
			continue;
		}
		letter = *++form;
		if (letter == 'Z')
			owner = (unsigned)d->sleeper;
		if (letter == 'p' || letter == 'q')
			(void)snprintf(to, 16, "%u", letter == 'p' ? who : below(d, d->n_players));
		else
			expand(d, table_of(stage->world, &stage->world->players[owner]),
			       letter == 'Z' ? 's' : letter, to);
		to += strlen(to);
	}
	*to = '\0';
}

/* ---- a row ----------------------------------------------------------------------------------- */

static unsigned list_ready(const struct drawer *d, const struct stage *stage,
			   unsigned ready[N_PLAYERS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_players; i++)
		if (stage->world->players[i].pid && !stage->asleep[i])
			ready[n++] = i;
	return n;
}

static int find_sleeper(const struct stage *stage)
{
	for (int i = 0; i < N_PLAYERS; i++)
		if (stage->asleep[i])
			return i;
	return -1;
}

static bool has_mates(const struct stage *stage, unsigned who)
{
	const struct player *players = stage->world->players;

	for (unsigned i = 0; i < N_PLAYERS; i++)
		if (i != who && players[i].pid && players[i].table == players[who].table)
			return true;
	return false;
}

/* Who has a socket that listens, and is awake; -1: nobody. */
static int find_listening(const struct stage *stage, char *ret_slot)
{
	for (int i = 0; i < N_PLAYERS; i++) {
		const struct player *player = &stage->world->players[i];
		const char *kinds = table_of(stage->world, player)->kinds;
		const char *found = memchr(kinds, KIND_LISTENER, N_SLOTS);

		if (!player->pid || stage->asleep[i] || !found)
			continue;
		*ret_slot = (char)('a' + (found - kinds));
		return i;
	}
	return -1;
}

/* Beside one who sleeps. */
static bool fits_sleeper(const struct drawer *d, const struct stage *stage, const struct row *row,
			 unsigned who)
{
	const struct player *players = stage->world->players;
	unsigned sleeper = (unsigned)d->sleeper;
	bool is_mate = players[sleeper].table == players[who].table;

	if (row->traits & (SLEEPS | GIVES | TAKES | PIECES | LOWAT | LEAVES | JOINS))
		return false;
	if (row->traits & CLOSES && is_mate && d->is_stepwise)
		return false;
	if (row->traits & STOPS && !d->bears_stop)
		return false;
	if (row->traits & JUMPS && d->is_closed_under)
		return false;
	/* Those of mixed are to stay what they were. */
	if (row->traits & WAKES && d->is_closed_under && d->draw == DRAW_WIDE)
		return false;
	return !(row->traits & CANCELS) || (is_mate && players[sleeper].table != sleeper);
}

static bool fits(const struct drawer *d, const struct stage *stage, const struct row *row,
		 unsigned n_ready, unsigned who)
{
	unsigned n_max = is_mixed(d) ? N_PLAYERS : N_PLAYERS_BEFORE;
	char slot;

	if (d->sleeper < 0 ? row->traits & (WAKES | CANCELS) : !fits_sleeper(d, stage, row, who))
		return false;
	if (row->traits & SLEEPS && (n_ready < 2 || d->has_lowat))
		return false;
	if (row->traits & URGENT && d->has_urgent)
		return false;
	if (row->traits & TAKES && !d->n_in_hat)
		return false;
	if (row->traits & FORKS && d->n_players == n_max)
		return false;
	if (row->traits & ALONE && has_mates(stage, who))
		return false;
	if (row->traits & OPENS && d->n_unaccepted == N_UNACCEPTED_MAX)
		return false;
	if (row->traits & SPARES && d->has_death)
		return false;
	if (row->traits & LISTENS && find_listening(stage, &slot) >= 0)
		return false;
	if (row->traits & JOINS && (d->n_unaccepted || find_listening(stage, &slot) < 0))
		return false;
	return !(row->traits & DIES) || (!d->has_death && d->n_drawn * 2 > d->n_lines);
}

static void note(struct drawer *d, const struct row *row, unsigned who)
{
	d->has_urgent |= (row->traits & URGENT) != 0;
	d->has_lowat |= (row->traits & LOWAT) != 0;
	d->has_death |= (row->traits & (DIES | SPARES)) != 0;
	d->n_players += (row->traits & FORKS) != 0;
	d->n_in_hat += (row->traits & GIVES) != 0;
	d->n_in_hat -= (row->traits & TAKES) != 0;
	d->n_unaccepted += (row->traits & OPENS) != 0;
	if (row->traits & ACCEPTS)
		d->accepting = (int)who;
	if (row->traits & SLEEPS) {
		d->is_stepwise = (row->traits & STEPS) != 0;
		d->bears_stop = (row->traits & BEARS_STOP) != 0;
	}
	d->is_closed_under = !(row->traits & SLEEPS) &&
			     (d->is_closed_under || row->traits & CLOSES);
}

static unsigned weight_of(const struct drawer *d, const struct row *row)
{
	return row->weights[d->draw] + (d->draw == DRAW_WIDE ? row->weights[DRAW_MIXED] : 0u);
}

static const struct row *draw_row(struct drawer *d, const struct stage *stage, unsigned n_ready,
				  unsigned who)
{
	unsigned sum = 0, at;

	for (size_t i = 0; i < n_grammar; i++)
		sum += weight_of(d, &grammar[i]);
	for (;;) {
		const struct row *row = grammar;

		for (at = below(d, sum);; row++) {
			unsigned weight = weight_of(d, row);

			if (at < weight)
				break;
			at -= weight;
		}
		if (fits(d, stage, row, n_ready, who))
			return row;
	}
}

/* A new connection, and what is exchanged through it before anything else: three lines. */
static void draw_join(struct drawer *d, const struct stage *stage, unsigned who)
{
	char slot, to, from;
	int other = find_listening(stage, &slot);
	const struct world *world = stage->world;

	from = free_slot(d, table_of(world, &world->players[who]));
	to = free_slot(d, table_of(world, &world->players[other]));
	if (to == from && world->players[who].table == world->players[other].table)
		to = (char)('a' + (to - 'a' + 1) % N_SLOTS);
	(void)snprintf(d->pending[2], CALL_MAX, "p%u connect %c A", who, from);
	(void)snprintf(d->pending[1], CALL_MAX, "p%d accept %c %c", other, slot, to);
	(void)snprintf(d->pending[0], CALL_MAX, "warm p%u %c - p%d %c - %u", who, from, other, to,
		       below(d, 4));
	d->n_pending = N_PENDING_LINES;
}

/* Whether the line before has accepted a connection. */
static void note_accepted(struct drawer *d, const struct stage *stage)
{
	if (d->accepting >= 0 && d->n_unaccepted &&
	    strcmp(stage->world->players[d->accepting].answer, " 0") == 0)
		d->n_unaccepted--;
	d->accepting = -1;
}

static bool draw_grammar(struct drawer *d, const struct stage *stage, char line[CALL_MAX])
{
	unsigned ready[N_PLAYERS], n_ready = list_ready(d, stage, ready), who;
	const struct row *row;

	if (!n_ready) {
		(void)snprintf(line, CALL_MAX, "signal p%u", below(d, d->n_players));
		return d->n_drawn < d->n_lines * 2;
	}
	who = ready[below(d, n_ready)];
	row = draw_row(d, stage, n_ready, who);
	if (row->traits & JOINS) {
		draw_join(d, stage, who);
		strcpy(line, d->pending[--d->n_pending]);
	} else {
		write_line(d, stage, row->form, who, line);
	}
	note(d, row, who);
	return d->n_drawn < d->n_lines;
}

bool draw_line(struct drawer *d, const struct stage *stage, char line[CALL_MAX])
{
	const struct prelude *prelude = &preludes[d->draw];

	note_accepted(d, stage);
	d->sleeper = find_sleeper(stage);
	if (d->n_drawn++ < prelude->n_lines) {
		write_line(d, stage, prelude->lines[d->n_drawn - 1], 0, line);
		return true;
	}
	if (d->n_pending) {
		strcpy(line, d->pending[--d->n_pending]);
		return true;
	}
	return draw_grammar(d, stage, line);
}
