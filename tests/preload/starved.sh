#!/bin/sh
# Processes of a few cases, and psid, get no processor for longer than anybody waits, at calls that are drawn, the same each time.
# timeout: 400
# All calls, of all cases, drawn or not: run-starved, or make check-starved.
run=$(dirname "$0")/run-starved
status=0
"$run" --seed 1 --most 9 process_exec_with_bytes_waiting exec_with_sender_already_gone process_passed_when_the_sender_is_done "$@" || status=1
# A fork before the upgrade: a child is late to say that it runs.
"$run" --early --msec 2500 --at a1.1 --at b1.1 fork_one_reads_one_writes "$@" || status=1
exit $status
