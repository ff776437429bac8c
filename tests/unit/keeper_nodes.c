/*
 * A job on several nodes, without nodes: keepers that are started as psid would, with an owner and
 * a listening socket made here. They meet over TCP and TLS as on a cluster.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frame.h"
#include "harness.h"
#include "keeper_fds.h"

#define N_PLACES 3u
#define N_EACH 2u
#define N_RANKS (N_PLACES * N_EACH)
#define MSEC_HANG 30000

struct job {
	pid_t keepers[N_PLACES];
	int owner, listener;
	struct frame_pipe pipe;
	uint8_t key[32];
	uint32_t port;
	/* What was heard: */
	char out[N_RANKS][65536];
	size_t n_out[N_RANKS];
	uint32_t n_exited, n_lost, n_notes, n_input_credit;
	int codes[N_RANKS];
	bool done, ended;
};

static void fill_start(const struct job *job, Pulc__Job__Start *start, uint32_t here)
{
	static Pulc__Job__Identity identity = PULC__JOB__IDENTITY__INIT;
	static Pulc__Job__Place places[N_PLACES], *pointers[N_PLACES];
	static uint32_t ranks[N_PLACES][N_EACH];
	static char names[N_PLACES][16];

	for (uint32_t i = 0; i < N_PLACES; i++) {
		pulc__job__place__init(&places[i]);
		(void)snprintf(names[i], sizeof(names[i]), "node%u", i);
		for (uint32_t j = 0; j < N_EACH; j++)
			ranks[i][j] = i * N_EACH + j;
		places[i].node = names[i];
		places[i].ranks = ranks[i];
		places[i].n_ranks = N_EACH;
		pointers[i] = &places[i];
	}
	start->id = (char *)"1@node0";
	start->number = 1;
	start->socket = (char *)"/nonexistent";
	start->identity = &identity;
	start->places = pointers;
	start->n_places = N_PLACES;
	start->here = here;
	start->head = here == 0;
	start->key.data = (uint8_t *)job->key;
	start->key.len = sizeof(job->key);
	start->address = (char *)"::ffff:127.0.0.1";
	start->port = job->port;
}

static _Noreturn void become_keeper(int start, int owner, int listener)
{
	char path[512];
	int fds[] = { start, owner, -1, listener };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(path, sizeof(path), "%s/libexec/pulc/keeper", getenv("PULC_BUILD"));
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			fds[i] = fcntl(fds[i], F_DUPFD, 64);
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			(void)dup2(fds[i], KEEPER_FD_START + i);
		else
			(void)close(KEEPER_FD_START + i);
	(void)close_range(KEEPER_FD_END, ~0u, 0);
	(void)execl(path, "keeper", (char *)NULL);
	_exit(127);
}

static void start_keeper(struct job *job, uint32_t here, int owner)
{
	Pulc__Job__Start start = PULC__JOB__START__INIT;
	uint8_t bytes[2048];
	size_t len;
	int fd = memfd_create("start", 0);

	fill_start(job, &start, here);
	len = pulc__job__start__pack(&start, bytes);
	REQUIRE_INT(write(fd, bytes, len), ==, len);
	job->keepers[here] = fork();
	REQUIRE_INT(job->keepers[here], >=, 0);
	if (job->keepers[here] == 0)
		become_keeper(fd, owner, here == 0 ? job->listener : -1);
	(void)close(fd);
}

static void start_job(struct job *job)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int ends[2];

	*job = (struct job){ .key = "the key of this job" };
	job->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	REQUIRE_INT(bind(job->listener, (struct sockaddr *)&sa, sizeof(sa)), ==, 0);
	REQUIRE_INT(listen(job->listener, SOMAXCONN), ==, 0);
	REQUIRE_INT(getsockname(job->listener, (struct sockaddr *)&sa, &len), ==, 0);
	job->port = ntohs(sa.sin_port);
	REQUIRE_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), ==,
		    0);
	job->owner = ends[0];
	frame_pipe_init(&job->pipe, job->owner);
	start_keeper(job, 0, ends[1]);
	(void)close(ends[1]);
	(void)close(job->listener);
}

