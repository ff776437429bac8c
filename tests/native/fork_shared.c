/*
 * A port that a parent and its children use at once: a work queue whose master is not asked who
 * works. Each job goes to one of them, and each answer comes from the one port. Prints how many
 * jobs were done, and then "closed" for each child that hears so of the end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define N_WORKERS 4
#define N_JOBS 500

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

/* Returns 1; 0: that was all; -1. */
static int work(pulc_port *queue, int flags)
{
	struct pulc_address from;
	unsigned job;
	ssize_t n = pulc_receive(queue, &job, sizeof(job), &from, flags);

	if (n < 0)
		return n == -EPIPE || n == -EAGAIN ? 0 : -1;
	job *= 2;
	return pulc_send(queue, &from, &job, sizeof(job), 0) == sizeof(job) ? 1 : -1;
}

static int be_worker(pulc_port *queue)
{
	int e;

	while ((e = work(queue, 0)) > 0)
		;
	if (e < 0 || pulc_port_close(queue) != 0)
		return failed(__LINE__);
	puts("closed");
	return 0;
}

/* What others would be, in this process. */
static int be_customer(pulc_port *mine, const struct pulc_address *queue, pulc_port *shared)
{
	unsigned n_sent = 0, n_done = 0, sum = 0, answer;
	struct pulc_address from;
	ssize_t n;

	while (n_done < N_JOBS) {
		if (n_sent < N_JOBS &&
		    pulc_send(mine, queue, &n_sent, sizeof(n_sent), 0) != sizeof(n_sent))
			return failed(__LINE__);
		n_sent += n_sent < N_JOBS;
		if (work(shared, PULC_DONTWAIT) < 0)
			return failed(__LINE__);
		n = pulc_receive(mine, &answer, sizeof(answer), &from, PULC_DONTWAIT);
		if (n != -EAGAIN && (n != sizeof(answer) || from.port != queue->port))
			return failed(__LINE__);
		if (n != -EAGAIN) {
			n_done++;
			sum += answer;
		}
	}
	printf("%u jobs, %s\n", n_done, sum == N_JOBS * (N_JOBS - 1) ? "right" : "wrong");
	return 0;
}

int main(void)
{
	struct pulc_address address;
	pulc_port *queue, *mine;
	int pids[N_WORKERS], status;

	if (pulc_port_open(PULC_D, 0, NULL, &queue) != 0 ||
	    pulc_port_open(PULC_D, 0, NULL, &mine) != 0)
		return failed(__LINE__);
	address = pulc_port_address(queue);
	for (int i = 0; i < N_WORKERS; i++) {
		pids[i] = (int)fork();
		if (pids[i] == 0) {
			status = be_worker(queue);
			(void)fflush(stdout);
			_exit(status);
		}
	}
	if (be_customer(mine, &address, queue) != 0)
		return 1;
	(void)fflush(stdout);
	if (pulc_port_close(queue) != 0)
		return failed(__LINE__);
	for (int i = 0; i < N_WORKERS; i++)
		if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
			return failed(__LINE__);
	return pulc_port_close(mine) == 0 ? 0 : failed(__LINE__);
}
