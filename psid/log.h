/* psid's log: lines on stderr, with the journal's levels when stderr is the journal. */
#ifndef PULC_PSID_LOG_H
#define PULC_PSID_LOG_H

/* syslog's numbers. */
enum psid_level {
	PSID_ERROR = 3,
	PSID_WARNING = 4,
	PSID_INFO = 6,
	PSID_DEBUG = 7,
};

/* Shows lines up to this level from now on. */
void psid_log_init(enum psid_level level);
void psid_log(enum psid_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *psid_level_name(enum psid_level level);

#endif