/* Completes it: what it is for is set already. */
static void send_whole(struct job *job, const char *shell, const char *script,
		       Pulc__Job__Spec *spec)
{
	char *arguments[] = { (char *)shell, (char *)"-c", (char *)script };
	char *environment[] = { (char *)"PATH=/bin:/usr/bin" };
	JOB_MESSAGE(msg, SPEC, spec) = spec;

	spec->arguments = arguments;
	spec->n_arguments = 3;
	spec->environment = environment;
	spec->n_environment = 1;
	spec->credit = 65536;
	REQUIRE_INT(frame_put_message(&job->pipe, &msg), ==, 0);
	REQUIRE_INT(frame_flush(&job->pipe), ==, 0);
}

static void send_spec(struct job *job, const char *script, Pulc__Job__Input input, bool keep_going)
{
	Pulc__Job__Spec spec = PULC__JOB__SPEC__INIT;

	spec.input = input;
	spec.input_rank = 3;
	spec.keep_going = keep_going;
	send_whole(job, "sh", script, &spec);
}

static void send_mpi_spec(struct job *job, const char *script, Pulc__Job__Mpi mpi)
{
	Pulc__Job__Spec spec = PULC__JOB__SPEC__INIT;

	spec.mpi = mpi;
	send_whole(job, "bash", script, &spec);
}

static void hear(struct job *job, const struct frame *frame)
{
	Pulc__Job__Message *msg;

	if (frame->kind == FRAME_DATA) {
		REQUIRE(frame->rank < N_RANKS);
		REQUIRE(job->n_out[frame->rank] + frame->len < sizeof(job->out[0]));
		memcpy(job->out[frame->rank] + job->n_out[frame->rank], frame->data, frame->len);
		job->n_out[frame->rank] += frame->len;
		return;
	}
	if (frame->kind == FRAME_CREDIT) {
		job->n_input_credit += frame_credit(frame);
		return;
	}
	msg = frame_unpack(frame);
	REQUIRE(msg != NULL);
	if (msg->body_case == PULC__JOB__MESSAGE__BODY_EXITED) {
		job->n_exited++;
		job->n_lost += msg->exited->lost;
		job->codes[msg->exited->rank] =
			(int)(msg->exited->signal ? 128 + msg->exited->signal : msg->exited->code);
	}
	job->n_notes += msg->body_case == PULC__JOB__MESSAGE__BODY_NOTE;
	job->done |= msg->body_case == PULC__JOB__MESSAGE__BODY_DONE;
	pulc__job__message__free_unpacked(msg, NULL);
}

/* Hanging is a failure. */
static void listen_once(struct job *job)
{
	struct pollfd p = { .fd = job->owner, .events = POLLIN };
	struct frame frame;
	int r;

	REQUIRE_INT(poll(&p, 1, MSEC_HANG), ==, 1);
	r = frame_read(&job->pipe);
	job->ended = r < 0 && r != -EAGAIN;
	while (frame_next(&job->pipe, &frame) == 1)
		hear(job, &frame);
}

static void listen_until_done(struct job *job)
{
	while (!job->done && !job->ended)
		listen_once(job);
	CHECK(job->done);
}

static bool all_have_spoken(const struct job *job)
{
	for (uint32_t i = 0; i < N_RANKS; i++)
		if (job->n_out[i] == 0)
			return false;
	return true;
}

/* Every keeper ends by itself once the job is over. */
static void end_job(struct job *job)
{
	(void)close(job->owner);
	frame_pipe_deinit(&job->pipe);
	for (uint32_t i = 0; i < N_PLACES; i++)
		if (job->keepers[i] > 0)
			REQUIRE_INT(waitpid(job->keepers[i], NULL, 0), ==, job->keepers[i]);
}

static void start_others(struct job *job)
{
	for (uint32_t i = 1; i < N_PLACES; i++)
		start_keeper(job, i, -1);
}

