/* What the library would tell somebody who asked for it with PULC_LOG; silent otherwise. */
#ifndef PULC_LIB_LOG_H
#define PULC_LIB_LOG_H

#include <stdbool.h>

extern int pulc_log_fd __attribute__((visibility("hidden")));
void pulc_log_init(void);
void pulc_log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The arguments are not even computed while nobody listens. */
#define pulc_log(...)                                                                              \
	do {                                                                                       \
		if (__builtin_expect(pulc_log_fd >= 0, 0))                                         \
			pulc_log_line(__VA_ARGS__);                                                \
	} while (0)

#endif
