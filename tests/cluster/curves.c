/*
 * The membership's behaviour against the number of nodes, in virtual time: the tables of
 * docs/cluster.md. `make build/tests/cluster/curves && build/tests/cluster/curves [NODES...]`.
 *
 * For each number of nodes and each loss: bytes and datagrams that an idle node sends a second; the
 * age of the news of loads; false suspicions and deaths; how long after a silent death all others
 * know (median and worst of several).
 */
#include <stdio.h>
#include <stdlib.h>

#include "cluster/sim.h"
#include "macros.h"

#define N_DEATHS 9u
#define SEC_IDLE 30

static struct sim sim;

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sum_sent(uint64_t *ret_n, uint64_t *ret_size)
{
	*ret_n = *ret_size = 0;
	for (unsigned i = 0; i < sim.n; i++) {
		*ret_n += sim.nodes[i].n_sent;
		*ret_size += sim.nodes[i].size_sent;
	}
}

/* Seconds, over what some nodes know of all others. */
static double mean_age(void)
{
	double sum = 0;
	size_t n = 0;

	for (unsigned i = 0; i < MIN(sim.n, 16u); i++) {
		const struct psid_members *members = &sim.nodes[i].swim.members;

		for (size_t j = 0; j < members->n; j++) {
			if (members->nodes[j] == sim.nodes[i].swim.self)
				continue;
			sum += (double)(sim.usec_now - members->nodes[j]->usec_load) / SIM_SEC;
			n++;
		}
	}
	return sum / (double)n;
}

static void measure(unsigned n, unsigned permille_loss)
{
	uint64_t n_before, size_before, n_after, size_after;
	uint64_t times[N_DEATHS] = { 0 }, median;
	unsigned n_deaths = MIN(N_DEATHS, n - 2);

	sim_init(&sim, n, n);
	sim.permille_loss = permille_loss;
	sim_start_acquainted(&sim);
	sim_run(&sim, 10 * SIM_SEC);
	sum_sent(&n_before, &size_before);
	sim_run(&sim, SEC_IDLE * SIM_SEC);
	sum_sent(&n_after, &size_after);
	printf("| %u | %u %% | %.0f | %.1f | %.1f |", n, permille_loss / 10,
	       (double)(size_after - size_before) / n / SEC_IDLE,
	       (double)(n_after - n_before) / n / SEC_IDLE, mean_age());
	printf(" %llu | %llu |", (unsigned long long)sim.n_suspected_falsely,
	       (unsigned long long)sim.n_buried_falsely);
	for (unsigned i = 0; i < n_deaths; i++) {
		sim_kill(&sim, 1 + i);
		times[i] = sim_run_until_all(&sim, 1 + i, PSID_NODE_DEAD, 60 * SIM_SEC);
		sim_run(&sim, 500 * SIM_MSEC + i * 61 * SIM_MSEC);
	}
	qsort(times, n_deaths, sizeof(times[0]), compare);
	median = times[n_deaths / 2];
	printf(" %.2f | %.2f |\n", (double)median / SIM_SEC, (double)times[n_deaths - 1] / SIM_SEC);
	(void)fflush(stdout);
	sim_deinit(&sim);
}

int main(int argc, char **argv)
{
	static const unsigned usual[] = { 4, 16, 64, 128, 512, 2000 };
	size_t n = argc > 1 ? (size_t)argc - 1 : ARRAY_SIZE(usual);

	puts("| nodes | loss | B/s | datagrams/s | age of loads, s | false suspicions | false "
	     "deaths | "
	     "death known, s | worst |");
	puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
	for (size_t i = 0; i < n; i++)
		for (unsigned loss = 0; loss <= 100; loss += 100)
			measure(argc > 1 ? (unsigned)MAX(atoi(argv[i + 1]), 3) : usual[i], loss);
	return 0;
}
