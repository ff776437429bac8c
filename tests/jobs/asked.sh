#!/bin/bash
# A psid that is killed while it is asked for a job: the next one is asked, within the time that there is.
# timeout: 180
# shellcheck disable=SC2016 # the tasks' shell expands it
suite=jobs.asked
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

# A psid, also where one is just ending: $psid.
have_psid() {
	run true
	psid=$(psid_pid)
}

# One that does not take what pulcrun sends it; then it is gone.
hang() {
	have_psid
	kill -STOP "$psid"
}

# pulcrun has the socket of psid, and its end of the keeper's channel.
has_asked() {
	local pid
	pid=$(pgrep -P $runner -x pulcrun) && [ "$(find "/proc/$pid/fd" -lname 'socket:*' | wc -l)" -ge 2 ]
}

ask() { # ARGUMENT...: of pulcrun, whose input is the word "input"
	hang
	timeout 60 "$bin/pulcrun" "$@" >out 2>err < <(echo input) &
	runner=$!
	await has_asked
}

ask cat
kill -KILL "$psid"
wait $runner
is a_psid_is_started_and_has_the_input '0 input ' "$? $(cat out) $(cat err)"
"$bin/pulcctl" stop >/dev/null

ask cat
kill -KILL "$psid"
run true
wait $runner
is the_next_psid_is_asked '0 input ' "$? $(cat out) $(cat err)"
"$bin/pulcctl" stop >/dev/null

ask --timeout 0.5 sleep 60
kill -KILL "$psid"
wait $runner
is the_time_goes_on '124 pulcrun: time is up: the job is ended' "$? $(cat err)"
"$bin/pulcctl" stop >/dev/null

ask --timeout 0.5 sleep 60
wait $runner
is there_is_no_time_for_one_that_hangs '124 pulcrun: time is up: there is no job yet' "$? $(cat err)"
kill -KILL "$psid"

ask sleep 60
kill -INT "$(pgrep -P $runner -x pulcrun)"
await eval '! kill -0 $runner'
kill -KILL "$psid"
wait $runner
is who_was_interrupted_asks_nobody '130 ' "$? $(cat err)"

"$bin/pulcctl" stop >/dev/null
ask cat
await grep -q 'psid at .*/psid.sock does not answer' err
is one_that_hangs_is_told_of 0 $?
kill -CONT "$psid"
wait $runner
is and_the_job_runs_when_it_goes_on '0 input' "$? $(cat out)"

# At any point of the conversation, also before anybody has accepted it.
failed=0
for ((i = 0; i < 30; i++)); do
	have_psid
	run printf hello >out 2>err &
	runner=$!
	sleep "0.00$((i % 10))"
	kill -KILL "$psid"
	wait $runner
	[ "$? $(cat out) $(cat err)" = '0 hello ' ] || { failed=$((failed + 1)) && cat err >>errors; }
done
is at_any_point '0 ' "$failed $(sort -u errors 2>/dev/null)"
