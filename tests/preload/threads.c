/* Threads that share a socket. */
#include "case.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

struct job {
	int fd;
	size_t len;
	long result;
};

static void *put_job(void *arg)
{
	struct job *job = arg;

	job->result = (long)put_pattern(job->fd, job->len, 5000);
	return NULL;
}

static void *take_job(void *arg)
{
	struct job *job = arg;

	job->result = (long)take_pattern(job->fd, job->len, 7000);
	return NULL;
}

static void *take_bytes(void *arg)
{
	struct job *job = arg;
	char c;

	while (recv(job->fd, &c, 1, 0) == 1) job->result++;
	return NULL;
}

static void *put_words(void *arg)
{
	struct job *job = arg;
	char word[8];

	memset(word, (int)job->len, sizeof(word));
	for (int i = 0; i < 1000; i++)
		job->result += send(job->fd, word, sizeof(word), 0) == sizeof(word);
	return NULL;
}

static void *recv_one(void *arg)
{
	struct job *job = arg;
	char c;

	job->result = recv(job->fd, &c, 1, 0);
	return NULL;
}

CASE(threads_one_reads_one_writes, DUO)
{
	EACH {
		struct job put = { FD, 1000000, 0 }, take = { FD, 1000000, 0 };
		pthread_t threads[2];

		pthread_create(&threads[0], NULL, put_job, &put);
		pthread_create(&threads[1], NULL, take_job, &take);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		say(p, "put %ld taken %ld", put.result, take.result);
	}
}

CASE(threads_many_readers_share_the_bytes, DUO)
{
	enum { N = 4, LEN = 4000 };

	A {
		pthread_t threads[N];
		struct job jobs[N] = { 0 };
		long sum = 0;

		for (int i = 0; i < N; i++) {
			jobs[i].fd = FD;
			pthread_create(&threads[i], NULL, take_bytes, &jobs[i]);
		}
		for (int i = 0; i < N; i++) {
			pthread_join(threads[i], NULL);
			sum += jobs[i].result;
		}
		say(p, "%ld bytes in all", sum);
	}
	WITH_B {
		T(put_pattern(FD, LEN, 10) == LEN);
		shutdown(FD, SHUT_WR);
	}
}

CASE(threads_many_writers_do_not_tear_words, DUO)
{
	enum { N = 4 };

	A {
		pthread_t threads[N];
		struct job jobs[N];

		for (int i = 0; i < N; i++) {
			jobs[i] = (struct job){ FD, (size_t)('a' + i), 0 };
			pthread_create(&threads[i], NULL, put_words, &jobs[i]);
		}
		for (int i = 0; i < N; i++) {
			pthread_join(threads[i], NULL);
			say(p, "%ld words", jobs[i].result);
		}
		shutdown(FD, SHUT_WR);
	}
	WITH_B {
		int counts[N] = { 0 }, n_torn = 0;
		char word[8];

		while (recv(FD, word, sizeof(word), MSG_WAITALL) == sizeof(word)) {
			bool torn = false;

			for (size_t i = 1; i < sizeof(word); i++) torn |= word[i] != word[0];
			n_torn += torn;
			if (word[0] >= 'a' && word[0] < 'a' + N)
				counts[word[0] - 'a']++;
		}
		say(p, "%d %d %d %d, torn %d", counts[0], counts[1], counts[2], counts[3], n_torn);
	}
}

CASE(threads_all_asleep_each_gets_a_byte, DUO)
{
	enum { N = 6 };

	A {
		pthread_t threads[N];
		struct job jobs[N];
		int n = 0;

		for (int i = 0; i < N; i++) {
			jobs[i] = (struct job){ FD, 0, 0 };
			pthread_create(&threads[i], NULL, recv_one, &jobs[i]);
		}
		*stage_word(p, 1) = 1;
		for (int i = 0; i < N; i++) {
			pthread_join(threads[i], NULL);
			n += jobs[i].result == 1;
		}
		say(p, "%d threads got one", n);
	}
	WITH_B {
		while (!*stage_word(p, 1)) usleep(300);
		until_other_sleeps(p);
		for (int i = 0; i < N; i++) T(send(FD, "x", 1, 0) == 1);
	}
}

CASE(threads_all_asleep_one_burst, DUO)
{
	enum { N = 6 };

	A {
		pthread_t threads[N];
		struct job jobs[N];
		int n = 0;

		for (int i = 0; i < N; i++) {
			jobs[i] = (struct job){ FD, 0, 0 };
			pthread_create(&threads[i], NULL, recv_one, &jobs[i]);
		}
		for (int i = 0; i < N; i++) {
			pthread_join(threads[i], NULL);
			n += jobs[i].result == 1;
		}
		say(p, "%d threads got one", n);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("xxxxxx");
	}
}

CASE(threads_all_asleep_all_see_eof, DUO)
{
	enum { N = 4 };

	A {
		pthread_t threads[N];
		struct job jobs[N];
		int n = 0;

		for (int i = 0; i < N; i++) {
			jobs[i] = (struct job){ FD, 0, 7 };
			pthread_create(&threads[i], NULL, recv_one, &jobs[i]);
		}
		for (int i = 0; i < N; i++) {
			pthread_join(threads[i], NULL);
			n += jobs[i].result == 0;
		}
		say(p, "%d threads saw the end", n);
	}
	WITH_B {
		until_other_sleeps(p);
		shutdown(FD, SHUT_WR);
	}
}