static void all_ranks_run_and_are_heard(void)
{
	static struct job job;
	char expected[64];

	start_job(&job);
	start_others(&job);
	send_spec(&job, "echo $PULC_RANK/$PULC_SIZE on $PULC_NODE; exit $PULC_RANK", 0, true);
	listen_until_done(&job);
	CHECK_INT(job.n_exited, ==, N_RANKS);
	for (uint32_t i = 0; i < N_RANKS; i++) {
		(void)snprintf(expected, sizeof(expected), "%u/%u on node%u\n", i, N_RANKS,
			       i / N_EACH);
		CHECK_STR(job.out[i], expected);
		CHECK_INT(job.codes[i], ==, i);
	}
	end_job(&job);
}

static void a_failure_anywhere_ends_all(void)
{
	static struct job job;
	char dir[] = "/tmp/pulc-keeper-test.XXXXXX", command[512];

	/* The failure waits until all run: who never began has nothing to be killed for. */
	REQUIRE(mkdtemp(dir) != NULL);
	(void)snprintf(
		command, sizeof(command),
		": >%s/$PULC_RANK; [ $PULC_RANK = 5 ] || exec sleep 1000; "
		"while [ $(ls %s | wc -l) -lt $PULC_SIZE ]; do sleep 0.05; done; rm -r %s; exit 9",
		dir, dir, dir);
	start_job(&job);
	start_others(&job);
	send_spec(&job, command, 0, false);
	listen_until_done(&job);
	CHECK_INT(job.n_exited, ==, N_RANKS);
	CHECK_INT(job.codes[5], ==, 9);
	CHECK_INT(job.codes[0], ==, 128 + SIGKILL);
	CHECK_INT(job.codes[2], ==, 128 + SIGKILL);
	end_job(&job);
}

static void the_death_of_a_keeper_loses_its_ranks(void)
{
	static struct job job;

	start_job(&job);
	start_others(&job);
	send_spec(&job, "[ $PULC_RANK -ge 4 ] && kill -KILL $PPID; sleep 0.2", 0, true);
	listen_until_done(&job);
	CHECK_INT(job.n_exited, ==, N_RANKS);
	CHECK_INT(job.n_lost, ==, N_EACH);
	end_job(&job);
}

/* All nodes have tasks that go on for as long as they may. */
static void start_sleepers(struct job *job)
{
	start_job(job);
	start_others(job);
	send_spec(job, "echo; exec sleep 1000", 0, false);
	while (!all_have_spoken(job))
		listen_once(job);
}

static void the_death_of_the_owner_ends_all(void)
{
	static struct job job;

	start_sleepers(&job);
	end_job(&job); /* would wait for ever */
}

/* As one for which there is no memory: nobody goes on as if it had not been said. */
static void a_message_that_cannot_be_taken_ends_all(void)
{
	static const uint8_t none[] = { 0xff, 0xff };
	static struct job job;

	start_sleepers(&job);
	REQUIRE_INT(frame_put(&job.pipe, &(struct frame){ .kind = FRAME_MESSAGE,
							  .data = none,
							  .len = sizeof(none) }),
		    ==, 0);
	REQUIRE_INT(frame_flush(&job.pipe), ==, 0);
	while (!job.ended)
		listen_once(&job);
	CHECK(!job.done);
	end_job(&job);
}

/* The PMIx server starts meanwhile. Keepers would be patient with what can't be killed: 10 s. */
static void the_death_of_the_owner_before_tasks_ends_all(void)
{
	static struct job job;
	time_t begin = time(NULL);

	start_job(&job);
	start_others(&job);
	send_mpi_spec(&job, "exec sleep 1000", PULC__JOB__MPI__MPI_PMIX);
	end_job(&job);
	CHECK_INT(time(NULL) - begin, <, 8);
}

static void a_kill_before_tasks_counts_as_theirs(void)
{
	static struct job job;
	Pulc__Job__Kill end = PULC__JOB__KILL__INIT;
	JOB_MESSAGE(msg, KILL, kill) = &end;

	start_job(&job);
	send_mpi_spec(&job, "exec sleep 1000", PULC__JOB__MPI__MPI_PMIX);
	REQUIRE_INT(frame_put_message(&job.pipe, &msg), ==, 0);
	REQUIRE_INT(frame_flush(&job.pipe), ==, 0);
	start_others(&job);
	listen_until_done(&job);
	CHECK_INT(job.n_exited, ==, N_RANKS);
	for (uint32_t i = 0; i < N_RANKS; i++)
		CHECK_INT(job.codes[i], ==, 128 + SIGKILL);
	end_job(&job);
}

