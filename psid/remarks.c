/*
 * Whoever may connect can make psid write a line, as often as he likes: by nonsense, by coming
 * where he is not let in, by reading nothing. A log that is full of them has no room for others: a
 * file fills the disk, and the journal stops taking psid's lines at some rate, those about nodes
 * and jobs as well. So each user has N_LINES a minute, and all of them together no more than fit
 * into the table. What is left out is counted, and said with the next line that somebody causes
 * after that minute.
 *
 * Lines about other nodes have bounds of their own (cluster/complain.c).
 */
#include "remarks.h"

#include "clock.h"

#define N_LINES 64u
#define USEC_WINDOW (60 * USEC_PER_SEC)

static bool is_over(const struct psid_remarked *user, uint64_t usec_now)
{
	return user->usec_began == 0 || user->usec_began + USEC_WINDOW <= usec_now;
}

static void end(struct psid_remarked *user)
{
	if (user->n_left_out > 0)
		psid_log(PSID_WARNING, "uid %u: %u lines about this user were left out", user->uid,
			 user->n_left_out);
	*user = (struct psid_remarked){ 0 };
}

/* That user's, or a free place, or NULL. */
static struct psid_remarked *find(struct psid_remarks *remarks, uid_t uid, uint64_t usec_now)
{
	struct psid_remarked *found = NULL;

	for (unsigned i = 0; i < PSID_N_REMARKED; i++) {
		struct psid_remarked *user = &remarks->users[i];

		if (is_over(user, usec_now))
			end(user);
		else if (user->uid == uid)
			found = user;
	}
	for (unsigned i = 0; !found && i < PSID_N_REMARKED; i++)
		if (remarks->users[i].usec_began == 0)
			found = &remarks->users[i];
	return found;
}

/* Some place is free again. */
static void say_crowd(struct psid_remarks *remarks)
{
	if (remarks->n_left_out > 0)
		psid_log(PSID_WARNING, "too many users: %u lines about some of them were left out",
			 remarks->n_left_out);
	remarks->n_left_out = 0;
}

bool psid_may_remark(struct psid_remarks *remarks, uid_t uid, enum psid_level level)
{
	uint64_t usec_now = nsec_now() / NSEC_PER_USEC;
	struct psid_remarked *user;

	if (!psid_log_shows(level))
		return false;
	user = find(remarks, uid, usec_now);
	if (!user) {
		remarks->n_left_out++;
		return false;
	}
	if (user->usec_began == 0) {
		say_crowd(remarks);
		*user = (struct psid_remarked){ .uid = uid, .usec_began = usec_now };
	}
	if (user->n < N_LINES) {
		user->n++;
		return true;
	}
	if (user->n_left_out++ == 0)
		psid_log(PSID_WARNING,
			 "uid %u: more lines about this user are left out, for a minute at most",
			 uid);
	return false;
}
