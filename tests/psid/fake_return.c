/* Coming back to a psid; see the header. */
#include "psid/fake_return.h"

#include <sys/stat.h>

uint64_t fake_inode(int fd)
{
	struct stat st;

	REQUIRE(fstat(fd, &st) == 0);
	return st.st_ino;
}

void fake_kept_fill(struct fake_kept *k, const struct fake_upgrade *u, unsigned side, int socket,
		    uint64_t token)
{
	fake_hint_fill(&k->named, socket, token, false);
	pulc__wire__kept__init(&k->kept);
	k->kept.token = token;
	k->kept.slot = u->side[side].own_slot;
	k->kept.peer_inode = fake_inode(u->side[side].peer_fd);
	k->kept.peer_slot = u->side[side].peer_slot;
	k->kept.cookie = k->named.hint.cookie;
	k->kept.tuple = &k->named.tuple;
}

void fake_return_send(struct fake_client *c, struct fake_kept *k, int slab_fd)
{
	Pulc__Wire__Kept *sides[] = { &k->kept };
	Pulc__Wire__Return body = PULC__WIRE__RETURN__INIT;
	FROM_CLIENT(msg, COME_BACK, come_back) = &body;

	k->kept.tuple = &k->named.tuple;
	k->named.tuple.local_addr.data = k->named.local;
	k->named.tuple.remote_addr.data = k->named.remote;
	body.sides = sides;
	body.n_sides = 1;
	fake_send(c, &msg, &slab_fd, 1);
}

uint64_t fake_return(struct fake_client *c, const struct fake_upgrade *u, unsigned side, int socket,
		     uint64_t token)
{
	const Pulc__Wire__Returned *m;
	struct fake_kept k;

	fake_kept_fill(&k, u, side, socket, token);
	fake_return_send(c, &k, u->side[side].own_fd);
	m = EXPECT(c, RETURNED)->returned;
	REQUIRE_INT(m->n_tokens, ==, 1);
	REQUIRE_INT(m->n_conns, ==, 1);
	CHECK_INT(m->tokens[0], ==, token);
	return m->conns[0];
}

void fake_ask_attach(struct fake_client *c, int socket, uint64_t token)
{
	Pulc__Wire__Attach body = PULC__WIRE__ATTACH__INIT;
	FROM_CLIENT(msg, ATTACH, attach) = &body;

	body.token = token;
	fake_send(c, &msg, &socket, 1);
}

unsigned fake_count_sockets(struct daemon *d, const char *path)
{
	Pulc__Wire__SocketsRequest body = PULC__WIRE__SOCKETS_REQUEST__INIT;
	FROM_CLIENT(msg, SOCKETS, sockets) = &body;
	const Pulc__Wire__SocketsReply *reply;
	struct fake_client c;
	unsigned n = 0;

	fake_open(&c, d, (uid_t)-1);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	fake_send(&c, &msg, NULL, 0);
	do {
		reply = EXPECT(&c, SOCKETS)->sockets;
		for (size_t i = 0; i < reply->n_sockets; i++)
			n += reply->sockets[i]->conn != 0 &&
			     strcmp(reply->sockets[i]->path, path) == 0;
	} while (reply->more);
	fake_close(&c);
	return n;
}