CASE(threads_reader_asleep_does_not_stop_writer, DUO)
{
	A {
		struct job job = { FD, 0, 0 };
		pthread_t thread;

		pthread_create(&thread, NULL, recv_one, &job);
		T(put_pattern(FD, 2000000, 10000) == 2000000);
		pthread_join(thread, NULL);
		say(p, "reader got %ld", job.result);
	}
	WITH_B {
		T(drain_exactly(FD, 2000000));
		SEND("x");
	}
}

CASE(threads_reader_and_poller, DUO)
{
	A {
		struct job job = { FD, 0, 0 };
		struct pollfd pfd = { .fd = FD, .events = POLLIN };
		pthread_t thread;

		T(poll(&pfd, 1, 0) == 0);
		pthread_create(&thread, NULL, recv_one, &job);
		pthread_join(thread, NULL);
		say(p, "reader got %ld", job.result);
		R(poll(&pfd, 1, 0));
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(threads_cancelled_in_recv, DUO)
{
	A {
		struct job job = { FD, 0, 7 };
		pthread_t thread;
		void *result;

		pthread_create(&thread, NULL, recv_one, &job);
		usleep(20000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		T(result == PTHREAD_CANCELED);
		SEND("go");
		RECV(5);
	}
	WITH_B {
		RECV_FLAGS(2, MSG_WAITALL);
		SEND("after");
	}
}

/* Who has been cancelled before does not close: others go on with the descriptor. */
static void *close_cancelled(void *arg)
{
	const struct job *job = arg;

	pthread_cancel(pthread_self());
	close(job->fd);
	return NULL;
}

CASE(threads_cancelled_before_close, ANY)
{
	A {
		struct job job = { FD, 0, 0 };
		pthread_t thread;
		void *result;

		pthread_create(&thread, NULL, close_cancelled, &job);
		pthread_join(thread, &result);
		T(result == PTHREAD_CANCELED);
		SEND("still there");
	}
	answer_and_end(p);
}

/* A stream's close is no place to end at. */
static void *fclose_cancelled(void *arg)
{
	FILE *file = arg;
	int result;

	pthread_cancel(pthread_self());
	result = fclose(file);
	pthread_testcancel();
	return (void *)(intptr_t)(result + 1);
}

CASE(threads_cancelled_before_fclose, ANY)
{
	A {
		pthread_t thread;
		void *result;

		SEND("x");
		pthread_create(&thread, NULL, fclose_cancelled, fdopen(FD, "r"));
		pthread_join(thread, &result);
		T(result == PTHREAD_CANCELED);
		R(fcntl(FD, F_GETFD));
	}
	B {
		RECV(1);
		RECV(1);
	}
}

CASE(threads_come_and_go, DUO)
{
	A {
		for (int i = 0; i < 20; i++) {
			struct job job = { FD, 0, 0 };
			pthread_t thread;

			pthread_create(&thread, NULL, recv_one, &job);
			SEND("x");
			pthread_join(thread, NULL);
			say(p, "%ld", job.result);
		}
	}
	WITH_B {
		for (int i = 0; i < 20; i++) {
			RECV(1);
			SEND("y");
		}
	}
}

struct duel {
	int fds[2];
	long n;
};

static void *duel(void *arg)
{
	struct duel *d = arg;
	char c = 'x';

	for (int i = 0; i < 300; i++)
		d->n += send(d->fds[0], &c, 1, 0) == 1 && recv(d->fds[1], &c, 1, 0) == 1 &&
			send(d->fds[1], &c, 1, 0) == 1 && recv(d->fds[0], &c, 1, 0) == 1;
	close(d->fds[0]);
	d->n += recv(d->fds[1], &c, 1, 0) == 0;
	close(d->fds[1]);
	return NULL;
}

CASE_TRAITS(threads_each_its_own_connection, SELF, OWN_PAIR)
{
	enum { N = 8 };
	struct duel duels[N] = { 0 };
	pthread_t threads[N];
	int fds[2];

	A {
		pair_local(fds);
		warm(p, fds);
		for (int i = 0; i < N; i++) {
			pair_local(duels[i].fds);
			pthread_create(&threads[i], NULL, duel, &duels[i]);
		}
		for (int i = 0; i < N; i++) {
			pthread_join(threads[i], NULL);
			say(p, "%ld", duels[i].n);
		}
	}
}

CASE(threads_fork_while_reader_sleeps, DUO)
{
	A {
		struct job job = { FD, 0, 0 };
		pthread_t thread;
		pid_t pid;

		pthread_create(&thread, NULL, recv_one, &job);
		usleep(10000);
		pid = fork_logged(p);
		if (pid == 0) {
			SEND("child");
			_exit(0);
		}
		reap(p, "child", pid);
		pthread_join(thread, NULL);
		say(p, "reader got %ld", job.result);
	}
	WITH_B {
		RECV_FLAGS(5, MSG_WAITALL);
		SEND("x");
	}
}