static void another_key_is_no_key(void)
{
	static struct job job;

	start_job(&job);
	start_keeper(&job, 1, -1);
	job.key[3] ^= 1;
	start_keeper(&job, 2, -1);
	send_spec(&job, "echo $PULC_RANK", 0, true);
	REQUIRE_INT(waitpid(job.keepers[2], NULL, 0), ==,
		    job.keepers[2]); /* is refused, and ends */
	job.key[3] ^= 1;
	start_keeper(&job, 2, -1);
	listen_until_done(&job);
	CHECK_INT(job.n_exited, ==, N_RANKS);
	CHECK_INT(job.n_lost, ==, 0);
	CHECK_STR(job.out[4], "4\n");
	end_job(&job);
}

/* Connections to the head keeper that are made, taken by it or not. */
static unsigned count_calls(const struct job *job)
{
	FILE *table = fopen("/proc/net/tcp", "re");
	unsigned n = 0, port, state;
	char line[256];

	REQUIRE(table != NULL);
	while (fgets(line, sizeof(line), table))
		if (sscanf(line, "%*d: %*x:%x %*x:%*x %x", &port, &state) == 2)
			n += port == job->port && state == TCP_ESTABLISHED;
	(void)fclose(table);
	return n;
}

static void callers_wait_for_room(void)
{
	enum { N_STRANGERS = 64 };
	static struct job job;
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int strangers[N_STRANGERS];

	start_job(&job);
	sa.sin_port = htons((uint16_t)job.port);
	for (int i = 0; i < N_STRANGERS; i++) {
		strangers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		REQUIRE_INT(connect(strangers[i], (struct sockaddr *)&sa, sizeof(sa)), ==, 0);
	}
	start_others(&job);
	while (count_calls(&job) < N_STRANGERS + N_PLACES - 1)
		(void)poll(NULL, 0, 5);
	for (int i = 0; i < N_STRANGERS; i++)
		(void)close(strangers[i]);
	send_spec(&job, "echo $PULC_RANK", 0, true);
	listen_until_done(&job);
	CHECK_INT(job.n_lost, ==, 0);
	CHECK_STR(job.out[5], "5\n");
	end_job(&job);
}

static void put_signal(struct job *job, int number)
{
	Pulc__Job__Signal signal = PULC__JOB__SIGNAL__INIT;
	JOB_MESSAGE(msg, SIGNAL, signal) = &signal;

	signal.number = number;
	REQUIRE_INT(frame_put_message(&job->pipe, &msg), ==, 0);
	REQUIRE_INT(frame_flush(&job->pipe), ==, 0);
}

static void a_signal_waits_for_tasks(void)
{
	static struct job job;

	start_job(&job);
	send_spec(&job, "exec sleep 1000", 0, true);
	put_signal(&job, SIGSTOP);
	put_signal(&job, SIGTERM);
	put_signal(&job, SIGCONT);
	start_keeper(&job, 1, -1);
	while (job.n_exited < 2 * N_EACH)
		listen_once(&job);
	start_keeper(&job, 2, -1);
	listen_until_done(&job);
	for (uint32_t i = 0; i < N_RANKS; i++)
		CHECK_INT(job.codes[i], ==, 128 + SIGTERM);
	end_job(&job);
}

static void put_input(struct job *job, const void *bytes, size_t len)
{
	struct frame frame = { FRAME_DATA, FRAME_STDIN, 3, bytes, len };

	REQUIRE_INT(frame_put(&job->pipe, &frame), ==, 0);
	REQUIRE_INT(frame_flush(&job->pipe), ==, 0);
}

static void input_reaches_a_rank_elsewhere(void)
{
	static struct job job;
	static char text[20000];

	memset(text, 'x', sizeof(text));
	start_job(&job);
	start_others(&job);
	send_spec(&job, "wc -c", PULC__JOB__INPUT__INPUT_RANK, true);
	put_input(&job, text, sizeof(text));
	put_input(&job, text, sizeof(text));
	put_input(&job, text, 0);
	listen_until_done(&job);
	CHECK_STR(job.out[3], "40000\n");
	CHECK_STR(job.out[0], "0\n");
	CHECK_INT(job.n_input_credit, <=, 40000);
	end_job(&job);
}

