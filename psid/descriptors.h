/* Descriptors that psid keeps free for what it must always be able to do. */
#ifndef PULC_PSID_DESCRIPTORS_H
#define PULC_PSID_DESCRIPTORS_H

#include <stdbool.h>

/* Is there room for one more client, with all that it brings? open_fd: any descriptor of ours. */
bool psid_descriptors_admit(int open_fd);
/* fd, made just now and to be kept, has a number of the reserve: it must be closed again. */
bool psid_descriptor_is_reserve(int fd);
/* So many descriptors of one user may wait to be closed before psid reads no more from it. */
unsigned psid_descriptors_foreign(void);
/* accept has failed with errno e for want of descriptors or memory: who is there stays reported as
 * ready, and a loop that goes on looking does nothing else. */
bool psid_is_shortage(int e);

#endif
