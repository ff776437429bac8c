/* The fake libpulc's other processes, of which it knows next to nothing: a part of preload_fake.h,
 * which alone includes it. */
#ifndef PULC_TESTS_PRELOAD_FAKE_PROCESS_H
#define PULC_TESTS_PRELOAD_FAKE_PROCESS_H

void pulc_fork_begins(void)
{
}

void pulc_fork_done(int pid)
{
	(void)pid;
}

void pulc_forked(void)
{
}

void pulc_fork_will_be_told(void)
{
}

void pulc_fork_told(int pid)
{
	(void)pid;
}

bool pulc_can_be_inherited(void)
{
	return false;
}

bool pulc_process_attached(void)
{
	return false;
}

bool pulc_any_stream(void)
{
	return false;
}

bool pulc_socket_is_upgraded(int fd)
{
	(void)fd;
	return fake.is_upgraded;
}

int pulc_stream_inherit(int fd, pulc_stream **ret_stream)
{
	fake.n_inherited++;
	if (fake.inheriting)
		fake.inheriting();
	return fake.is_upgraded ? pulc_stream_new(fd, PULC_CONNECTED, ret_stream) : -ENOENT;
}

void pulc_stream_passes(pulc_stream *s)
{
	s->n_passed++;
}

void pulc_stream_shared_with(pulc_stream *s, int pid)
{
	(void)s;
	(void)pid;
}

void pulc_streams_shared_with(int pid)
{
	(void)pid;
}

void pulc_spawn_begins(void)
{
}

void pulc_spawn_done(void)
{
}

void pulc_stream_bypassed(pulc_stream *s, int fd)
{
	(void)s;
	(void)fd;
}

void pulc_stream_goes_outside(pulc_stream *s, int fd, bool replaces)
{
	(void)s;
	(void)fd;
	(void)replaces;
}

void pulc_stream_changes_hands(pulc_stream *s)
{
	(void)s;
}

void pulc_stream_leaves(pulc_stream *s)
{
	(void)s;
}

void pulc_stream_stays(pulc_stream *s)
{
	(void)s;
}

void pulc_exec_begins(void)
{
}

void pulc_exec_failed(void)
{
}

void pulc_process_threads(void)
{
}

void pulc_process_ends(void)
{
}

#endif
