#!/bin/bash
# A psid that has its keepers started by a starter: jobs are what they are otherwise, psid is nobody's parent.
# shellcheck disable=SC2016
suite=jobs.starter
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"
export PULC_STARTER=$PULC_RUNTIME_DIR/starter.sock

# The starter with a socket given to it, as the service manager does.
python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen(64)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])' "$PULC_STARTER" "$PULC_BUILD/libexec/pulc/psid-starter" &
starter=$!
trap '"$bin/pulcctl" stop >/dev/null 2>&1; kill $starter; wait $starter' EXIT
await test -S "$PULC_STARTER"
"$bin/psid" --daemonize || echo "not ok $suite.psid_starts"

children() { # PID
	local pids
	read -ra pids <"/proc/$1/task/$1/children"
	echo "${#pids[@]}"
}

# Those of its children that have a job, and those that have none.
keepers() {
	pgrep -P "$starter" -xc keeper
}

waiting() {
	pgrep -P "$starter" -x keeper-waits
}

is no_children_yet 0 "$(children "$starter")"
is runs hello "$(run sh -c 'echo hello')"
is environment "here 2 $PWD" "$(MINE=here run -n 2 --oversubscribe sh -c '[ $PULC_RANK != 1 ] || echo $MINE $PULC_SIZE $PWD')"
is status 7 "$(status_of sh -c 'exit 7')"
is output_of_many 16 "$(run -n 16 --oversubscribe echo x | wc -l)"

# A keeper that waits, and one that is copied, are the starter's too.
await waiting
spare=$(waiting)
is next_job_is_its "$spare" "$(run sh -c 'echo $PPID')"
await waiting
kill -KILL "$(waiting)"
none_waits() {
	! waiting
}
await none_waits
is job_after_its_death 0 "$(status_of true)"
await waiting
kill -KILL "$(pgrep -P "$starter" -ox keeper-zygote)"
run true # which has the last one that waited
is job_after_both 0 "$(status_of true)"

PULC_TEST_MARK=$TMPDIR/long run -q sh -c 'echo ready; setsid sleep 1000 & wait' >ready &
runner=$!
await grep -q ready ready || echo "not ok $suite.job_runs"
is starter_is_the_parent 1 "$(keepers)"
is psid_is_not 0 "$(children "$(psid_pid)")"
psid=$(psid_pid)
kill -9 "$psid"
is_gone() {
	[ ! -e "/proc/$psid" ]
}
await is_gone # until then it holds the lock
"$bin/psid" --daemonize
await are_jobs 1
is known_after_restart 0 $?
"$bin/pulcctl" kill "$("$bin/pulcctl" jobs --json | json 'j[0]["job"]')"
wait $runner
is can_be_killed 137 $?
gone ended_all long
none_left() {
	[ "$(keepers)" = 0 ]
}
await none_left
is all_are_buried 0 $?

# They end with their psid; without it there is nobody to have them made anew.
await waiting
"$bin/pulcctl" stop
nobody_left() {
	[ "$(children "$starter")" = 0 ]
}
await nobody_left
is those_without_a_job_end_with_psid 0 $?
"$bin/psid" --daemonize
kill $starter
wait $starter
is no_starter_no_job 125 "$(status_of true)"
is why_is_said 1 "$(run true 2>&1 | grep -c "can't be started")"
# The trap has nothing left to end.
trap '"$bin/pulcctl" stop >/dev/null 2>&1' EXIT
