/*
 * A whole psid in this process and one or two clients that say what the input says: every message
 * with any content, in any order, with descriptors of several kinds.
 *
 * The input is a row of steps: one byte for the client (bit 7) and for the descriptors beside the
 * message, one byte of length, the message. The lengths of 253 and more send what it takes to get
 * to the far end of the dialogue: Hello, a hint for one end of a TCP connection, its socket.
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "channel.h"
#include "layout.h"
#include "psid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct psid psid;
static struct psid_config config;
static int tcp[2], event, pipes[2];
static int clients[2];

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void connect_tcp(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	check(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0);
	check(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
	tcp[0] = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(tcp[0], (struct sockaddr *)&address, len) == 0);
	tcp[1] = accept(listener, NULL, NULL);
	(void)close(listener);
}

static void end(void)
{
	psid_stop(&psid);
	psid_run(&psid);
	(void)rmdir(config.runtime_dir);
}

static void start(void)
{
	char dir[] = "/tmp/pulc-fuzz.XXXXXX";
	struct psid_config_error error;

	check(mkdtemp(dir) != NULL && setenv("PULC_RUNTIME_DIR", dir, 1) == 0);
	psid_config_init(&config, false);
	config.log_level = 0;
	config.n_slots = 2;
	config.sec_idle_exit = 0;
	config.msec_hand_over = 10;
	check(psid_config_finish(&config, &error) == 0);
	check(psid_start(&psid, &config) == 0);
}

static void start_once(void)
{
	static bool started;

	if (started)
		return;
	started = true;
	start();
	(void)atexit(end);
	connect_tcp();
	event = eventfd(0, EFD_NONBLOCK);
	check(pipe(pipes) == 0);
}

static void turn(unsigned n)
{
	while (n-- > 0)
		(void)uv_run(&psid.loop, UV_RUN_NOWAIT);
}

static int open_client(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	memcpy(address.sun_path, config.socket, sizeof(config.socket));
	check(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

static void send_hello(int fd)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;

	hello.version = WIRE_VERSION;
	hello.layout = SHM_VERSION;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HELLO;
	msg.hello = &hello;
	(void)wire_send_from_client(fd, &msg, NULL, 0);
}

static void address_of(bool remote, uint8_t bytes[16], uint32_t *ret_port, int socket_fd)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	if (remote)
		check(getpeername(socket_fd, (struct sockaddr *)&in, &len) == 0);
	else
		check(getsockname(socket_fd, (struct sockaddr *)&in, &len) == 0);
	memcpy(bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	memcpy(bytes + 12, &in.sin_addr, 4);
	*ret_port = ntohs(in.sin_port);
}

/* The k-th end, under token k. */
static void send_hint(int fd, unsigned k)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Hint hint = PULC__WIRE__HINT__INIT;
	Pulc__Wire__Tuple tuple = PULC__WIRE__TUPLE__INIT;
	uint8_t local[16], remote[16];
	socklen_t len = 8;

	hint.token = k;
	hint.connector = k == 0;
	(void)getsockopt(tcp[k], SOL_SOCKET, SO_COOKIE, &hint.cookie, &len);
	(void)getsockopt(tcp[k], SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &hint.netns_cookie, &len);
	address_of(false, local, &tuple.local_port, tcp[k]);
	address_of(true, remote, &tuple.remote_port, tcp[k]);
	tuple.local_addr = (ProtobufCBinaryData){ 16, local };
	tuple.remote_addr = (ProtobufCBinaryData){ 16, remote };
	hint.tuple = &tuple;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HINT;
	msg.hint = &hint;
	(void)wire_send_from_client(fd, &msg, NULL, 0);
}

static void send_socket(int fd, unsigned k)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Socket body = PULC__WIRE__SOCKET__INIT;

	body.token = k;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SOCKET;
	msg.socket = &body;
	(void)wire_send_from_client(fd, &msg, &tcp[k], 1);
}

/* One step of the input. Returns what is left of it. */
static size_t step(const uint8_t *data, size_t size)
{
	const int kinds[] = { tcp[0], tcp[1], event, pipes[0] };
	unsigned k = data[0] >> 7;
	size_t n_fds = data[0] & 3, len = data[1];
	int fds[3];

	if (len >= 253) {
		if (len == 255)
			send_hello(clients[k]);
		else if (len == 254)
			send_hint(clients[k], data[0] & 1);
		else
			send_socket(clients[k], data[0] & 1);
		return size - 2;
	}
	if (len > size - 2)
		len = size - 2;
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = kinds[(data[0] >> (2 + i)) & 3];
	(void)wire_send(clients[k], data + 2, len, fds, n_fds);
	return size - 2 - len;
}

/*
 * Everything is given back when the clients have gone. They hold connections until their process
 * exits, which this one does not: then psid has to go.
 */
static void run_to_the_end(void)
{
	(void)close(clients[0]);
	(void)close(clients[1]);
	for (unsigned i = 0; i < 50 && !psid.stopping && psid.clients.n > 0; i++)
		turn(1);
	while (!psid.stopping && psid_closer_pending(&psid.closer) > 0)
		turn(1);
	if (psid.clients.n > 0 || psid.stopping) {
		end();
		start();
	}
	check(psid.hints.n == 0 && psid.conns.n == 0 && psid.size_bytes == 0 && psid.n_areas == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	start_once();
	clients[0] = open_client();
	clients[1] = open_client();
	while (size >= 2) {
		size_t left = step(data, size);

		data += size - left;
		size = left;
		turn(2);
	}
	turn(4);
	run_to_the_end();
	return 0;
}
