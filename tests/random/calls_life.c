/*
 * The calls that make descriptors and sockets, hand them on, and end them.
 *
 * A listener or a bound socket gives its address a letter; whoever connects, or sends, names it.
 * Nagle's algorithm is off from the beginning: what it holds back is a matter of time.
 */
#include "call.h"
#include "player.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* What somebody else holds too stays in the kernel's epoll sets when it is closed here, and out of
 * anybody's reach (docs/differences.md): it is taken out before. */
void leave_sets(const struct call *call, int fd)
{
	for (unsigned i = 0; call->world->has_shared && i < N_SLOTS; i++)
		if (call->table->kinds[i] == KIND_EPOLL)
			epoll_ctl(call->table->fds[i], EPOLL_CTL_DEL, fd, NULL);
}

void slot_put(struct call *call, int slot, int fd, enum kind kind)
{
	struct table *table = call->table;

	if (slot < 0)
		return;
	if (table->fds[slot] >= 0 && table->fds[slot] != fd) {
		leave_sets(call, table->fds[slot]);
		call->player->may_sleep = false; /* it may linger, but not for others */
		close(table->fds[slot]);
	}
	table->fds[slot] = fd;
	table->kinds[slot] = (char)(fd < 0 ? KIND_NONE : kind);
}

static void keep_nothing_back(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

/* Port 0 of the loopback address: 4, 6, or 46 for that of IPv4 as IPv6 names it. */
static socklen_t loopback(const char *family, struct sockaddr_storage *ret_address)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_address;
	struct sockaddr_in *in = (struct sockaddr_in *)ret_address;

	*ret_address = (struct sockaddr_storage){ 0 };
	if (strchr(family, '6')) {
		in6->sin6_family = AF_INET6;
		in6->sin6_addr = in6addr_loopback;
		if (family[0] == '4')
			inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6->sin6_addr);
		return sizeof(*in6);
	}
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return sizeof(*in);
}

/* A socket bound to a free port of the loopback address, whose letter is the third word, of the
 * family in the fourth. */
static int bound_socket(struct call *call, int type)
{
	struct address *address = address_of_word(call, call->words[2]);
	struct sockaddr_storage in;
	socklen_t size = loopback(call->words[3], &in);
	int fd = socket(in.ss_family, type, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ type == SOCK_STREAM }, sizeof(int));
	if (!address || bind(fd, (struct sockaddr *)&in, size) < 0) {
		close(fd);
		return -1;
	}
	address->size = sizeof(address->storage);
	getsockname(fd, (struct sockaddr *)&address->storage, &address->size);
	return fd;
}

/* listen slot ADDRESS */
static void call_listen(struct call *call)
{
	int fd = bound_socket(call, SOCK_STREAM);

	keep_nothing_back(fd);
	RESULT(call, listen(fd, 16));
	slot_put(call, call->slot, fd, KIND_LISTENER);
}

/* bound slot ADDRESS: a UDP socket */
static void call_bound(struct call *call)
{
	int fd = bound_socket(call, SOCK_DGRAM);

	answer(call, fd < 0 ? " -1" : " 0");
	slot_put(call, call->slot, fd, KIND_DATAGRAM);
}

/* anew slot ADDRESS: a socket where one is, or was, that of a listener or of a UDP socket */
static void call_anew(struct call *call)
{
	const struct address *at = address_of_word(call, call->words[2]);
	bool is_listener = call->words[2][0] == 'A';
	int fd = socket(at->storage.ss_family, is_listener ? SOCK_STREAM : SOCK_DGRAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ is_listener }, sizeof(int));
	keep_nothing_back(fd);
	RESULT(call, bind(fd, (const struct sockaddr *)&at->storage, at->size));
	if (is_listener)
		RESULT(call, listen(fd, 16));
	slot_put(call, call->slot, fd, is_listener ? KIND_LISTENER : KIND_DATAGRAM);
}

/* vacate ADDRESS: a port that nobody has any more */
static void call_vacate(struct call *call)
{
	struct address *address = address_of_word(call, call->words[1]);
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, call->words[2][0] == 'u' ? SOCK_DGRAM : SOCK_STREAM, 0);

	answer(call, " 0");
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0) {
		address->size = sizeof(address->storage);
		getsockname(fd, (struct sockaddr *)&address->storage, &address->size);
	}
	close(fd);
}

/* connect slot ADDRESS: by a socket of its own where the slot is empty */
static void call_connect(struct call *call)
{
	const struct address *to = address_of_word(call, call->words[2]);
	bool is_new = call->fd < 0;
	int fd = is_new ? socket(to->storage.ss_family, SOCK_STREAM, 0) : call->fd;

	if (is_new)
		keep_nothing_back(fd);
	RESULT(call, connect(fd, (const struct sockaddr *)&to->storage, to->size));
	if (is_new)
		slot_put(call, call->slot, fd, KIND_STREAM);
}

/* begin slot ADDRESS: by a socket of its own that does not wait */
static void call_begin(struct call *call)
{
	const struct address *to = address_of_word(call, call->words[2]);
	int fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	keep_nothing_back(fd);
	RESULT(call, connect(fd, (const struct sockaddr *)&to->storage, to->size));
	slot_put(call, call->slot, fd, KIND_STREAM);
}

