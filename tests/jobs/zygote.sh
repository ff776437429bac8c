#!/bin/bash
# The keeper that those of jobs are copies of: who is one, what it holds, and every end of it.
# shellcheck disable=SC2016 # the tasks' shell expands it
suite=jobs.zygote
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

# An installation of our own, whose keeper can be replaced.
mkdir bin libexec
cp "$bin/psid" "$bin/pulcrun" "$bin/pulcctl" bin
cp -r "$PULC_BUILD/libexec/pulc" libexec
bin=$PWD/bin

# The eldest: a copy has its name for a moment.
zygote() {
	pgrep -P "$psid" -ox keeper-zygote
}

# Where the program lies in memory: copies have it at the same place, other processes elsewhere.
place() { # PID
	sed -n '1s/-.*//p' "/proc/$1/maps"
}

# Two jobs at once: one of them has the keeper that waits, the other a new one.
two_jobs() {
	rm -f keeper.1 keeper.2
	for i in 1 2; do
		run --oversubscribe --mpi none sh -c 'sed -n "1s/-.*//p" /proc/$PPID/maps; read -r _; true' <pipe >keeper.$i &
		runners[i]=$!
	done
	exec 8>pipe
	await test -s keeper.1 -a -s keeper.2
	exec 8>&-
	wait "${runners[1]}" && wait "${runners[2]}"
}

mkfifo pipe
"$bin/psid" --daemonize
psid=$(psid_pid)
is none_before_the_first_job '' "$(zygote)"
is first_job 0 "$(status_of true)"
await zygote
first=$(zygote)
two_jobs
is jobs_at_once 0 $?
is both_are_copies 2 "$(cat keeper.? | grep -cx "$(place "$first")")"
is it_stays "$first" "$(zygote)"
is it_holds_what_it_had '0 1 2 3' "$(find "/proc/$first/fd" -type l -printf '%f\n' | sort -n | xargs)"
is it_is_no_client 0 "$(n_jobs)"
is name_of_the_job_is_shown same "$(run sh -c '[ "$(tr "\0" " " </proc/$PPID/cmdline | cut -d" " -f2)" = "$PULC_JOB" ] && echo same')"

# Killed: nobody notices. The end of the last job may bring another one at any moment.
kill -KILL "$first"
await eval "! kill -0 $first"
two_jobs
is jobs_after_its_death 0 $?
await zygote
is another_one_then other "$([ "$(zygote)" = "$first" ] && echo same || echo other)"

# Stopped: it is given up.
second=$(zygote)
kill -STOP "$second"
two_jobs
is jobs_beside_a_stopped_one 0 $?
await eval "! kill -0 $second"
is stopped_one_is_given_up 0 $?
is job_after_that 0 "$(status_of true)"

# The program is replaced: the next jobs run the new one.
await zygote
third=$(zygote)
await pgrep -P "$psid" -x keeper-waits >waiting
cp libexec/pulc/keeper new
mv new libexec/pulc/keeper
is next_job_is_of_the_new_program 0 "$(run sh -c 'readlink "/proc/$PPID/exe"' | grep -c deleted)"
two_jobs
is jobs_of_a_new_program 0 $?
await eval "! kill -0 $third"
is old_program_ends 0 $?

# It ends with psid, however that ends.
run true
await zygote
last=$(zygote)
kill -KILL "$psid"
await eval "! kill -0 $last"
is ends_with_a_killed_psid 0 $?
"$bin/psid" --daemonize
psid=$(psid_pid)
run true
await zygote
last=$(zygote)
"$bin/pulcctl" stop
await eval "! kill -0 $last"
is ends_with_psid 0 $?
