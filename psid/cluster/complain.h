/* Lines in the log about others, of each kind one a minute for each address. */
#ifndef PULC_PSID_COMPLAIN_H
#define PULC_PSID_COMPLAIN_H

#include "address.h"

#define PSID_N_COMPLAINTS 64u

enum psid_complaint {
	PSID_COMPLAIN_DATAGRAM_VERSION = 1,
	PSID_COMPLAIN_DATAGRAM_KEY,
	PSID_COMPLAIN_REMARK, /* and the psid_swim_remark */
	PSID_COMPLAIN_CROWD = 48,
};

struct psid_complaints {
	struct {
		uint8_t ip[16];
		unsigned kind;
		uint64_t usec; /* 0: unused */
	} last[PSID_N_COMPLAINTS];
};

/* May something of this kind be said about this address now? Then it is taken as said. */
bool psid_may_complain(struct psid_complaints *complaints, const struct psid_address *about,
		       unsigned kind);

/* The kind of a complaint that is known by its text. */
unsigned psid_complaint_kind(const char *text);

#endif
