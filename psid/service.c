/*
 * What systemd and a service say to each other: by three variables of the environment and by
 * datagrams of text, as sd_notify(3), sd_listen_fds(3) and sd_watchdog_enabled(3) describe them for
 * programs that do without the library. It brings six others along, which are a megabyte of each
 * psid; D-Bus, which is worth a library, is loaded where somebody wants it (jobs/bus_library.c).
 */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"

#define FD_FIRST 3 /* of those that are given */
#define SIZE_TEXT 512

/* ---- telling --------------------------------------------------------------------------------- */

bool psid_service_is_heard(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

/* A path, or a name of the abstract kind after '@'. Returns its length; 0: it is neither. */
static socklen_t address_of(const char *name, struct sockaddr_un *ret_address)
{
	size_t len = strlen(name);

	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(ret_address->sun_path))
		return 0;
	memcpy(ret_address->sun_path, name, len);
	if (name[0] == '@')
		ret_address->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
}

void psid_service_tell(const char *format, ...)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address;
	char text[SIZE_TEXT];
	socklen_t len = name ? address_of(name, &address) : 0;
	CLEANUP_FD int fd = -EBADF;
	va_list args;

	if (len == 0)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
			     len);
}

/* ---- being told ------------------------------------------------------------------------------ */

static uint64_t number_of(const char *variable)
{
	const char *text = getenv(variable);
	char *end = NULL;
	unsigned long long number;

	if (!text || *text < '0' || *text > '9')
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno || *end ? 0 : number;
}

/* What is said to another process of ours, which had this environment before us, is not for us. */
static bool is_for_us(const char *variable)
{
	return number_of(variable) == (uint64_t)getpid();
}

uint64_t psid_service_usec_watchdog(void)
{
	if (getenv("WATCHDOG_PID") && !is_for_us("WATCHDOG_PID"))
		return 0;
	return number_of("WATCHDOG_USEC");
}

static bool has_option(int fd, int option, int wanted)
{
	int value;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

static bool is_bound(int fd, const char *path)
{
	struct sockaddr_un address = { 0 };
	socklen_t len = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &len) < 0 || address.sun_family != AF_UNIX)
		return false;
	return !path || (len > offsetof(struct sockaddr_un, sun_path) + strlen(path) &&
			 strncmp(address.sun_path, path, sizeof(address.sun_path)) == 0);
}

int psid_service_socket(const char *path, int *ret_fd)
{
	uint64_t n = is_for_us("LISTEN_PID") ? number_of("LISTEN_FDS") : 0;

	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_PIDFDID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	if (n == 0)
		return 0;
	if (n > 1 || !has_option(FD_FIRST, SO_TYPE, SOCK_SEQPACKET) ||
	    !has_option(FD_FIRST, SO_ACCEPTCONN, 1) || !is_bound(FD_FIRST, path))
		return -EPROTOTYPE;
	if (fcntl(FD_FIRST, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	*ret_fd = FD_FIRST;
	return 1;
}
