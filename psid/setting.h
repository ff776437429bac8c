/* How the text of one setting becomes its value. */
#ifndef PULC_PSID_SETTING_H
#define PULC_PSID_SETTING_H

#include "config.h"

/* Each parses text into the field at `field`; 0, or -EINVAL with a reason for people. */
struct psid_setting {
	const char *name; /* as in the file: FooBar */
	int (*parse)(const struct psid_setting *s, struct psid_config *config, const char *text,
		     const char **ret_why);
	size_t offset;
	uint64_t min, max;
};

extern const struct psid_setting psid_settings[];
extern const size_t psid_n_settings;

/* FooBar to PULC_FOO_BAR. */
void psid_setting_variable(const struct psid_setting *s, char *buf, size_t size);

#endif
