/*
 * Proof of owning a connection is holding its socket. What a hint says is only believed after
 *   1. the kernel knows a socket of that tuple and that cookie in a state worth an upgrade
 *      (diag.c), and
 *   2. the client has sent a descriptor, and that is this very socket.
 *
 * For 2 the descriptor itself is asked for nothing but what the kernel answers without its lock:
 * domain, protocol, cookies, device, all at level SOL_SOCKET. A descriptor that is no socket at
 * all answers -ENOTSOCK.
 */
#include "proof.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "diag.h"
#include "hint.h"
#include "log.h"
#include "psid.h"
#include "route.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

static int ask_int(int fd, int option)
{
	int value;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -errno : value;
}

static uint64_t ask_cookie(int fd, int option)
{
	uint64_t value;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? 0 : value;
}

int psid_proof_start(struct psid *psid)
{
	int r = psid_diag_open();

	if (r < 0)
		return r;
	psid->diag_fd = r;
	r = psid_route_open();
	if (r < 0)
		return r;
	psid->route_fd = r;
	psid->netns = ask_cookie(psid->diag_fd, SO_NETNS_COOKIE);
	return psid->netns == 0 ? -EOPNOTSUPP : 0;
}

void psid_proof_stop(struct psid *psid)
{
	psid->diag_fd = close_own(psid->diag_fd);
	psid->route_fd = close_own(psid->route_fd);
}

int psid_proof_hint(const struct psid_hint *hint)
{
	const struct psid *psid = hint->client->psid;
	int r;

	if (hint->netns != psid->netns)
		return PULC__WIRE__REASON__REASON_NETNS;
	r = psid_diag_check(psid->diag_fd, &hint->tuple, hint->cookie);
	if (r >= 0)
		return r;
	psid_log(PSID_WARNING, "the kernel does not tell about sockets: error %d", -r);
	return PULC__WIRE__REASON__REASON_UNSUPPORTED;
}

bool psid_proof_made_by(const struct psid *psid, const struct psid_tuple *tuple, uint64_t cookie,
			uid_t uid)
{
	struct psid_diag_socket s;

	return psid_diag_find(psid->diag_fd, tuple, cookie, &s) == 0 && s.uid == uid;
}

bool psid_proof_is_held(const struct psid *psid, const struct psid_tuple *tuple, uint64_t cookie)
{
	struct psid_diag_socket s;
	int r = psid_diag_find(psid->diag_fd, tuple, cookie, &s);

	return r == 0 ? s.inode != 0 : r != -ENOENT;
}

bool psid_proof_is_unknown(const struct psid *psid, const struct psid_tuple *tuple, uint64_t cookie)
{
	struct psid_diag_socket s;

	return psid_diag_find(psid->diag_fd, tuple, cookie, &s) == -ENOENT;
}

int psid_proof_cookie(const struct psid *psid, int fd, uint64_t *ret_cookie)
{
	int domain = ask_int(fd, SO_DOMAIN);

	if (domain != AF_INET && domain != AF_INET6)
		return PULC__WIRE__REASON__REASON_STALE;
	if (ask_cookie(fd, SO_NETNS_COOKIE) != psid->netns)
		return PULC__WIRE__REASON__REASON_NETNS;
	*ret_cookie = ask_cookie(fd, SO_COOKIE);
	return 0;
}

int psid_proof_socket(const struct psid_hint *hint, int fd)
{
	uint64_t cookie;
	int reason = psid_proof_cookie(hint->client->psid, fd, &cookie);

	if (reason != 0)
		return reason;
	if (cookie != hint->cookie)
		return PULC__WIRE__REASON__REASON_STALE;
	if (ask_int(fd, SO_PROTOCOL) != IPPROTO_TCP)
		return PULC__WIRE__REASON__REASON_ULP; /* MPTCP, or no TCP at all */
	if (ask_int(fd, SO_BINDTOIFINDEX) != 0)
		return PULC__WIRE__REASON__REASON_DEVICE;
	return 0;
}
