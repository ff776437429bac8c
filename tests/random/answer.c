/*
 * How a call is answered: values, names of errors and bits, the bytes that came.
 *
 * The answer is what two plays are compared by, so nothing stands in it that may differ on the same
 * kernel: no descriptor number, no port, no time. Bytes show by which step they were sent, so a
 * reader of a trace sees whose they are.
 */
#include "call.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>

#include "rawsys.h"

#define N_SHOWN 24

static const struct word {
	const char *name;
	unsigned bit;
} words_msg[] = { { "PEEK", MSG_PEEK },
		  { "TRUNC", MSG_TRUNC },
		  { "WAITALL", MSG_WAITALL },
		  { "DONTWAIT", MSG_DONTWAIT },
		  { "NOSIGNAL", MSG_NOSIGNAL },
		  { "OOB", MSG_OOB },
		  { "CTRUNC", MSG_CTRUNC },
		  { "ERRQUEUE", MSG_ERRQUEUE },
		  { "WAITFORONE", MSG_WAITFORONE },
		  { "DONTROUTE", MSG_DONTROUTE },
		  { "CONFIRM", MSG_CONFIRM },
		  { "EOR", MSG_EOR },
		  { NULL, 0 } },
  words_poll[] = { { "IN", POLLIN },	     { "PRI", POLLPRI },       { "OUT", POLLOUT },
		   { "ERR", POLLERR },	     { "HUP", POLLHUP },       { "NVAL", POLLNVAL },
		   { "RDNORM", POLLRDNORM }, { "WRNORM", POLLWRNORM }, { "RDBAND", POLLRDBAND },
		   { "WRBAND", POLLWRBAND }, { "RDHUP", POLLRDHUP },   { NULL, 0 } },
  words_epoll[] = { { "IN", EPOLLIN },		 { "PRI", EPOLLPRI },
		    { "OUT", EPOLLOUT },	 { "ERR", EPOLLERR },
		    { "HUP", EPOLLHUP },	 { "RDHUP", EPOLLRDHUP },
		    { "RDNORM", EPOLLRDNORM },	 { "WRNORM", EPOLLWRNORM },
		    { "RDBAND", EPOLLRDBAND },	 { "WRBAND", EPOLLWRBAND },
		    { "MSG", EPOLLMSG },	 { "EXCLUSIVE", EPOLLEXCLUSIVE },
		    { "WAKEUP", EPOLLWAKEUP },	 { "ET", EPOLLET },
		    { "ONESHOT", EPOLLONESHOT }, { NULL, 0 } },
  *const vocabularies[] = { words_msg, words_poll, words_epoll };

unsigned bits_of(enum vocabulary vocabulary, const char *text)
{
	unsigned bits = 0;

	for (const struct word *w = vocabularies[vocabulary]; w->name; w++) {
		size_t n = strlen(w->name);

		for (const char *at = text; (at = strstr(at, w->name)); at += n)
			if ((at == text || at[-1] == '|') && (at[n] == '\0' || at[n] == '|'))
				bits |= w->bit;
	}
	return bits;
}

void answer_bits(struct call *call, enum vocabulary vocabulary, unsigned bits)
{
	const char *between = " ";

	for (const struct word *w = vocabularies[vocabulary]; w->name; w++)
		if (bits & w->bit) {
			answer(call, "%s%s", between, w->name);
			between = "|";
			bits &= ~w->bit;
		}
	if (bits)
		answer(call, "%s0x%x", between, bits);
}

void answer(struct call *call, const char *format, ...)
{
	char *text = call->player->answer;
	size_t n = strlen(text);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text + n, ANSWER_MAX - n, format, args);
	va_end(args);
}

void answer_result(struct call *call, long value)
{
	int error = errno;
	const char *name = strerrorname_np(error);

	if (value == -1)
		answer(call, " -1 %s", name ? name : "no error");
	else
		answer(call, " %ld%s", value,
		       error != ERRNO_UNTOUCHED ? " and errno was touched" : "");
}

void answer_bytes(struct call *call, const char *bytes, size_t n)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ (unsigned char)bytes[i]) * 0x100000001b3;
	answer(call, " \"%.*s\"", (int)(n < N_SHOWN ? n : N_SHOWN), bytes);
	if (n > N_SHOWN)
		answer(call, " sum %016llx", (unsigned long long)sum);
}

void answer_address(struct call *call, const void *address, socklen_t size)
{
	const struct address *known = call->world->addresses;

	for (unsigned i = 0; i < N_ADDRESSES; i++)
		if (known[i].size && known[i].size == size &&
		    memcmp(address, &known[i].storage, size) == 0) {
			answer(call, " %c", (char)('A' + i));
			return;
		}
	answer(call, " another of %u bytes", size);
}

void fill_step(const struct call *call, char *bytes, size_t n)
{
	char head[16];
	size_t n_head = (size_t)snprintf(head, sizeof(head), "%u", call->player->step);

	for (size_t i = 0; i < n; i++)
		bytes[i] = i < n_head ? head[i] : (char)('a' + i % 26);
}

void note_patience(struct call *call, int fd)
{
	struct timeval limit = { 0 };
	socklen_t size = sizeof(limit);

	raw_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &size);
	call->player->may_sleep = !limit.tv_sec && !limit.tv_usec;
}

/* ---- words of a call ------------------------------------------------------------------------- */

int slot_of(const char *word)
{
	return word[0] >= 'a' && word[0] <= 'z' && word[1] == '\0' ? word[0] - 'a' : -1;
}

int fd_of(const struct call *call, const char *word)
{
	int slot = slot_of(word);

	return slot < 0 ? -1 : call->table->fds[slot];
}

long number_of(const char *word)
{
	return strtol(word, NULL, 10);
}

size_t size_word(const struct call *call, unsigned i)
{
	long n = number_of(call->words[i]);

	return n < 0 || n > SIZE_CALL_MAX ? SIZE_CALL_MAX : (size_t)n;
}

struct address *address_of_word(struct call *call, const char *word)
{
	unsigned i = (unsigned)(word[0] - 'A');

	return i < N_ADDRESSES && word[1] == '\0' ? &call->world->addresses[i] : NULL;
}
