/*
 * Names and meetings of PMIx, by three ranks on whatever nodes: each prints what came of its calls,
 * as lines that are sorted and compared (tests/jobs/mpi.sh, tests/cluster/jobs.sh).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>

static pmix_proc_t me;

static void say(const char *what, pmix_status_t status)
{
	printf("%u %s: %s\n", me.rank, what, PMIx_Error_string(status));
}

/* ---- names ----------------------------------------------------------------------------------- */

static pmix_status_t publish(const char *key, const char *value, pmix_persistence_t persistence)
{
	pmix_info_t info[2] = { 0 };
	pmix_status_t status;

	PMIX_INFO_LOAD(&info[0], key, value, PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
	status = PMIx_Publish(info, 2);
	PMIX_INFO_DESTRUCT(&info[0]);
	return status;
}

static pmix_status_t unpublish(char *key)
{
	char *keys[] = { key, NULL };

	return PMIx_Unpublish(keys, NULL, 0);
}

/* sec: 0: does not wait. shown: prints what was found. */
static pmix_status_t look_up(const char *key, int sec, bool shown)
{
	int all = 0;
	pmix_info_t info[2] = { 0 };
	pmix_pdata_t found = { 0 };
	pmix_status_t status;

	PMIX_LOAD_KEY(found.key, key);
	PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all, PMIX_INT);
	PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &sec, PMIX_INT);
	status = PMIx_Lookup(&found, 1, info, sec > 0 ? 2 : 0);
	if (status == PMIX_SUCCESS && shown)
		printf("%u %s is %s of %u\n", me.rank, key, found.value.data.string,
		       found.proc.rank);
	PMIX_PDATA_DESTRUCT(&found);
	return status;
}

/* ---- an answer that comes later -------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static bool is_told;

static void on_found(pmix_status_t status, pmix_pdata_t *found, size_t n, void *data)
{
	(void)data;
	say("waited", status);
	if (n > 0)
		printf("%u late is %s\n", me.rank, found[0].value.data.string);
	(void)pthread_mutex_lock(&lock);
	is_told = true;
	(void)pthread_cond_signal(&told);
	(void)pthread_mutex_unlock(&lock);
}

/* Asks for what is published only after the question is there. */
static void wait_for_late(void)
{
	char late[] = "late", *keys[] = { late, NULL };
	pmix_info_t info = { 0 };

	PMIX_INFO_LOAD(&info, PMIX_WAIT, NULL, PMIX_BOOL);
	say("asks", PMIx_Lookup_nb(keys, &info, 1, on_found, NULL));
	(void)publish("asked", "yes", PMIX_PERSIST_SESSION);
	(void)pthread_mutex_lock(&lock);
	while (!is_told)
		(void)pthread_cond_wait(&told, &lock);
	(void)pthread_mutex_unlock(&lock);
}

/* ---- the ranks ------------------------------------------------------------------------------- */

static void meet_all(void)
{
	pmix_proc_t all;

	PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
	if (PMIx_Fence(&all, 1, NULL, 0) != PMIX_SUCCESS)
		exit(1);
}

/* The first and the last rank meet, in whatever order they name each other, without the second. */
static void meet_in_part(void)
{
	pmix_proc_t two[2];

	if (me.rank == 1)
		return;
	PMIX_LOAD_PROCID(&two[0], me.nspace, me.rank);
	PMIX_LOAD_PROCID(&two[1], me.nspace, 2 - me.rank);
	say("fence", PMIx_Fence(two, 2, NULL, 0));
	say("connect", PMIx_Connect(two, 2, NULL, 0));
	say("disconnect", PMIx_Disconnect(two, 2, NULL, 0));
}

static void show(const char *key)
{
	say(key, look_up(key, 0, true));
}

static void first(void)
{
	wait_for_late();
	meet_all();
	say("other's name", publish("late", "mine", PMIX_PERSIST_SESSION));
	(void)unpublish((char[]){ "late" });
	show("late");
	say("own name", publish("asked", "again", PMIX_PERSIST_SESSION));
	show("once");
	show("once");
	meet_all();
	while (look_up("with its task", 0, false) == PMIX_SUCCESS)
		continue;
	show("with its task");
	show("kept");
}

static void second(void)
{
	say("asked", look_up("asked", 60, true));
	(void)publish("late", "here", PMIX_PERSIST_SESSION);
	(void)publish("once", "here", PMIX_PERSIST_FIRST_READ);
	meet_all();
	meet_all();
	show("asked");
	say("nobody's", look_up("nobody's", 1, true));
	say("taken away", unpublish((char[]){ "late" }));
	show("late");
}

static void third(void)
{
	(void)publish("kept", "here", PMIX_PERSIST_SESSION);
	(void)publish("with its task", "here", PMIX_PERSIST_PROC);
	meet_all();
	meet_all();
}

int main(void)
{
	static void (*const parts[])(void) = { first, second, third };

	if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS || me.rank > 2)
		return 1;
	meet_in_part();
	parts[me.rank]();
	return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
