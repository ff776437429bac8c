/*
 * Connected pairs and their warm-up.
 *
 * Whether a connection's bytes go through rings is seen from outside of PULC: kernel_count.h.
 */
#include "kernel_count.h"
#include "stage.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

/* An upgrade takes a few messages to a daemon; on a loaded machine they take their time. */
#define USEC_WARM_MAX 3000000
#define N_EAGER_EXCHANGES 40
#define N_EXCHANGES_WITHOUT_RINGS 3

uint64_t usec_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void pause_usec(unsigned usec)
{
	nanosleep(&(struct timespec){ .tv_nsec = usec * 1000L }, NULL);
}

int warm_goal(void)
{
	const char *text = getenv("CASE_WARM");

	if (!text)
		return N_EXCHANGES_WITHOUT_RINGS;
	return strcmp(text, "rings") == 0 ? WARM_RINGS : atoi(text);
}

void nodelay(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

/* ---- making them ----------------------------------------------------------------------------- */

void address_of(const char *host, uint16_t port, struct address *ret_address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&ret_address->storage;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ret_address->storage;

	memset(ret_address, 0, sizeof(*ret_address));
	if (strchr(host, ':')) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		inet_pton(AF_INET6, host, &in6->sin6_addr);
		ret_address->size = sizeof(*in6);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		inet_pton(AF_INET, host, &in->sin_addr);
		ret_address->size = sizeof(*in);
	}
}

int listen_on(const char *host, struct address *ret_address)
{
	int fd;

	address_of(host, 0, ret_address);
	fd = socket(ret_address->storage.ss_family, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(fd, (struct sockaddr *)&ret_address->storage, ret_address->size) < 0 ||
	    listen(fd, 128) < 0)
		return -1;
	ret_address->size = sizeof(ret_address->storage);
	getsockname(fd, (struct sockaddr *)&ret_address->storage, &ret_address->size);
	return fd;
}

int connect_to(const struct address *to, int flags)
{
	int fd = socket(to->storage.ss_family, SOCK_STREAM | flags, 0);

	if (connect(fd, (const struct sockaddr *)&to->storage, to->size) < 0 &&
	    errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

void pair_on(const char *host, int fds[2])
{
	struct address address;
	int listener = listen_on(host, &address);

	fds[0] = connect_to(&address, 0);
	fds[1] = accept(listener, NULL, NULL);
	close(listener);
	nodelay(fds[0]);
	nodelay(fds[1]);
}

void pair_local(int fds[2])
{
	const char *host = getenv("CASE_HOST");

	pair_on(host ? host : "127.0.0.1", fds);
}

void play_prepare_listener(struct play *p)
{
	const char *host = getenv("CASE_HOST");
	struct address address;

	if (p->tcase->traits & DATAGRAMS)
		return;
	p->listener = listen_on(host ? host : "127.0.0.1", &address);
}

static int connect_to_listener(int listener)
{
	struct address address = { .size = sizeof(address.storage) };

	getsockname(listener, (struct sockaddr *)&address.storage, &address.size);
	return connect_to(&address, 0);
}

/* Makes this actor's ends. The connecting side is A unless the environment swaps the roles. */
void play_open(struct play *p)
{
	const char *role = getenv("CASE_ROLE");
	int connector = role && strcmp(role, "accept") == 0 ? SIDE_B : SIDE_A;

	if (p->tcase->traits & DATAGRAMS) {
		play_open_datagrams(p);
		return;
	}
	if (p->actor & 1u << connector)
		p->fds[connector] = connect_to_listener(p->listener);
	if (p->actor & 1u << !connector)
		p->fds[!connector] = accept(p->listener, NULL, NULL);
	if (p->mode == THREAD)
		play_phase(p);
	if (p->mode != THREAD || p->actor & 1u << SIDE_A)
		close(p->listener);
	if (!(p->tcase->traits & DELAYED))
		EACH { nodelay(FD); }
}

/* ---- warming up ------------------------------------------------------------------------------ */

/* True: the byte did not go through the kernel. */
static bool send_byte(int fd)
{
	uint64_t before = kernel_count_written(fd);

	while (send(fd, "w", 1, MSG_NOSIGNAL) < 0 && (errno == EAGAIN || errno == EINTR))
		poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 1000);
	return kernel_count_written(fd) == before;
}

static void take_byte(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, 0) < 0 && (errno == EAGAIN || errno == EINTR))
		poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 1000);
}

/* Whether another exchange is due; slower once the upgrade lets one wait. */
bool warm_goes_on(struct stage *stage, unsigned n_done, uint64_t usec_start)
{
	int goal = warm_goal();

	if (goal != WARM_RINGS)
		return n_done < (unsigned)goal;
	if (stage->on_rings[SIDE_A] > 1 && stage->on_rings[SIDE_B] > 1)
		return false;
	if (n_done >= N_EAGER_EXCHANGES)
		pause_usec(1000);
	return usec_clock() - usec_start < USEC_WARM_MAX;
}

static void note_path(struct stage *stage, int side, bool on_ring)
{
	stage->on_rings[side] = on_ring ? stage->on_rings[side] + 1 : 0;
}

void warm_conclude(struct stage *stage)
{
	stage->is_warm = stage->on_rings[SIDE_A] > 1 && stage->on_rings[SIDE_B] > 1;
}

void play_warm(struct play *p)
{
	struct stage *stage = p->stage;
	uint64_t usec_start = usec_clock();
	bool go_on = true;

	if (p->tcase->traits & DATAGRAMS) {
		play_warm_datagrams(p);
		return;
	}

	for (unsigned n = 0; go_on; n++) {
		A { stage->words[0] = warm_goes_on(stage, n, usec_start); }
		B { go_on = stage->words[0]; }
		A { go_on = stage->words[0]; }
		if (!go_on)
			break;
		A { note_path(stage, SIDE_A, send_byte(FD)); }
		B { take_byte(FD); }
		B { note_path(stage, SIDE_B, send_byte(FD)); }
		A { take_byte(FD); }
	}
	A {
		stage->words[0] = 0;
		warm_conclude(stage);
	}
}

