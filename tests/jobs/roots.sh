#!/bin/bash
# The cgroup folders of psids that were killed go when another psid begins; those in use stay.
# timeout: 120
suite=jobs.roots
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"
export PULC_JOB_SCOPE=no

# Where the psid with this run directory has its folder.
folder() { # RUN
	python3 - "$1/psid.sock" <<'E2'
import sys
h = 2166136261
for c in sys.argv[1].encode():
    h = (h ^ c) * 16777619 & 0xffffffff
mount = [l.split()[4] for l in open("/proc/self/mountinfo") if " - cgroup2 " in l]
own = [l[3:].strip() for l in open("/proc/self/cgroup") if l.startswith("0::/")]
print(mount[0] + own[0].rstrip("/") + "/pulc.%08x" % h if mount and own else "")
E2
}

# The folders of the psids that are begun under these names.
idle='' dead='' busy='' new=''

begin() { # NAME
	"$bin/psid" --daemonize
	eval "$1=\$(folder '$PULC_RUNTIME_DIR')"
}

at() { # NAME COMMAND...: with that run directory
	PULC_RUNTIME_DIR=$TMPDIR/run.$1 "${@:2}"
}

kill_psid() {
	local pid
	pid=$(psid_pid)
	kill -KILL "$pid"
	await eval "! kill -0 $pid"
}

at idle begin idle
if [ ! -d "$idle" ]; then
	echo "skip $suite: psids have no cgroups here"
	at idle "$bin/pulcctl" stop >/dev/null
	exit 0
fi
at dead begin dead
at busy begin busy
PULC_RUNTIME_DIR=$TMPDIR/run.busy timeout 60 "$bin/pulcrun" sh -c 'echo ready; until [ -e go ]; do sleep 0.05; done; exit 7' >out &
runner=$!
await grep -q ready out
at dead run true
at dead kill_psid
at busy kill_psid
is killed_ones_leave_it "1 1" "$([ -d "$dead" ] && echo 1) $([ -d "$busy" ] && echo 1)"
at new begin new
is the_next_one_removes_it 0 "$([ -d "$dead" ] && echo 1 || echo 0)"
is not_of_one_that_lives 1 "$([ -d "$idle" ] && echo 1 || echo 0)"
is not_of_a_job_that_lives 1 "$(find "$busy" -name tasks 2>/dev/null | grep -c .)"

# Both go on with them.
is the_living_starts_jobs 0 "$(at idle status_of true)"
at busy begin busy
await at busy are_jobs 1
touch go
wait $runner
is the_job_goes_on 7 $?
is its_psid_starts_others 0 "$(at busy status_of true)"

# A folder whose lock somebody else has is used all the same, and stays.
at dead begin dead
at dead kill_psid
exec 9<"$dead"
flock -x 9
at dead begin dead
is locked_by_a_stranger 0 "$(at dead status_of true)"
at dead kill_psid
at new "$bin/pulcctl" stop >/dev/null
await eval '! at new "'"$bin"'/pulcctl" status'
at new begin new
is locked_and_not_removed 1 "$([ -d "$dead" ] && echo 1 || echo 0)"
exec 9<&-

# Nor does its psid have the lock, then: it has a folder all the same when the stranger has let go and others removed it.
exec 9<"$dead"
flock -x 9
at dead begin dead
exec 9<&-
at new "$bin/pulcctl" stop >/dev/null
await eval '! at new "'"$bin"'/pulcctl" status'
at new begin new
is not_held_and_removed 0 "$([ -d "$dead" ] && echo 1 || echo 0)"
is made_anew_for_a_job 1 "$(at dead run grep -c "/${dead##*/}/job\." /proc/self/cgroup)"
at dead kill_psid
at new "$bin/pulcctl" stop >/dev/null
await eval '! at new "'"$bin"'/pulcctl" status'
at new begin new

# One with the empty folders of a job whose processes are all gone.
mkdir -p "$dead/job.1@n/tasks"
at new "$bin/pulcctl" stop >/dev/null
await eval '! at new "'"$bin"'/pulcctl" status'
at new begin new
is with_what_jobs_have_left 0 "$([ -d "$dead" ] && echo 1 || echo 0)"
for name in idle busy new; do
	at $name "$bin/pulcctl" stop >/dev/null
done
await eval '[ ! -d "'"$idle"'" ] && [ ! -d "'"$busy"'" ] && [ ! -d "'"$new"'" ]'
is those_that_end_leave_none "0" "$(find "$idle" "$busy" "$new" -maxdepth 0 2>/dev/null | grep -c .)"
