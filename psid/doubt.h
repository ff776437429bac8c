/* Sides of which psid doesn't know whether anybody still holds them. */
#ifndef PULC_PSID_DOUBT_H
#define PULC_PSID_DOUBT_H

struct psid;
struct psid_conn;

int psid_doubt_start(struct psid *psid);
void psid_doubt_close(struct psid *psid);
/* This connection may have such a side now: it is looked at soon, and for as long as it has. */
void psid_doubt(struct psid_conn *conn);
/* The connection goes. */
void psid_doubt_forget(struct psid_conn *conn);

#endif
