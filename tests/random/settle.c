/*
 * When a call's consequences have come: packets have arrived, and those that answer them, and psid
 * has said what it had to say.
 *
 * The loopback device puts each packet into a queue of the processor that sends it, and a soft
 * interrupt there takes them out in turn; on a busy machine that may be later, in a thread of the
 * kernel's own. So the driver sends a datagram to itself on each processor that the players may run
 * on: when it has come, everything before it has. A few rounds, because an answer (a reset, an ICMP
 * message) joins the queue behind the packet that causes it. The players are confined to two
 * processors, so this is short.
 *
 * psid sleeps when it has read what there was; a player that it has written to reads that in its
 * own next call.
 */
#include "settle.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define N_PROCESSORS_MAX 2
#define N_ROUNDS 3
#define N_LOOKS_ASLEEP 3
#define NSEC_BETWEEN_LOOKS 1000000
#define NSEC_PAUSE                                                                                 \
	60000 /* more than the shim goes without asking the kernel (docs/differences.md: 20 us) */
#define N_LOOKS_PSID 200

static int own = -1;
static cpu_set_t all;

int settle_begin(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return -1;
	CPU_ZERO(&all);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&all) < N_PROCESSORS_MAX; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			CPU_SET(cpu, &all);
	if (sched_setaffinity(0, sizeof(all), &all) < 0)
		return -1;
	own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (bind(own, (struct sockaddr *)&address, size) < 0 ||
	    getsockname(own, (struct sockaddr *)&address, &size) < 0)
		return -1;
	return connect(own, (struct sockaddr *)&address, size);
}

static void follow_packets(void)
{
	char byte = 0;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		cpu_set_t one;

		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		for (int round = 0; round < N_ROUNDS; round++)
			if (send(own, &byte, 1, 0) == 1)
				(void)!recv(own, &byte, 1, 0);
	}
	(void)sched_setaffinity(0, sizeof(all), &all);
}

char process_state(pid_t pid)
{
	char path[64], line[512], *end;
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 'X';
	n = fread(line, 1, sizeof(line) - 1, file);
	(void)fclose(file);
	line[n] = '\0';
	end = strrchr(line, ')');
	return end ? end[2] : 'X';
}

static void pause_nsec(long nsec)
{
	nanosleep(&(struct timespec){ .tv_nsec = nsec }, NULL);
}

bool is_asleep(pid_t pid)
{
	for (int n = 0; n < N_LOOKS_ASLEEP; n++) {
		if (n)
			pause_nsec(NSEC_BETWEEN_LOOKS);
		if (process_state(pid) != 'S')
			return false;
	}
	return true;
}

void settle(pid_t psid)
{
	for (int n = 0; psid && n < N_LOOKS_PSID && process_state(psid) != 'S'; n++)
		pause_nsec(NSEC_PAUSE);
	follow_packets();
	pause_nsec(NSEC_PAUSE);
}