void warm(struct play *p, int fds[2])
{
	struct stage *stage = p->stage;
	uint64_t usec_start = usec_clock();

	note_path(stage, SIDE_A, false);
	note_path(stage, SIDE_B, false);
	for (unsigned n = 0; warm_goes_on(stage, n, usec_start); n++) {
		for (int side = SIDE_A; side <= SIDE_B; side++) {
			note_path(stage, side, send_byte(fds[side]));
			take_byte(fds[!side]);
		}
	}
	warm_conclude(stage);
	if (p->tcase->traits & OWN_PAIR)
		play_gate(p);
}

void warm_one_way(struct play *p, int fds[2])
{
	struct stage *stage = p->stage;
	uint64_t usec_start = usec_clock();
	bool on_ring = false;

	for (unsigned n = 0; warm_goes_on(stage, n, usec_start); n++) {
		for (int side = SIDE_A; side <= SIDE_B; side++) note_path(stage, side, on_ring);
		on_ring = send_byte(fds[0]);
		take_byte(fds[1]);
	}
	warm_conclude(stage);
	if (p->tcase->traits & OWN_PAIR)
		play_gate(p);
}

/* ---- waiting for what TCP gives no time for -------------------------------------------------- */

#define USEC_SETTLE_MAX 30000000
#define USEC_REST_MAX 2000000

void settle(struct play *p, int fd, int n)
{
	uint64_t usec_start = usec_clock();
	int have = 0;

	while (ioctl(fd, FIONREAD, &have) == 0 && have < n) {
		if (usec_clock() - usec_start > USEC_SETTLE_MAX) {
			say(p, "only %d of %d bytes have come", have, n);
			return;
		}
		pause_usec(200);
	}
}

void settle_poll(struct play *p, int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	if (poll(&pfd, 1, USEC_SETTLE_MAX / 1000) <= 0 || !(pfd.revents & events))
		say(p, "the awaited poll event has not come");
}

static char process_state(pid_t tid)
{
	char path[64], line[512], *end;
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	file = fopen(path, "re");
	if (!file)
		return 'X';
	n = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[n] = '\0';
	end = strrchr(line, ')');
	return end ? end[2] : 'X';
}

/* Asleep a few looks in a row: a short sleep on the way into the call is not taken for the wait. */
void until_thread_sleeps(pid_t tid)
{
	for (int n_asleep = 0; n_asleep < 4;) {
		char state = process_state(tid);

		if (state == 'X' || state == 'Z')
			return;
		n_asleep = state == 'S' ? n_asleep + 1 : 0;
		pause_usec(1500);
	}
}

void until_process_sleeps(pid_t pid)
{
	until_thread_sleeps(pid);
}

void until_other_sleeps(struct play *p)
{
	int other = !p->side;

	while (p->stage->phase[other] != p->phase) pause_usec(200);
	until_thread_sleeps(p->stage->tid[other]);
}

/* ---- patterned transfers --------------------------------------------------------------------- */

/* Of period 65521 (a prime), so that no buffer's or ring's size hides a displacement. */
static unsigned char pattern_byte(uint64_t at)
{
	uint32_t x = (uint32_t)(at % 65521) * 2654435761u;

	return (unsigned char)(x >> 24 ^ x >> 13);
}

void fill_pattern(void *buf, size_t len, uint64_t at)
{
	for (size_t i = 0; i < len; i++) ((unsigned char *)buf)[i] = pattern_byte(at + i);
}

bool is_pattern(const void *buf, size_t len, uint64_t at)
{
	for (size_t i = 0; i < len; i++)
		if (((const unsigned char *)buf)[i] != pattern_byte(at + i))
			return false;
	return true;
}

size_t put_pattern(int fd, size_t len, size_t chunk)
{
	char *buf = malloc(chunk);
	size_t done = 0;

	while (done < len) {
		size_t n = len - done < chunk ? len - done : chunk;
		ssize_t sent;

		fill_pattern(buf, n, done);
		sent = send(fd, buf, n, MSG_NOSIGNAL);
		if (sent <= 0)
			break;
		done += (size_t)sent;
	}
	free(buf);
	return done;
}

size_t take_pattern(int fd, size_t len, size_t chunk)
{
	char *buf = malloc(chunk);
	size_t done = 0;

	while (done < len) {
		size_t n = len - done < chunk ? len - done : chunk;
		ssize_t got = recv(fd, buf, n, 0);

		if (got <= 0 || !is_pattern(buf, (size_t)got, done))
			break;
		done += (size_t)got;
	}
	free(buf);
	return done;
}

/* Busy, for an actor that sleeps is one that has blocked. */
static void await_rest(int fd)
{
	uint64_t usec_start = usec_clock();

	while (!kernel_is_at_rest(fd) && usec_clock() - usec_start < USEC_REST_MAX)
		(void)sched_yield();
}

size_t stuff(int fd)
{
	static __thread char buf[16384];
	bool at_rest = false;
	size_t done = 0;

	for (;;) {
		ssize_t sent;

		fill_pattern(buf, sizeof(buf), done);
		sent = send(fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent <= 0 && at_rest)
			return done;
		if (sent <= 0)
			await_rest(fd);
		at_rest = sent <= 0;
		done += sent > 0 ? (size_t)sent : 0;
	}
}

bool drain_exactly(int fd, size_t len)
{
	return take_pattern(fd, len, 65536) == len;
}
