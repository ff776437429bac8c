/* One job as its owner sees it. Each part belongs to the file named beside it. */
#ifndef PULCRUN_RUN_H
#define PULCRUN_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "frame_channel.h"
#include "options.h"

enum { EXIT_TIMEOUT = 124, EXIT_OWN = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

struct run;
struct sink;

/* One stream of one rank. output.c */
struct stream {
	struct sink *sink;
	char *rest; /* a line that has no end yet */
	size_t n_rest, size_rest;
	uint32_t owed; /* bytes that credit is due for */
	bool ended;
	bool in_line; /* a part of its line is out already */
};

/* Where streams end up: our own standard output and error, or files. sink.c */
struct sink {
	struct run *run;
	int fd;
	bool is_own, is_socket, can_wait, failed;
	bool awaits_reader; /* a FIFO, not open yet; for room at least as long */
	bool is_shared;	    /* by ranks: only whole lines go there */
	bool closing;	    /* nothing more comes */
	uint32_t n_ended;   /* of a file's streams */
	bool waiting;	    /* for room */
	char *buf;
	size_t n_buf, size_buf, start;
	struct stream *holder; /* whose line is too long to wait for its end */
	uint64_t nsec_held;
	uv_poll_t poll;
};

struct rank {
	const char *node;
	struct stream streams[2];
	Pulc__Job__Exited *exited;
};

/* input.c */
struct input {
	uint32_t credit;
	bool reading, ended, polls;
	uv_poll_t poll;
};

/* reserve.c */
struct reserve {
	enum { RESERVE_COMES, RESERVE_RUNS, RESERVE_OVER } state; /* of our command */
	uint32_t n_started, n_failed;				  /* tasks */
	uv_process_t process;
	uv_timer_t patience;
};

struct run {
	const struct run_options *options;
	uv_loop_t loop;
	struct channels channels;
	struct channel keeper;
	int psid_fd; /* submit.c */
	char psid_path[128];
	uv_poll_t psid_poll;
	uv_timer_t patience; /* with a psid that says nothing */
	char refusal[256];
	bool answered; /* psid has said yes or no */
	unsigned n_asked;

	Pulc__Job__Message *placed_message;
	const char *id; /* of the job; NULL: not there yet */
	struct rank *ranks;
	uint32_t n_ranks;
	struct sink out, err;
	struct sink *files; /* one or two for each rank, with --output */
	uint32_t n_files_failed;
	uv_prepare_t prepare;
	uv_timer_t release, readers;
	uint32_t credit;

	struct input input;
	struct reserve reserve;
	uv_signal_t signals[9];
	sigset_t unblocked, kept; /* signals.c */
	uint64_t nsec_interrupted;
	bool interrupted;  /* by SIGINT, which was for us as well */
	bool gave_up;	   /* the job was killed by a second one */
	uint64_t nsec_end; /* of --timeout; 0: none */
	uv_timer_t timeout;
	struct termios terminal; /* as it was; terminal.c */
	bool raw;
	uv_timer_t look;

	bool waiting, has_waited; /* for room in a partition */
	bool done, timed_out, output_failed;
	int abandoned;	  /* the signal that ended the wait for a reader */
	int status;	  /* of pulcrun, once it is known */
	bool has_aborted; /* a task has asked for the end, and said with what status */
};

/* main.c: as uv_poll_init, but leaves the flags of a descriptor that we share as they are. */
int run_poll_init(struct run *run, uv_poll_t *poll, int fd);

/* submit.c: asks psid for the job. Returns 0; negative errno after saying why. */
int run_submit(struct run *run);
/* Another psid, if that one has gone? */
bool run_may_ask(const struct run *run);
/* spec.c: tells the keeper what to run. Returns 0; negative errno after saying why not. */
int run_send_spec(struct run *run);

/* output.c */
int run_output_start(struct run *run);
void run_output(struct run *run, const struct frame *frame);
/* Everything has come: what has no end of line goes out as well. */
void run_output_finish(struct run *run);
/* The sink has room again, or none of its bytes count any more: pays credit. */
void run_output_pay(struct run *run, struct sink *sink);
/* Nothing is left to write. */
bool run_output_is_done(const struct run *run);

/* sink.c */
int sink_open(struct sink *sink, struct run *run, int fd);
/* A FIFO that can't be opened: it keeps what it gets until it can, or never will (fd < 0). */
void sink_await_reader(struct sink *sink, struct run *run);
void sink_has_reader(struct sink *sink, int fd);
void sink_write(struct sink *sink, const char *bytes, size_t len);
void sink_flush(struct sink *sink);
/* Nothing more comes: a file that has everything is closed. */
void sink_close(struct sink *sink);
bool sink_is_full(const struct sink *sink);

/* files.c: --output */
struct sink *run_file(struct run *run, uint32_t rank, enum frame_stream stream);
/* There is a job: files are about to be opened. */
void run_files_start(struct run *run);
/* Names those that no reader has come to. */
void run_files_abandon(struct run *run);
/* That stream has said everything. */
void run_file_end(struct run *run, uint32_t rank, enum frame_stream stream);
/* A file takes no more: says which, and why. Returns false if that sink is no file. */
bool run_file_failed(const struct sink *sink, int error);

/* input.c */
/* There are tasks. */
void run_input_start(struct run *run);
void run_input_credit(struct run *run, uint32_t n);
void run_input_again(struct run *run);

/* signals.c */
/* Those that wait for the job, until run_signals_start. */
void run_signals_block(struct run *run);
int run_signals_start(struct run *run);
/* Another psid was asked: the job, if it begins one, gets what has come so far. */
void run_signals_again(struct run *run);
/* Ends the job, or the wait for it. */
void run_kill(struct run *run);
/* Nobody reads our output, or our errors, any more. */
void run_reader_left(struct run *run);

/* terminal.c */
int run_terminal_start(struct run *run);
/* Is our input a terminal that others have now? run_input_again is called when it is ours. */
bool run_terminal_is_others(struct run *run);
/* We go on after a stop: it may be ours again. */
void run_terminal_again(struct run *run);
/* Its size, for the terminal of rank 0. */
void run_terminal_window(struct run *run);
void run_terminal_restore(struct run *run);

/* reserve.c: --reserve. What the job runs, and what becomes of that. */
extern char *const reserve_tasks[];
void run_reserve_started(struct run *run, uint32_t n);
void run_reserve_exited(struct run *run, const Pulc__Job__Exited *exited);
/* Returns whether the signal was the command's. */
bool run_reserve_signal(struct run *run, int number);
/* The job is over: so is the command. */
void run_reserve_finish(struct run *run);

/* report.c: the status for what a task has ended with, or for: never 0 if that is not */
int run_status_of(uint32_t code);
void run_exited(struct run *run, const Pulc__Job__Exited *exited);
void run_note(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
int run_report(struct run *run);

#endif
