#!/bin/bash
# The scope that psid asks systemd for, of a manager on a bus that are this test's own.
# shellcheck disable=SC2016 # the tasks' shell expands it
suite=jobs.scope
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
root=$mount${own%/}/pulc-scopes.$$
if [ -z "$mount" ] || ! mkdir "$root" 2>/dev/null; then
	echo "skip $suite: no cgroup version 2 that can be written here"
	exit 0
fi

cat >bus.conf <<-CONF
	<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
	 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
	<busconfig><type>session</type><listen>unix:path=$TMPDIR/bus</listen>
	<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
CONF
dbus-daemon --config-file=bus.conf --nofork --nopidfile 2>bus.log &
bus=$!
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$TMPDIR/bus DBUS_SESSION_BUS_ADDRESS=unix:path=$TMPDIR/bus PULC_JOB_SCOPE=yes
manager=

finish() {
	"$bin/pulcctl" stop >/dev/null 2>&1
	# shellcheck disable=SC2086 # none, or one
	kill $manager $bus
	wait
	# What the dead leave behind goes when they are buried.
	await no_folders
}
no_folders() { # [AT-DEPTH]
	find "$root" -mindepth "${1:-0}" -depth -type d -exec rmdir {} + 2>/dev/null
	[ -z "$(find "$root" -mindepth "${1:-0}" -type d 2>/dev/null)" ]
}
trap finish EXIT

begin() { # MOOD: a manager and a psid
	"$PULC_BUILD/tests/jobs/manager" "$root" "$1" >"said.$1" &
	manager=$!
	await grep -q here "said.$1" || { echo "not ok $suite.manager: did not begin"; exit 1; }
	start_psid "$1"
}

start_psid() { # WORD
	"$bin/psid" >"log.$1" 2>&1 &
	psid=$!
	await "$bin/pulcctl" status
}

end() {
	"$bin/pulcctl" stop >/dev/null
	wait $psid
	kill "$manager"
	wait "$manager" 2>/dev/null
	manager=
	await no_folders 1 # as systemd does with an empty scope
}

cgroup_of() { # PID: below the fake systemd's
	sed -n 's/^0:://p' "/proc/$1/cgroup" | sed -n "s:.*/pulc-scopes[^/]*/pulc-[0-9a-f]*\.scope\(.*\):scope\1:p" | sed 's/pulc\.[0-9a-f]*/pulc/'
}
export -f cgroup_of

await test -S bus || { echo "not ok $suite.bus: did not begin"; exit 1; }
begin good
is psid_moves_into_it scope "$(cgroup_of $psid)"
is tasks_are_below_it scope/pulc/job.JOB/tasks "$(run bash -c 'cgroup_of $$' | sed 's/job\.[^/]*/job.JOB/')"
for ((i = 0; i < 5; i++)); do run -n 4 --oversubscribe true; done
is it_is_asked_for_once 'here start fail delegated' "$(xargs <said.good)"

# What a task makes in its cgroup goes with the job: names with dots, and a path as long as any that is put together.
is a_task_makes_no_more_than_it_may 'deep 32' "$(run bash -c '
	cd "$1$(sed -n s/^0:://p /proc/self/cgroup)" && mkdir -p .hidden/..odd || exit
	for ((i = 0; i < 99; i++)); do mkdir "level$i" 2>/dev/null && cd "level$i" || break; done
	echo "deep $((i + 1))"' - "$mount")" # with `tasks`
run bash -c 'cd "$1$(sed -n s/^0:://p /proc/self/cgroup)"
	name=$(printf %0200d 0)
	while ((899 - ${#PWD} > 202)); do mkdir "$name" && cd "$name" || exit; done
	name=$(printf "%0$((898 - ${#PWD}))d" 0)
	mkdir -p "$name/inner"' - "$mount"
is and_it_goes_with_the_job gone "$(await eval '[ -z "$(find "$root" -name "level*" -o -name inner -o -name .hidden)" ]' && echo gone)"

# Somebody of the user's who is not in the job goes on making folders when it has ended.
run bash -c 'cat /proc/self/cgroup; sleep 1' >folder &
runner=$!
await grep -q ^0:: folder
folder=$mount$(sed -n 's/^0:://p' folder)
python3 - "$folder" <<-'PYTHON' &
	import errno, os, sys, time
	end, n = time.monotonic() + 25, 0
	while time.monotonic() < end:
	    try:
	        os.mkdir("%s/more%d" % (sys.argv[1], n))
	    except OSError as e:
	        if e.errno == errno.ENOENT:
	            break
	    n += 1
PYTHON
maker=$!
wait $runner
is nobody_keeps_its_folder gone "$(for ((i = 0; i < 150; i++)); do [ -d "${folder%/*}" ] || { echo gone; break; }; sleep 0.1; done)"
wait $maker
is psid_lives 0 "$("$bin/pulcctl" status >/dev/null 2>&1; echo $?)"

# psid dies while a job runs: the next one joins the same scope, and the job stays whole.
PULC_TEST_MARK=$TMPDIR/mine run sh -c 'setsid sleep 1000 & echo ready; wait' >ready &
runner=$!
await grep -q ready ready
kill -KILL $psid
wait $psid 2>/dev/null
start_psid again
is the_next_psid_joins_it scope "$(cgroup_of $psid)"
is and_is_attached 'start fail delegated attach /' "$(tail -n 2 said.good | xargs)"
await eval '[ "$("$bin/pulcctl" jobs --no-headers | wc -l)" = 1 ]'
await "$bin/pulcctl" kill "$("$bin/pulcctl" jobs --json | json 'j[0]["job"]')"
wait $runner
is its_job_ends 137 $?
gone with_all_that_it_started mine
end

begin refuse
is refused 'psid: no scope of systemd for jobs: not for you' "$(grep scope log.refuse)"
is jobs_run_without_it 7 "$(status_of sh -c 'exit 7')"
end

begin silent
is without_an_answer 1 "$(grep -c 'psid: no scope of systemd for jobs: ' log.silent)"
is jobs_run_without_an_answer 7 "$(status_of sh -c 'exit 7')"
end

start_psid none
is no_systemd 1 "$(grep -c 'psid: no scope of systemd for jobs: ' log.none)"
is jobs_run_without_systemd 7 "$(status_of sh -c 'exit 7')"
"$bin/pulcctl" stop >/dev/null
wait $psid

PULC_JOB_SCOPE=auto start_psid auto
is not_asked_where_systemd_does_not_run "$([ -d /run/systemd/system ]; echo $?)" "$(grep -q scope log.auto; echo $?)"
is a_wrong_word 1 "$(PULC_JOB_SCOPE=perhaps "$bin/psid" 2>&1 | grep -c 'expected auto, yes or no')"
