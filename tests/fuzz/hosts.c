/* Lists of nodes. */
#include <stdint.h>
#include <stdlib.h>

#include "shared/hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hosts hosts = { 0 };

	(void)hosts_parse(&hosts, (const char *)data, size);
	hosts_deinit(&hosts);
	return 0;
}