static void input_reaches_all(void)
{
	static struct job job;

	start_job(&job);
	start_others(&job);
	send_spec(&job, "cat", PULC__JOB__INPUT__INPUT_ALL, true);
	put_input(&job, "hello\n", 6);
	put_input(&job, "", 0);
	listen_until_done(&job);
	for (uint32_t i = 0; i < N_RANKS; i++)
		CHECK_STR(job.out[i], "hello\n");
	end_job(&job);
}

/* What two windows hold: the pipe of a rank that does not read, and the input that waits for it. */
static void a_lost_place_owes_no_input(void)
{
	static struct job job;
	static char text[65536];

	start_job(&job);
	start_others(&job);
	send_spec(&job,
		  "[ $PULC_RANK -lt 4 ] || { echo; exec sleep 1000; }; "
		  "dd bs=65536 count=2 iflag=fullblock of=/dev/null 2>/dev/null; echo; "
		  "exec cat >/dev/null",
		  PULC__JOB__INPUT__INPUT_ALL, true);
	put_input(&job, text, sizeof(text));
	while (job.n_input_credit < sizeof(text))
		listen_once(&job);
	put_input(&job, text, sizeof(text));
	while (!all_have_spoken(&job))
		listen_once(&job);
	CHECK_INT(job.n_input_credit, ==, sizeof(text));
	REQUIRE_INT(kill(job.keepers[2], SIGKILL), ==, 0);
	while (job.n_input_credit < 2 * sizeof(text))
		listen_once(&job);
	put_input(&job, "", 0);
	listen_until_done(&job);
	CHECK_INT(job.n_lost, ==, N_EACH);
	end_job(&job);
}

static void collectives_meet(void)
{
	static const char script[] =
		"say() { echo \"$1\" >&$PMI_FD; IFS= read -r answer <&$PMI_FD; }; "
		"say 'cmd=init pmi_version=1 pmi_subversion=1'; "
		"say \"cmd=put kvsname=k key=k$PMI_RANK value=v$PMI_RANK\"; "
		"say cmd=barrier_in; "
		"say \"cmd=get kvsname=k key=k$(( (PMI_RANK + 3) % PMI_SIZE ))\"; echo "
		"\"$answer\"; "
		"say 'cmd=get kvsname=k key=PMI_process_mapping'; echo \"$answer\"; "
		"say cmd=finalize";
	static struct job job;
	char expected[256];

	start_job(&job);
	start_others(&job);
	send_mpi_spec(&job, script, PULC__JOB__MPI__MPI_PMI1);
	listen_until_done(&job);
	for (uint32_t i = 0; i < N_RANKS; i++) {
		(void)snprintf(expected, sizeof(expected),
			       "cmd=get_result rc=0 msg=success value=v%u\n"
			       "cmd=get_result rc=0 msg=success value=(vector,(0,3,2))\n",
			       (i + 3) % N_RANKS);
		CHECK_STR(job.out[i], expected);
	}
	end_job(&job);
}

static const struct test tests[] = {
	TEST(all_ranks_run_and_are_heard),
	TEST(a_failure_anywhere_ends_all),
	TEST(the_death_of_a_keeper_loses_its_ranks),
	TEST(the_death_of_the_owner_ends_all),
	TEST(a_message_that_cannot_be_taken_ends_all),
	TEST(the_death_of_the_owner_before_tasks_ends_all),
	TEST(a_kill_before_tasks_counts_as_theirs),
	TEST(another_key_is_no_key),
	TEST(callers_wait_for_room),
	TEST(a_signal_waits_for_tasks),
	TEST(input_reaches_a_rank_elsewhere),
	TEST(input_reaches_all),
	TEST(a_lost_place_owes_no_input),
	TEST(collectives_meet),
};

int main(int argc, char **argv)
{
	(void)signal(SIGPIPE, SIG_IGN);
	return TESTS_RUN(tests, argc, argv);
}
