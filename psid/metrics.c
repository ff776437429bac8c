/*
 * Metrics over HTTP, by libmicrohttpd, for Prometheus and its like; docs/metrics.md names them.
 *
 * The library brings no thread: it keeps its sockets in an epoll of its own, which is one
 * descriptor in psid's loop, and a timer follows the next moment at which it wants to give somebody
 * up. So an answer is written in the loop, from psid's own tables, in between two turns of
 * everything else; there is nothing to lock. It never blocks: who sends half a request, or does not
 * read the answer, holds one of a bounded number of places for a bounded time.
 *
 * Whoever can connect may read. It is off unless it is asked for, and a port alone means this
 * machine only. No metric names a user, a program or an address.
 */
#include "metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "log.h"
#include "macros.h"
#include "microhttpd_library.h"
#include "psid.h"
#include "traffic.h"

#define N_CONNECTIONS 128u
#define SEC_SILENCE 10u
#define SIZE_REQUEST (16u << 10) /* with all its headers */

struct psid_metrics {
	struct psid *psid;
	struct MHD_Daemon *server;
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned n_handles;
};

static const struct psid_microhttpd *http;

/* ---- answers --------------------------------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
			      struct MHD_Response *response)
{
	enum MHD_Result r;

	if (!response)
		return MHD_NO; /* no memory: the connection ends */
	(void)http->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)http->add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	r = http->queue_response(connection, status, response);
	http->destroy_response(response);
	return r;
}

static enum MHD_Result answer_words(struct MHD_Connection *connection, unsigned status,
				    const char *words)
{
	return answer(connection, status, "text/plain; charset=utf-8",
		      http->create_response_from_buffer(strlen(words), (void *)words,
							MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection, struct psid *psid)
{
	struct MHD_Response *response;
	size_t len;
	char *text;

	(void)psid_traffic_look(psid, nsec_now() / NSEC_PER_USEC);
	text = psid_metrics_text(psid, &len);
	if (!text)
		return MHD_NO;
	response = http->create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
	if (!response)
		free(text);
	return answer(connection, MHD_HTTP_OK,
		      "application/openmetrics-text; version=1.0.0; charset=utf-8", response);
}

/* Headers are there. A body is not waited for: no request that we answer has one. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *body,
				  size_t *size_body, void **state)
{
	const struct psid_metrics *metrics = data;

	(void)version;
	(void)body;
	(void)size_body;
	(void)state;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return answer_words(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				    "there is only GET here\n");
	if (strcmp(url, "/metrics") != 0)
		return answer_words(connection, MHD_HTTP_NOT_FOUND,
				    "the metrics are at /metrics\n");
	return answer_metrics(connection, metrics->psid);
}

/* ---- in the loop ----------------------------------------------------------------------------- */

static void turn(struct psid_metrics *metrics);

static void on_timer(uv_timer_t *timer)
{
	turn(CONTAINER_OF(timer, struct psid_metrics, timer));
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	turn(CONTAINER_OF(poll, struct psid_metrics, poll));
}

static unsigned n_connections(const struct psid_metrics *metrics)
{
	const union MHD_DaemonInfo *info =
		http->get_daemon_info(metrics->server, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info ? info->num_connections : 0;
}

/*
 * At its limit of connections the library takes the listening socket out of its epoll, and puts it
 * back when it is next run; that must be soon after a connection has ended, for nothing else would
 * call us.
 */
static void turn(struct psid_metrics *metrics)
{
	unsigned n_before = n_connections(metrics);
	MHD_UNSIGNED_LONG_LONG msec;

	(void)http->run(metrics->server);
	if (n_connections(metrics) < n_before)
		(void)uv_timer_start(&metrics->timer, on_timer, 0, 0);
	else if (http->get_timeout(metrics->server, &msec) == MHD_YES)
		(void)uv_timer_start(&metrics->timer, on_timer, msec, 0);
	else
		(void)uv_timer_stop(&metrics->timer);
}

/* ---- from start to end ----------------------------------------------------------------------- */

static int listen_at(const struct psid_address *address, int *ret_fd)
{
	CLEANUP_FD int fd = -EBADF;
	int r = psid_address_open(address, AF_INET6, SOCK_STREAM, &fd);

	if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) /* a kernel without IPv6 */
		r = psid_address_open(address, AF_INET, SOCK_STREAM, &fd);
	if (r < 0)
		return r;
	if (listen(fd, SOMAXCONN) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Takes fd, also when it fails. */
static int serve(struct psid_metrics *metrics, int fd)
{
	const union MHD_DaemonInfo *info;

	metrics->server = http->start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, on_request, metrics, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, N_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
		SEC_SILENCE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SIZE_REQUEST,
		MHD_OPTION_END);
	if (!metrics->server) {
		(void)close_own(fd);
		return -ENOMEM;
	}
	info = http->get_daemon_info(metrics->server, MHD_DAEMON_INFO_EPOLL_FD);
	return info ? uv_poll_init(&metrics->psid->loop, &metrics->poll, info->epoll_fd) : -ENOTSUP;
}

static int start(struct psid_metrics *metrics)
{
	int fd = -EBADF, r;

	http = psid_microhttpd();
	if (!http)
		return -ELIBACC;
	r = listen_at(&metrics->psid->config->metrics, &fd);
	if (r == 0)
		r = serve(metrics, fd);
	if (r < 0)
		return r;
	(void)uv_timer_init(&metrics->psid->loop, &metrics->timer);
	metrics->n_handles = 2;
	(void)uv_poll_start(&metrics->poll, UV_READABLE, on_readable);
	return 0;
}

struct psid_metrics *psid_metrics_start(struct psid *psid)
{
	const struct psid_address *address = &psid->config->metrics;
	CLEANUP_FREE struct psid_metrics *metrics = NULL;
	char text[PSID_SIZE_ADDRESS_TEXT];
	int r;

	if (address->port == 0)
		return NULL;
	metrics = calloc(1, sizeof(*metrics));
	if (metrics)
		metrics->psid = psid;
	r = metrics ? start(metrics) : -ENOMEM;
	(void)psid_address_text(address, text);
	if (r == 0) {
		psid_log(PSID_INFO, "metrics at http://%s/metrics", text);
		return TAKE_PTR(metrics);
	}
	if (metrics && metrics->server)
		http->stop_daemon(metrics->server);
	psid_log(PSID_ERROR, "Metrics %s: %s; going on without", text, strerror(-r));
	return NULL;
}

static void on_closed(uv_handle_t *handle)
{
	struct psid_metrics *metrics = handle->data;

	if (--metrics->n_handles == 0)
		free(metrics);
}

void psid_metrics_stop(struct psid_metrics *metrics)
{
	if (!metrics)
		return;
	metrics->poll.data = metrics->timer.data = metrics;
	uv_close((uv_handle_t *)&metrics->poll, on_closed);
	uv_close((uv_handle_t *)&metrics->timer, on_closed);
	http->stop_daemon(metrics->server);
}