/* disconnect slot: by AF_UNSPEC */
static void call_disconnect(struct call *call)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	RESULT(call, connect(call->fd, &none, sizeof(none)));
}

/* accept listener slot 0 or 1: is it to be one that does not wait? */
static void call_accept(struct call *call)
{
	int fd;

	note_patience(call, call->fd);
	errno = ERRNO_UNTOUCHED;
	fd = accept4(call->fd, NULL, NULL, number_of(call->words[3]) ? SOCK_NONBLOCK : 0);
	answer_result(call, fd < 0 ? fd : 0);
	if (fd >= 0)
		slot_put(call, slot_of(call->words[2]), fd, KIND_STREAM);
}

/* shutdown slot RD, WR or RDWR */
static void call_shutdown(struct call *call)
{
	const char *how = call->words[2];

	RESULT(call, shutdown(call->fd, strcmp(how, "RD") == 0	 ? SHUT_RD
					: strcmp(how, "WR") == 0 ? SHUT_WR
								 : SHUT_RDWR));
}

static void call_close(struct call *call)
{
	leave_sets(call, call->fd);
	RESULT(call, close(call->fd));
	call->table->fds[call->slot] = -1;
	call->table->kinds[call->slot] = KIND_NONE;
}

/* dup slot SLOT, by dup2 where that one is in use */
static void call_dup(struct call *call)
{
	int slot = slot_of(call->words[2]), old = fd_of(call, call->words[2]), fd;

	if (call->fd == old && old >= 0)
		return;
	if (old >= 0 && call->fd >= 0)
		leave_sets(call, old);
	errno = ERRNO_UNTOUCHED;
	fd = old >= 0 ? dup2(call->fd, old) : dup(call->fd);
	answer_result(call, fd < 0 ? fd : 0);
	if (fd >= 0) {
		call->table->fds[slot] = fd;
		call->table->kinds[slot] = call->table->kinds[call->slot];
	}
}

/* ---- to other processes ---------------------------------------------------------------------- */

void empty(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno == ECONNREFUSED)
		;
}

/* drain: before its player is killed. What connected sockets have sent to one that dies unread is
 * refused under PULC (docs/differences.md). */
static void call_drain(struct call *call)
{
	for (unsigned i = 0; i < N_SLOTS; i++)
		if (call->table->kinds[i] == KIND_DATAGRAM)
			empty(call->table->fds[i]);
}

static void close_sets(struct table *table)
{
	for (unsigned i = 0; i < N_SLOTS; i++)
		if (table->kinds[i] == KIND_EPOLL) {
			close(table->fds[i]);
			table->fds[i] = -1;
			table->kinds[i] = KIND_NONE;
		}
}

/* fork N: player N is the child, with all that its parent has but epoll sets, which processes do
 * not share under PULC (docs/differences.md) */
static void call_fork(struct call *call)
{
	long n = number_of(call->words[1]);
	struct player *child = &call->world->players[n];
	pid_t pid;

	child->table = (unsigned)n;
	call->world->tables[n] = *call->table;
	call->world->has_shared = true;
	pid = fork();
	if (pid == 0) {
		close_sets(&call->world->tables[n]);
		player_run(call->world, child);
	}
	answer(call, pid > 0 ? " 0" : " -1");
	if (pid > 0)
		child->pid = child->process = pid;
}

/* What its peer has sent through a ring and can send no more is lost to a program that knows
 * nothing of rings (docs/differences.md). */
static void receive_all(const struct table *table)
{
	char bytes[4096];

	for (unsigned i = 0; i < N_SLOTS; i++)
		while (table->kinds[i] == KIND_STREAM &&
		       recv(table->fds[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
}

/* exec, or exec plain: the same program anew, as the same player, which answers when it has begun
 * (player.c); plain: without the shim, with all connections read out */
static void call_exec(struct call *call)
{
	char number[16];
	char *argv[] = { "sequence", "--player", number, NULL };

	(void)snprintf(number, sizeof(number), "%d", (int)(call->player - call->world->players));
	for (unsigned i = 0; i < N_SLOTS; i++)
		if (call->table->kinds[i] == KIND_DATAGRAM)
			empty(call->table->fds[i]);
	close_sets(call->table);
	if (strcmp(call->words[1], "plain") == 0) {
		receive_all(call->table);
		unsetenv("LD_PRELOAD");
	}
	call->player->is_executing = true;
	execv("/proc/self/exe", argv);
	call->player->is_executing = false;
	RESULT(call, -1);
}

static void call_exit(struct call *call)
{
	(void)call;
	exit(0);
}

const struct verb verbs_life[] = {
	{ "listen", call_listen },
	{ "bound", call_bound },
	{ "vacate", call_vacate },
	{ "anew", call_anew },
	{ "connect", call_connect },
	{ "begin", call_begin },
	{ "disconnect", call_disconnect },
	{ "accept", call_accept },
	{ "shutdown", call_shutdown },
	{ "close", call_close },
	{ "dup", call_dup },
	{ "drain", call_drain },
	{ "fork", call_fork },
	{ "exec", call_exec },
	{ "exit", call_exit },
	{ NULL, NULL },
};
