/* What pulcctl shows, and its one command. */
#ifndef PULC_PSID_REPORT_H
#define PULC_PSID_REPORT_H

struct psid_client;

/* Messages. Return 0; -EBADMSG: the client has not read the answer before. */
int psid_report_status(struct psid_client *client);
int psid_report_ports(struct psid_client *client);
int psid_report_peers(struct psid_client *client);
int psid_report_sockets(struct psid_client *client);
int psid_report_clients(struct psid_client *client);
int psid_report_stop(struct psid_client *client);

#endif
