/*
 * The variables that PULC reads or sets, all in one list: whoever misspells one gets the default in
 * silence, so commands look for names that are near to one of them, and are none.
 *
 * Names are compared as letters and digits only, for people write a setting of psid.conf as its
 * variable and the other way round. Near are those that a single slip away, up to three in long
 * names, would be the same (a letter too many, too few, another one, two in the wrong order: the
 * restricted edit distance, Damerau 1964), and the beginning of one. A name that is near to
 * none may be somebody's own: PULC_ is no name space that is ours alone.
 */
#include "variables.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "macros.h"

#define PREFIX "PULC_"
#define N_LETTERS_MAX 40
#define N_LETTERS_MIN 3	      /* what is shorter is near to much */
#define N_LETTERS_SLIP 4      /* for so many a slip is forgiven, */
#define N_SLIPS_MAX 3	      /* up to so many */
#define N_LETTERS_BEGINNING 4 /* as many make a beginning */

/* Those that people set. */
static const char *const variables[] = {
	/* of programs */
	"PULC_ALLOC_MAX",
	"PULC_DISABLE",
	"PULC_HINT_AFTER",
	"PULC_LOG",
	"PULC_PULL",
	"PULC_QUEUE_MAX",
	"PULC_RUNTIME_DIR",
	"PULC_SOCKET",
	"PULC_SPIN_USEC",
	"PULC_TCP",
	/* of commands */
	"PULC_PRELOAD",
	"PULC_RESERVATION",
	/* psid's settings */
	"PULC_ALLOW_USERS",
	"PULC_CLUSTER_ADDRESS",
	"PULC_CLUSTER_AUTHORITY",
	"PULC_CLUSTER_CERTIFICATE",
	"PULC_CLUSTER_CERTIFICATE_KEY",
	"PULC_CLUSTER_KEY_FILE",
	"PULC_CLUSTER_NAME",
	"PULC_CLUSTER_NODES",
	"PULC_CLUSTER_PROBE_MSEC",
	"PULC_CLUSTER_SEEDS",
	"PULC_CREDIT_INITIAL",
	"PULC_HAND_OVER_MSEC",
	"PULC_IDLE_EXIT_SEC",
	"PULC_JOB_SCOPE",
	"PULC_LOAD_FROM",
	"PULC_LOG_LEVEL",
	"PULC_MAX_AREAS_PER_USER",
	"PULC_MAX_BYTES",
	"PULC_MAX_BYTES_PER_USER",
	"PULC_MAX_CLIENTS_PER_USER",
	"PULC_MAX_DESCRIPTORS_PER_USER",
	"PULC_MAX_HINTS_PER_CLIENT",
	"PULC_MAX_PROCESSES",
	"PULC_METRICS",
	"PULC_NODE_NAME",
	"PULC_OPERATOR_GROUP",
	"PULC_RING_SIZES",
	"PULC_SLOTS_PER_SLAB",
	"PULC_STARTER",
	"PULC_STATE_DIR",
};

/* Those that tasks are given, and one of tests: they are known, and nobody means them. */
static const char *const given[] = {
	"PULC_JOB",	    "PULC_LOCAL_RANK",	"PULC_LOCAL_SIZE", "PULC_NODE", "PULC_PARENT",
	"PULC_PARENT_NODE", "PULC_PARENT_PORT", "PULC_RANK",	   "PULC_SIZE", "PULC_STEPS",
};

/* The letters and digits of a name, small, without PULC_. Returns how many. */
static size_t letters_of(const char *name, char letters[N_LETTERS_MAX])
{
	size_t n = 0;

	if (strncasecmp(name, PREFIX, strlen(PREFIX)) == 0)
		name += strlen(PREFIX);
	for (; *name && n < N_LETTERS_MAX; name++)
		if (isalnum((unsigned char)*name))
			letters[n++] = (char)tolower((unsigned char)*name);
	return n;
}

/* By how many slips a differs from b. */
static size_t slips(const char *a, size_t n_a, const char *b, size_t n_b)
{
	size_t rows[3][N_LETTERS_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2], *spare;

	for (size_t j = 0; j <= n_b; j++)
		last[j] = j;
	for (size_t i = 1; i <= n_a; i++) {
		row[0] = i;
		for (size_t j = 1; j <= n_b; j++) {
			row[j] = last[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = MIN(row[j], last[j] + 1);
			row[j] = MIN(row[j], row[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[n_b];
}

const char *wire_name_meant(const char *name, const char *(*nth)(size_t i))
{
	char letters[N_LETTERS_MAX], other[N_LETTERS_MAX];
	size_t n = letters_of(name, letters), n_other, least = 1, n_slips;
	const char *candidate, *best = NULL, *begins = NULL;

	least += n == N_LETTERS_MIN ? 1 : MIN(n / N_LETTERS_SLIP, (size_t)N_SLIPS_MAX);
	for (size_t i = 0; (candidate = nth(i)); i++) {
		n_other = letters_of(candidate, other);
		n_slips = slips(letters, n, other, n_other);
		if (n_slips < least) {
			least = n_slips;
			best = candidate;
		}
		if (!begins && n >= N_LETTERS_BEGINNING && n < n_other &&
		    memcmp(letters, other, n) == 0)
			begins = candidate;
	}
	return best ? best : begins;
}

static const char *nth_variable(size_t i)
{
	return i < ARRAY_SIZE(variables) ? variables[i] : NULL;
}

static bool is_among(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

void wire_variables_check(wire_variable_fn say, void *context)
{
	char name[64];

	for (char **v = environ; v && *v; v++) {
		size_t n = strcspn(*v, "=");

		if (strncmp(*v, PREFIX, strlen(PREFIX)) != 0 || n >= sizeof(name))
			continue;
		memcpy(name, *v, n);
		name[n] = '\0';
		if (!is_among(name, variables, ARRAY_SIZE(variables)) &&
		    !is_among(name, given, ARRAY_SIZE(given)))
			say(context, name, wire_name_meant(name, nth_variable));
	}
}
