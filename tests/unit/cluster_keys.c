/* The cluster's keys: the file, what is derived, datagrams and greetings while they are changed,
 * and who is asked first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec.h"
#include "greeting.h"
#include "harness.h"
#include "key.h"
#include "keys.h"
#include "macros.h"
#include "seal.h"

static char path[128], why[256];

static void write_file(const char *text, mode_t mode)
{
	const char *dir = getenv("TMPDIR");
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/cluster-keys-%d", dir ? dir : "/tmp", getpid());
	file = fopen(path, "w");
	REQUIRE(file != NULL);
	REQUIRE(fputs(text, file) >= 0 && fclose(file) == 0);
	REQUIRE_INT(chmod(path, mode), ==, 0);
}

/* "PULC-KEY-1:" and 64 times the digit. */
static const char *line_of(char digit)
{
	static char lines[8][96];
	static unsigned n;
	char *line = lines[n++ % ARRAY_SIZE(lines)];

	(void)strcpy(line, "PULC-KEY-1:");
	memset(line + 11, digit, 64);
	line[75] = '\0';
	return line;
}

static int read_text(const char *text, struct wire_keys *ret_keys)
{
	int r;

	write_file(text, 0600);
	r = wire_keys_read(path, ret_keys, why, sizeof(why));
	(void)unlink(path);
	return r;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void files_have_several(void)
{
	struct wire_keys keys = { .n = 0 };
	char text[512];

	REQUIRE_INT(read_text(line_of('a'), &keys), ==, 0); /* not even a newline */
	CHECK_INT(keys.n, ==, 1);
	CHECK_INT(keys.keys[0][31], ==, 0xaa);
	(void)snprintf(text, sizeof(text), "%s\r\n\n%s  \n%s\n", line_of('1'), line_of('2'),
		       line_of('1'));
	REQUIRE_INT(read_text(text, &keys), ==, 0);
	CHECK_INT(keys.n, ==, 2);
	CHECK_INT(keys.keys[0][0], ==, 0x11);
	CHECK_INT(keys.keys[1][0], ==, 0x22);
}

static void errors_name_file_and_line(void)
{
	struct wire_keys keys = { .n = 7 };
	char text[1024], end[160];
	const struct {
		const char *text;
		unsigned line;
	} cases[] = {
		{ "", 1 },
		{ "\n\n", 1 },
		{ "PULC-KEY-1:", 1 },
		{ "something else that is about as long as a key of a cluster, but is none of "
		  "them\n",
		  1 },
		{ text, 3 },
	};

	(void)snprintf(text, sizeof(text), "%s\n\n%sx\n", line_of('1'), line_of('2'));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_INT(read_text(cases[i].text, &keys), ==, -EBADMSG);
		(void)snprintf(end, sizeof(end), "%s:%u: no key of a cluster", path, cases[i].line);
		if (strncmp(why, end, strlen(end)) != 0)
			CHECK_STR(why, end);
	}
	(void)snprintf(text, sizeof(text), "%s\n%s\n%s\n%s\n%s\n", line_of('1'), line_of('2'),
		       line_of('3'), line_of('4'), line_of('5'));
	CHECK_INT(read_text(text, &keys), ==, -EBADMSG);
	(void)snprintf(end, sizeof(end), "%s:5: more than four keys", path);
	CHECK(strncmp(why, end, strlen(end)) == 0);
	CHECK_INT(keys.n, ==, 7); /* nothing was read */
}

static void what_others_can_read_is_refused(void)
{
	struct wire_keys keys;

	write_file(line_of('1'), 0640);
	CHECK_INT(wire_keys_read(path, &keys, why, sizeof(why)), ==, -EPERM);
	CHECK(strstr(why, "others than its owner can read it") != NULL);
	(void)unlink(path);
	CHECK_INT(wire_keys_read(path, &keys, why, sizeof(why)), ==, -ENOENT);
	CHECK_INT(wire_keys_read("/tmp", &keys, why, sizeof(why)), ==, -EBADMSG);
}

