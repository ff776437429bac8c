/*
 * A psid of the test's own, and fake clients that say what the test makes them say. Each fake
 * client is a process (a child that only connects and sleeps), whose socket the test uses: so it
 * has a user and a life of its own.
 */
#ifndef PULC_TESTS_PSID_FAKE_CLIENT_H
#define PULC_TESTS_PSID_FAKE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "channel.h"
#include "harness.h"
#include "layout.h"
#include "tcp_connect.h"

struct daemon {
	pid_t pid;
	char dir[64];
	char socket[96];
};

/*
 * Starts psid with these settings ("PULC_FOO_BAR=x" ..., NULL) and waits until it says READY.
 * With --system if `system`. The test fails if it does not.
 */
void daemon_start(struct daemon *d, bool system, const char *const settings[]);
/* What its loop does, as in proc(5): 'S', it sleeps, 'R', it runs ... */
char daemon_state(const struct daemon *d);
/* Kills it; its folder stays, and daemon_run starts another one there. */
void daemon_kill(struct daemon *d);
void daemon_run(struct daemon *d, bool system, const char *const settings[]);
/* Ends it with SIGTERM, removes its folder. Returns its exit status. */
int daemon_stop(struct daemon *d);
/* Waits for its end. Returns its exit status. */
int daemon_wait(struct daemon *d);
/* How many descriptors it has, more or less. */
unsigned daemon_n_open(const struct daemon *d);

struct fake_client {
	pid_t pid; /* of the process psid sees */
	int fd;
	uint32_t id;
	uint64_t credit;
	/* The message received last, valid until the next. */
	Pulc__Wire__ToClient *msg;
	int fds[WIRE_FDS_MAX];
	size_t n_fds;
};

#define FAKE_SELF ((uid_t)-1) /* our own user */

/* Connects as a new process of that user. */
void fake_open(struct fake_client *c, const struct daemon *d, uid_t uid);
/* open, Hello as a process, and Welcome. */
void fake_attach(struct fake_client *c, const struct daemon *d, uid_t uid);
/* Kills the process, keeping the socket. */
void fake_kill(struct fake_client *c);
/* Kills the process and closes everything. */
void fake_close(struct fake_client *c);

/* Messages to psid. */
void fake_send(struct fake_client *c, const Pulc__Wire__FromClient *msg, const int *fds,
	       size_t n_fds);
void fake_hello(struct fake_client *c, Pulc__Wire__Role role);
/* A hint for a connected TCP socket, filled in from the socket itself; `token` is the client's. */
struct fake_hint {
	Pulc__Wire__Hint hint;
	Pulc__Wire__Tuple tuple;
	uint8_t local[16], remote[16];
};
void fake_hint_fill(struct fake_hint *h, int socket, uint64_t token, bool connector);
void fake_hint_send(struct fake_client *c, struct fake_hint *h);
void fake_hint(struct fake_client *c, int socket, uint64_t token, bool connector);
void fake_socket(struct fake_client *c, int socket, uint64_t token);
void fake_closed(struct fake_client *c, uint64_t conn);

/*
 * The next message, waited for; NULL: psid has closed. The test fails after some seconds of
 * silence.
 */
const Pulc__Wire__ToClient *fake_receive(struct fake_client *c);
/* The next message must be of this kind. */
const Pulc__Wire__ToClient *fake_expect(struct fake_client *c, Pulc__Wire__ToClient__BodyCase kind);
/* True if nothing has come once psid has answered a question. */
bool fake_is_quiet(struct fake_client *c);
/* psid must close the connection to this client, whatever it says before. */
void fake_expect_end(struct fake_client *c);
/* psid must refuse this client for this reason, with a text, and hang up. Closes it. */
void fake_expect_refusal(struct fake_client *c, Pulc__Wire__Reason reason);
/* psid's own view. */
void fake_status(struct daemon *d, Pulc__Wire__StatusReply *ret_status);
/* Waits until psid's view has these numbers. */
void fake_wait_counts(struct daemon *d, uint32_t n_clients, uint32_t n_connections);
/* Memory is emptied by a thread, and on its account until then. */
void fake_wait_no_areas(struct daemon *d);

#define EXPECT(c, KIND) fake_expect((c), PULC__WIRE__TO_CLIENT__BODY_##KIND)
#define FROM_CLIENT(name, KIND, body)                                                              \
	Pulc__Wire__FromClient name = PULC__WIRE__FROM_CLIENT__INIT;                               \
	name.body_case = PULC__WIRE__FROM_CLIENT__BODY_##KIND;                                     \
	name.body

/* The whole dialogue for one connection between a (connector) and b. */
struct fake_upgrade {
	struct {
		uint64_t conn;
		uint32_t own_slot, peer_slot;
		uint64_t own_id, peer_id, size;
		int own_fd, peer_fd; /* -1: not sent, the client has it */
	} side[2];
};
void fake_upgrade(struct fake_client *a, struct fake_client *b, const int fds[2], uint64_t token,
		  struct fake_upgrade *ret_upgrade);
/* Closes the slab descriptors. */
void fake_upgrade_done(struct fake_upgrade *u);
/* A mapped side; size_slot from the default or PULC_RING_SIZES geometry of the slab's header. */
struct shm_side *fake_side(int slab_fd, uint64_t size, uint32_t slot);
/* The same, of the side that this end writes. */
struct shm_side *fake_own_side(const struct fake_upgrade *u, unsigned end);
/* How many processes that side's family counts. */
_Atomic uint32_t *fake_own_holders(const struct fake_upgrade *u, unsigned end);

#endif
