/* Settings files. */
#include <stdint.h>
#include <stdlib.h>

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct psid_config_error error;
	struct psid_config config;

	psid_config_init(&config, size % 2);
	if (psid_config_parse(&config, "fuzz", (const char *)data, size, &error) == 0)
		(void)psid_config_finish(&config, &error);
	return 0;
}
