/* Bytes that clients may grow their rings by. */
#ifndef PULC_PSID_CREDIT_H
#define PULC_PSID_CREDIT_H

#include <stdint.h>

struct psid_client;

/* Messages. Return 0. */
int psid_credit_want(struct psid_client *client, uint64_t size);
int psid_credit_return(struct psid_client *client, uint64_t size);

#endif
