/*
 * Who tests what depends on the processor of the other end puts each thread on one of its own, and
 * can say nothing on a machine that has one only.
 */
#include "processors.h"

#include <sched.h>

#include "harness.h"

static cpu_set_t usable(void)
{
	cpu_set_t all;

	REQUIRE(sched_getaffinity(0, sizeof(all), &all) == 0);
	return all;
}

bool processors_are_two(void)
{
	cpu_set_t all = usable();

	if (CPU_COUNT(&all) >= 2)
		return true;
	test_skip("one processor");
	return false;
}

void processors_run_on(int number)
{
	cpu_set_t all = usable(), one;
	int n = 0;

	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n++ == number)
			CPU_SET(i, &one);
	if (number < n)
		REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
}