static void files_are_replaced(void)
{
	struct wire_keys keys = { .n = 0 }, again = { .n = 0 };
	char link[160];
	struct stat st;

	write_file(line_of('1'), 0600);
	(void)snprintf(link, sizeof(link), "%s-link", path);
	(void)unlink(link);
	REQUIRE_INT(symlink(path, link), ==, 0);
	REQUIRE_INT(wire_keys_read(link, &keys, why, sizeof(why)), ==, 0);
	REQUIRE_INT(wire_key_draw(keys.keys[keys.n++]), ==, 0);
	REQUIRE_INT(wire_keys_write(link, &keys), ==, 0);
	REQUIRE_INT(wire_keys_read(path, &again, why, sizeof(why)), ==, 0);
	CHECK_INT(again.n, ==, 2);
	CHECK_MEM(again.keys, keys.keys, (size_t)2 * WIRE_SIZE_KEY);
	CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	CHECK_INT(wire_key_make(path), ==, -EEXIST);
	(void)unlink(link);
	(void)unlink(path);
	CHECK_INT(wire_keys_write(path, &keys), ==, -ENOENT);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* Keys of which each byte is the letter's. */
static struct psid_keyring ring_of(const char *letters)
{
	struct psid_keyring ring = { .n = 0 };
	struct wire_keys keys = { .n = strlen(letters) };

	for (size_t i = 0; i < keys.n; i++)
		memset(keys.keys[i], letters[i], WIRE_SIZE_KEY);
	psid_keyring_derive(&keys, "test", &ring);
	return ring;
}

static void keys_have_fingerprints(void)
{
	const struct psid_keyring a = ring_of("a"), ab = ring_of("ab"), ba = ring_of("ba");
	char text[PSID_SIZE_KEYRING_TEXT], expected[PSID_SIZE_KEYRING_TEXT];

	CHECK(a.keys[0].fingerprint == ab.keys[0].fingerprint);
	CHECK(a.keys[0].fingerprint != ab.keys[1].fingerprint);
	CHECK(memcmp(ab.keys[0].gossip, ab.keys[1].gossip, PSID_SIZE_SECRET) != 0);
	CHECK(memcmp(a.keys[0].gossip, a.keys[0].peers, PSID_SIZE_SECRET) != 0);
	CHECK(psid_keyring_equal(&a, &a) && psid_keyring_equal(&ab, &ab));
	CHECK(!psid_keyring_equal(&a, &ab) && !psid_keyring_equal(&ab, &ba));
	CHECK(psid_keyring_has(&ba, a.keys[0].fingerprint));
	CHECK(!psid_keyring_has(&a, ab.keys[1].fingerprint));
	(void)snprintf(expected, sizeof(expected), "%08x, %08x",
		       (unsigned)(ab.keys[0].fingerprint >> 32),
		       (unsigned)(ab.keys[1].fingerprint >> 32));
	CHECK_STR(psid_keyring_text(&ab, text), expected);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static struct party {
	struct psid_keyring ring;
	struct psid_seal seal;
	struct psid_node self;
	struct psid_members members;
} ours, theirs;

static void open_one(struct party *party, const char *keys, uint64_t id)
{
	party->ring = ring_of(keys);
	party->self = (struct psid_node){ .id = id, .life = 100 };
	REQUIRE_INT(psid_seal_init(&party->seal, &party->ring, &party->members, &party->self), ==,
		    0);
}

static void open_both(const char *our_keys, const char *their_keys)
{
	open_one(&ours, our_keys, 1);
	open_one(&theirs, their_keys, psid_node_id("them"));
}

static void close_both(void)
{
	psid_seal_deinit(&ours.seal);
	psid_seal_deinit(&theirs.seal);
	psid_members_deinit(&ours.members);
}

static void they_take(const char *letters)
{
	theirs.ring = ring_of(letters);
	REQUIRE_INT(psid_seal_rekey(&theirs.seal), ==, 0);
}

static void we_take(const char *letters)
{
	ours.ring = ring_of(letters);
	REQUIRE_INT(psid_seal_rekey(&ours.seal), ==, 0);
}

struct datagram {
	uint8_t bytes[64];
	size_t len;
};

static struct datagram they_say(void)
{
	struct datagram d;

	d.len = psid_seal_close(&theirs.seal, (const uint8_t *)"hello", 5, d.bytes);
	REQUIRE_INT(d.len, ==, 5 + PSID_SEAL_SIZE);
	return d;
}

static struct psid_origin by;

static int we_open(const struct datagram *d)
{
	uint8_t body[64];
	int n = psid_seal_open(&ours.seal, d->bytes, d->len, body, &by);

	if (n >= 0) {
		CHECK_INT(by.id, ==, theirs.self.id);
		CHECK_MEM(body, "hello", 5);
	}
	return n;
}

static int we_open_new(void)
{
	struct datagram d = they_say();

	return we_open(&d);
}

static void all_keys_are_accepted(void)
{
	open_both("a", "a");
	CHECK_INT(we_open_new(), ==, 5);
	we_take("ab");
	CHECK_INT(we_open_new(), ==, 5);
	they_take("ba");
	CHECK_INT(we_open_new(), ==, 5);
	CHECK_INT(we_open_new(), ==, 5);
	they_take("ab"); /* and back */
	CHECK_INT(we_open_new(), ==, 5);
	they_take("cab");
	CHECK_INT(we_open_new(), ==, -EBADMSG);
	they_take("ba");
	CHECK_INT(we_open_new(), ==, 5);
	close_both();
}

static void dropped_keys_are_not(void)
{
	struct datagram old;

	open_both("ab", "ab");
	CHECK_INT(we_open_new(), ==, 5); /* so that the key is known */
	old = they_say();
	we_take("b");
	CHECK_INT(we_open(&old), ==, -EBADMSG);
	CHECK_INT(we_open_new(), ==, -EBADMSG);
	they_take("b");
	CHECK_INT(we_open_new(), ==, 5);
	CHECK_INT(we_open(&old), ==, -EBADMSG);
	close_both();
}

static void copies_stay_out_when_keys_change(void)
{
	struct datagram first, late, under_b, again;

	open_both("ab", "ab");
	first = they_say();
	late = they_say();
	CHECK_INT(we_open(&first), ==, 5);
	they_take("ba");
	under_b = they_say();
	CHECK_INT(we_open(&under_b), ==, 5);
	CHECK_INT(we_open(&under_b), ==, -EALREADY);
	CHECK_INT(we_open(&first), ==, -EALREADY);
	CHECK_INT(we_open(&late), ==, 5); /* overtaken by one under the new key */
	CHECK_INT(we_open(&late), ==, -EALREADY);
	again = they_say();
	we_take("ba");
	CHECK_INT(we_open(&first), ==, -EALREADY);
	CHECK_INT(we_open(&under_b), ==, -EALREADY);
	CHECK_INT(we_open(&again), ==, 5);
	CHECK_INT(we_open(&again), ==, -EALREADY);
	close_both();
}

static void start_in(uint64_t life)
{
	psid_seal_deinit(&theirs.seal);
	theirs.self.life = life;
	REQUIRE_INT(psid_seal_init(&theirs.seal, &theirs.ring, &theirs.members, &theirs.self), ==,
		    0);
}

static void start_anew(void)
{
	start_in(theirs.self.life + 1);
}

/* In turn, those of one would make the other one new again. */
static void copies_of_several_starts_stay_out(void)
{
	struct datagram first, second;

	open_both("a", "a");
	first = they_say();
	CHECK_INT(we_open(&first), ==, 5);
	start_anew();
	second = they_say();
	CHECK_INT(we_open(&second), ==, 5);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_INT(we_open(&first), ==, -EALREADY);
		CHECK_INT(we_open(&second), ==, -EALREADY);
		CHECK_INT(we_open_new(), ==, 5);
	}
	/* However many starts follow: who is heard is known. */
	for (unsigned i = 0; i < 20; i++) {
		start_anew();
		second = they_say();
		CHECK_INT(we_open(&second), ==, 5);
		CHECK_INT(we_open_new(), ==, 5);
		CHECK_INT(we_open(&second), ==, -EALREADY);
	}
	close_both();
}

enum { N_LIVES = 20 };

static void they_live_often(struct datagram lives[N_LIVES])
{
	for (unsigned i = 0; i < N_LIVES; i++) {
		lives[i] = they_say();
		CHECK_INT(we_open(&lives[i]), ==, 5);
		CHECK_INT(by.life, ==, theirs.self.life);
		start_anew();
	}
}

/* More than are remembered, sent again in turn: each would make room for the next one. */
static void copies_of_however_many_lives_stay_out(void)
{
	struct datagram lives[N_LIVES];

	open_both("a", "a");
	they_live_often(lives);
	for (unsigned i = 0; i < 3 * N_LIVES; i++)
		CHECK_INT(we_open(&lives[i % N_LIVES]), <, 0);
	CHECK_INT(we_open_new(), ==, 5);
	for (unsigned i = 2 * N_LIVES; i-- > 0;)
		CHECK_INT(we_open(&lives[i % N_LIVES]), <, 0);
	CHECK_INT(we_open_new(), ==, 5);
	close_both();
}

static void whose_clock_went_back_is_told_its_newest_life(void)
{
	struct datagram lives[N_LIVES];
	uint64_t newest;

	open_both("a", "a");
	they_live_often(lives);
	newest = theirs.self.life - 1;
	start_in(3);
	CHECK_INT(we_open_new(), ==, -ESTALE);
	CHECK_INT(by.id, ==, theirs.self.id);
	CHECK_INT(by.life, ==, newest);
	theirs.self.life = newest + 1; /* without another start */
	CHECK_INT(we_open_new(), ==, 5);
	CHECK_INT(by.life, ==, newest + 1);
	for (unsigned i = 0; i < N_LIVES; i++)
		CHECK_INT(we_open(&lives[i]), <, 0);
	close_both();
}

/* Strangers come with the name of a node that is heard rarely, again and again. */
static void strangers_of_one_name_silence_nobody(void)
{
	struct datagram lives[N_LIVES], strange, old, next;
	struct psid_node *node;

	open_both("a", "a");
	CHECK_INT(psid_members_add(&ours.members, "them", &node), ==, 0);
	node->life = theirs.self.life;
	old = they_say();
	CHECK_INT(we_open(&old), ==, 5);
	next = they_say();
	start_anew();
	they_live_often(lives);
	CHECK_INT(we_open(&next), ==, 5);
	CHECK_INT(we_open(&old), ==, -EALREADY);
	start_in(3);
	strange = they_say();
	CHECK_INT(we_open(&strange), ==, -ESTALE);
	close_both();
}

/* ---- greetings ------------------------------------------------------------------------------- */

static int greet(const char *our_keys, const char *their_keys)
{
	const struct psid_keyring our_ring = ring_of(our_keys), their_ring = ring_of(their_keys);
	struct psid_cluster_config config = { .name = "test" };
	uint8_t bytes[PSID_SIZE_GREETING];
	struct psid_greeting us, them;

	psid_greeting_make(&config, &our_ring, &us);
	psid_greeting_make(&config, &their_ring, &them);
	psid_greeting_pack(&them, bytes);
	REQUIRE_INT(psid_greeting_unpack(bytes, &them), ==, 0);
	return psid_greeting_compare(&us, &our_ring, &them, why, sizeof(why));
}

static void greetings_name_the_key_that_is_used(void)
{
	const struct psid_keyring ring = ring_of("ab");
	char expected[256];

	CHECK_INT(greet("a", "a"), ==, 0);
	CHECK_INT(greet("ab", "ba"), ==, 0);
	CHECK_INT(greet("ba", "a"), ==, 0);
	CHECK_INT(greet("a", "ab"), ==, 0);
	CHECK_INT(greet("a", "ba"), ==, -EPROTO);
	(void)snprintf(expected, sizeof(expected),
		       "they use the key %08x, we have only %08x (ClusterKeyFile)",
		       (unsigned)(ring.keys[1].fingerprint >> 32),
		       (unsigned)(ring.keys[0].fingerprint >> 32));
	CHECK_STR(why, expected);
}

/* ---- what nodes say of themselves ------------------------------------------------------------ */

static void nodes_say_which_keys_they_have(void)
{
	enum {
		AT_N_KEYS = 1 + 1 + 3 + 6 + 4 + 18 + 3
	}; /* kind, flags, name, life, incarnation, address, version */
	struct psid_news said = { .kind = PSID_NEWS_NODE,
				  .state = PSID_NODE_ALIVE,
				  .name = "n1",
				  .n_keys = 2,
				  .keys = { 0x3f2a91c0, 0x77b01d2e } };
	uint8_t bytes[PSID_SIZE_NEWS_MAX];
	struct psid_writer w = { .at = bytes, .end = bytes + sizeof(bytes) };
	struct psid_reader r = { .at = bytes };
	struct psid_news heard;
	size_t n_read = 0;

	psid_put_news(&w, &said);
	REQUIRE(!w.full);
	r.end = w.at;
	REQUIRE(psid_get_news(&r, &heard));
	CHECK(r.at == r.end);
	CHECK_INT(heard.n_keys, ==, 2);
	CHECK_INT(heard.keys[0], ==, 0x3f2a91c0);
	CHECK_INT(heard.keys[1], ==, 0x77b01d2e);
	/* Cut anywhere it is none, and with more keys than there may be. */
	for (const uint8_t *end = bytes; end < w.at; end++) {
		r = (struct psid_reader){ .at = bytes, .end = end };
		n_read += psid_get_news(&r, &heard);
	}
	CHECK_INT(n_read, ==, 0);
	REQUIRE_INT(bytes[AT_N_KEYS], ==, 2);
	bytes[AT_N_KEYS] = WIRE_N_KEYS + 1;
	r = (struct psid_reader){ .at = bytes, .end = bytes + sizeof(bytes) };
	CHECK(!psid_get_news(&r, &heard));
	said.n_keys = WIRE_N_KEYS;
	memset(said.name, 'x', PSID_SIZE_NAME - 1);
	w = (struct psid_writer){ .at = bytes, .end = bytes + sizeof(bytes) };
	psid_put_news(&w, &said);
	CHECK(!w.full); /* the largest fits */
}

static const struct test tests[] = {
	TEST(files_have_several),
	TEST(errors_name_file_and_line),
	TEST(what_others_can_read_is_refused),
	TEST(files_are_replaced),
	TEST(keys_have_fingerprints),
	TEST(all_keys_are_accepted),
	TEST(dropped_keys_are_not),
	TEST(copies_stay_out_when_keys_change),
	TEST(copies_of_several_starts_stay_out),
	TEST(copies_of_however_many_lives_stay_out),
	TEST(whose_clock_went_back_is_told_its_newest_life),
	TEST(strangers_of_one_name_silence_nobody),
	TEST(greetings_name_the_key_that_is_used),
	TEST(nodes_say_which_keys_they_have),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
