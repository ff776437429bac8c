/* psid's log: lines on stderr; where stderr is the journal, entries with fields. */
#ifndef PULC_PSID_LOG_H
#define PULC_PSID_LOG_H

#include <stdbool.h>

/* syslog's numbers. */
enum psid_level {
	PSID_ERROR = 3,
	PSID_WARNING = 4,
	PSID_INFO = 6,
	PSID_DEBUG = 7,
};

/* What administrators look for: each has a message id, and a text in systemd/pulc.catalog. */
enum psid_occasion {
	PSID_LOG_READY,
	PSID_LOG_ENDS,
	PSID_LOG_RELOADED,
	PSID_LOG_NOT_RELOADED,
	PSID_LOG_NODE_HERE,
	PSID_LOG_NODE_DEAD,
	PSID_LOG_NODE_LEFT,
	PSID_LOG_GIVEN_UP,
	PSID_LOG_KEYS,
	PSID_LOG_JOB_KEPT,
	PSID_LOG_NONSENSE,
};

/* Shows lines up to this level from now on. */
void psid_log_init(enum psid_level level);
/* A file for the log, as stderr is to be. Returns a descriptor; -1. */
int psid_log_open(const char *path);
/* From now on stderr is this file of ours, which is read much later: each line there begins with
 * the local time, and it is not let grow without end. */
void psid_log_file(const char *path);
/* Would a line of this level be shown? */
bool psid_log_shows(enum psid_level level);
void psid_log(enum psid_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with a message id. subject: whom it is about (a node, a job, a user), as the catalog
 * says; or NULL. */
void psid_log_of(enum psid_occasion occasion, enum psid_level level, const char *subject,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));
const char *psid_level_name(enum psid_level level);

#endif
