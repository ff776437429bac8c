#!/bin/bash
# A keeper that waits for the next job: who uses it, and that it is never in the way.
# shellcheck disable=SC2016 # the tasks' shell expands it
suite=jobs.spare
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

# A keeper that is no job's.
waiting() {
	pgrep -P "$psid" -x keeper-waits
}

none_waits() {
	! waiting
}

keeper_of_a_job() {
	run sh -c 'echo $PPID'
}

"$bin/psid" --daemonize
psid=$(psid_pid)
is none_before_the_first_job '' "$(waiting)"
is first_job 0 "$(status_of true)"
await waiting
spare=$(waiting)
is next_job_is_its "$spare" "$(keeper_of_a_job)"
await waiting
is another_one_waits_then other "$([ "$(waiting)" = "$spare" ] && echo same || echo other)"
is it_holds_no_terminal_and_no_file '0' "$(find "/proc/$(waiting)/fd" -lname "$TMPDIR/*" | wc -l)"

# Several at once: one of them is its.
spare=$(waiting)
for i in 1 2 3 4; do
	run --oversubscribe sh -c 'echo $PPID' >keeper.$i &
	runners[i]=$!
done
for i in 1 2 3 4; do
	wait "${runners[$i]}"
	is all_run_at_once.$i 0 $?
done
is one_is_its 1 "$(cat keeper.? | grep -cx "$spare")"
is others_have_their_own 4 "$(sort -u keeper.? | wc -l)"

# Every end of it: the next job has another one.
await waiting
spare=$(waiting)
kill -KILL "$spare"
await eval "! kill -0 $spare"
is job_after_its_death other "$(keeper=$(keeper_of_a_job); [ "$keeper" ] && [ "$keeper" != "$spare" ] && echo other)"
await waiting
kill -STOP "$(waiting)"
run true &
runner=$!
await are_jobs 1
kill -CONT "$(keeper_pid)"
wait $runner
is slow_one_is_waited_for 0 $?
await waiting
is terminated_one_ends 0 "$(kill -TERM "$(waiting)"; await none_waits; echo $?)"
is job_after_that 0 "$(status_of true)"

# Job and arguments are the job's own; failures and signals are told as ever.
await waiting
is status_through_it 7 "$(status_of sh -c 'exit 7')"
await waiting
is signal_through_it 137 "$(status_of sh -c 'kill -9 $$')"
await waiting
is input_and_output_through_it 'a b' "$(printf 'a b' | run cat)"
await waiting
is no_program_through_it 127 "$(status_of ./no-such-program)"
await waiting
is no_descriptors_leak_through_it '0 1 2' "$(run --mpi none sh -c 'ls /proc/$$/fd' | xargs)"
await waiting
is cgroup_is_the_jobs same "$(run sh -c 'p=$(sed -n "s/^0:://p" /proc/$$/cgroup); case $p in */job.*) [ "${p##*/job.}" = "${PULC_JOB:-$(tr "\0" " " </proc/$PPID/cmdline | cut -d" " -f2)}/tasks" ] && echo same;; *) echo same;; esac')"

# It ends with psid, however that ends, and leaves nothing.
await waiting
spare=$(waiting)
kill -KILL "$psid"
is ends_with_a_killed_psid 0 "$(await eval "! kill -0 $spare"; echo $?)"
"$bin/psid" --daemonize
psid=$(psid_pid)
is job_of_the_next_psid 0 "$(status_of true)"
await waiting
spare=$(waiting)
"$bin/pulcctl" stop
is ends_with_psid 0 "$(await eval "! kill -0 $spare"; echo $?)"
