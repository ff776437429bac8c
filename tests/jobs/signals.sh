#!/bin/bash
# Signals are passed on; killing takes everything; whoever dies, nothing survives.
# shellcheck disable=SC2016
# timeout: 300
suite=jobs.signals
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

# A tree that clings to life: ignores what can be ignored, has left its session, has children.
cat >tree <<'E2'
#!/bin/bash
trap '' TERM INT HUP
for i in 1 2 3; do
	setsid bash -c 'trap "" TERM INT HUP; (sleep 1000 & sleep 1000 & wait) & wait' &
	sleep 1000 &
done
echo ready
wait
wait
E2
chmod +x tree

start() { # MARK ARGUMENTS...: pulcrun in the background, $runner its process
	local mark=$1
	shift
	: >"$mark.out"
	PULC_TEST_MARK=$TMPDIR/$mark timeout 60 "$bin/pulcrun" "$@" >"$mark.out" 2>"$mark.err" &
	runner=$!
}

ready() { # MARK N
	await eval '[ "$(grep -c ready '"$1"'.out)" -ge '"$2"' ]'
}

kill_psid() {
	local pid
	pid=$(psid_pid)
	kill -KILL "$pid"
	await eval "! kill -0 $pid"
}

for signal in TERM INT HUP USR1 USR2 QUIT WINCH; do
	start "$signal" bash -c "trap 'echo got; exit 9' $signal; echo ready; while :; do sleep 0.02; done"
	ready "$signal" 1
	kill -"$signal" "$(pgrep -P $runner)"
	wait $runner
	is "passes_on.$signal" "9 got" "$? $(tail -n 1 "$signal.out")"
done

start default -n 2 sh -c 'echo ready; exec sleep 1000'
ready default 2
kill -TERM "$(pgrep -P $runner)"
wait $runner
is default_action 143 $?

# Two within a second end the job; on a busy machine two may arrive as one, or late.
start twice -n 2 ./tree
ready twice 2
while kill -INT "$(pgrep -P $runner)" 2>/dev/null; do sleep 0.2; done
wait $runner
is second_interrupt_kills 130 $?
gone second_interrupt_kills_all twice

# psid does not answer: there is no job that a signal could be for, or that could take too long.
"$bin/pulcctl" status >/dev/null
stopped=$(psid_pid)
kill -STOP "$stopped"
listens() { # in its loop, where it handles signals: SIGINT is bit 1
	local caught
	caught=$(awk '/^SigCgt/ { print $2 }' "/proc/$(pgrep -P $runner -x pulcrun)/status")
	((0x$caught & 2))
}
for signal in INT TERM HUP QUIT; do
	start before sh -c 'echo ready; exec sleep 1000'
	await listens
	kill -$signal "$(pgrep -P $runner -x pulcrun)"
	timeout 10 tail --pid="$runner" -f /dev/null
	is "before_the_job.$signal" "gone $((128 + $(kill -l $signal)))" "$(kill -0 $runner 2>/dev/null && echo there || echo gone) $(kill -KILL "$(pgrep -P $runner -x pulcrun)" 2>/dev/null; wait $runner; echo $?)"
done
is before_the_job.timeout "124 pulcrun: time is up: there is no job yet" "$(PULC_TEST_MARK=$TMPDIR/before timeout 10 "$bin/pulcrun" --timeout 0.2 sleep 1000 2>err; echo "$? $(cat err)")"
kill -CONT "$stopped"
gone before_the_job.leaves_nothing before

# SIGUSR1 and SIGUSR2 wait for the job: they end one that has no handler, however early they come. So while a psid is
# asked, when the one that was asked dies before it has answered, and while one is started.
kept() { # SIGNAL_FOR_PSID
	"$bin/pulcctl" status >/dev/null || "$bin/psid" --daemonize
	stopped=$(psid_pid)
	kill -STOP "$stopped"
	timeout 60 "$bin/pulcrun" sleep 10 2>kept.err &
	runner=$!
	await listens
	kill -USR1 "$(pgrep -P $runner -x pulcrun)"
	await grep -q '^ShdPnd:.0*$' "/proc/$(pgrep -P $runner -x pulcrun)/status" # it has come
	kill "-$1" "$stopped"
	wait $runner
	echo $?
}
is before_the_job.usr1_is_kept 138 "$(for _ in 1 2 3 4 5 6; do kept CONT; done | uniq)"
is before_the_job.usr1_is_kept_for_the_next_psid 138 "$(for _ in 1 2 3 4; do kept KILL; done | uniq)"
"$bin/pulcctl" stop
mkdir slow
cp "$bin/pulcrun" slow/pulcrun
printf '#!/bin/sh\n: >asked\nwhile [ ! -e psid_may_start ]; do sleep 0.02; done\nexec "%s" "$@"\n' "$bin/psid" >slow/psid
chmod +x slow/psid
timeout 60 slow/pulcrun sleep 10 &
runner=$!
await test -e asked
kill -USR2 "$(pgrep -P $runner -x pulcrun)"
: >psid_may_start
wait $runner
is while_psid_starts.usr2_is_kept "140 psid" "$? $(cat "/proc/$(psid_pid)/comm")"

start stop sh -c 'echo ready; i=0; while :; do i=$((i + 1)); echo $i; sleep 0.02; done'
ready stop 1
task=$(marked stop | while read -r p; do grep -qs '^sh$' "/proc/$p/comm" && echo "$p"; done | head -n 1)
kill -TSTP "$(pgrep -P $runner)"
await grep -q '^State:.T' "/proc/$task/status"
is stop_stops_the_tasks T "$(awk '/^State/ { print $2 }' "/proc/$task/status")"
kill -CONT "$(pgrep -P $runner)"
await eval '! grep -q "^State:.T" "/proc/'"$task"'/status"'
is cont_continues_them 0 "$(grep -c '^State:.T' "/proc/$task/status")"
kill -KILL "$(pgrep -P $runner)"
wait $runner 2>/dev/null
gone stopped_and_killed stop

start failure -n 2 sh -c 'if [ $PULC_RANK = 0 ]; then ./tree; else until grep -q ready failure.out; do sleep 0.05; done; exit 6; fi'
wait $runner
is failure_ends_the_others 6 $?
gone failure_leaves_nothing failure

start pulcrun -n 2 ./tree
ready pulcrun 2
kill -KILL "$(pgrep -P $runner)"
wait $runner 2>/dev/null
gone death_of_pulcrun pulcrun

start keeper -n 2 ./tree
ready keeper 2
kill -KILL "$(keeper_pid)"
wait $runner
is death_of_the_keeper "125 1" "$? $(grep -c 'the keeper of job .* is gone' keeper.err)"
gone death_of_the_keeper_leaves_nothing keeper

start leftover sh -c 'setsid sleep 1000 & sleep 1000 & echo ready'
wait $runner
is end_of_the_last_task 0 $?
gone end_of_the_last_task_ends_all leftover

# psid dies: the job goes on, and the next psid knows it.
start restart -n 2 --keep-going sh -c 'echo ready; until [ -e go ]; do sleep 0.05; done; echo end $PULC_RANK; exit $((PULC_RANK * 3))'
ready restart 2
kill_psid
"$bin/psid" --daemonize
await are_jobs 1
is restarted_psid_knows_the_job "1 2" "$("$bin/pulcctl" jobs --json | json '[len(j), j[0]["n_tasks"]]' | tr -d '[],')"
touch go
wait $runner
is job_survives_psid "3 end 0 end 1" "$? $(grep end restart.out | sort | tr '\n' ' ' | sed 's/ $//')"
gone job_survives_psid_and_ends restart

start restart2 -n 2 ./tree
ready restart2 2
kill_psid
"$bin/psid" --daemonize
await are_jobs 1
kill -KILL "$(keeper_pid)"
wait $runner
is death_of_the_keeper_after_a_restart 125 $?
gone death_of_the_keeper_after_a_restart_leaves_nothing restart2

# Keeper and psid both die: the next psid ends what no keeper speaks for.
start both -n 2 ./tree
ready both 2
if grep -q 'job\..*/tasks' "/proc/$(marked both | while read -r p; do ! grep -qsx tree "/proc/$p/comm" || echo "$p"; done | head -n 1)/cgroup"; then
	keeper=$(keeper_pid)
	kill_psid
	kill -KILL "$keeper"
	wait $runner
	is death_of_keeper_and_psid 125 $?
	"$bin/psid" --daemonize
	await none_marked both
	gone death_of_keeper_and_psid_leaves_nothing both
else
	echo "skip $suite.death_of_keeper_and_psid: jobs have no cgroups here"
	kill -KILL "$(pgrep -P $runner)"
	wait $runner
fi

start control -n 2 ./tree
ready control 2
job=$("$bin/pulcctl" jobs --json | json 'j[0]["job"]')
await are_tasks 2
is tasks_are_shown "[(0, 'running'), (1, 'running')]" "$("$bin/pulcctl" tasks "$job" --json | json 'sorted((t["rank"], t["state"]) for t in j)')"
"$bin/pulcctl" kill "$job"
wait $runner
is pulcctl_kill 137 $?
is pulcctl_kill_is_said 'pulcrun: somebody has asked for the end of the job (pulcctl kill)' "$(head -n 1 control.err)"
gone pulcctl_kill_leaves_nothing control
is jobs_end_in_the_table 0 "$(await are_jobs 0; n_jobs)"

# Several at once, one of which is none.
start kill_first -n 1 ./tree
first=$runner
ready kill_first 1
start kill_second -n 1 ./tree
second=$runner
ready kill_second 1
# shellcheck disable=SC2046 # a list of names
"$bin/pulcctl" kill --json $("$bin/pulcctl" jobs --json | json '" 99999 ".join(e["job"] for e in j)') >"$TMPDIR/killed" 2>"$TMPDIR/not_killed"
is kill_several.says_that_one_is_none 1 $?
is kill_several.json "['', 'no such job on this node', '']" "$(json "[e['error'] for e in j]" <"$TMPDIR/killed")"
is kill_several.which "pulcctl: 99999: no such job on this node" "$(cat "$TMPDIR/not_killed")"
wait "$first"
is kill_several.first 137 $?
wait "$second"
is kill_several.second 137 $?
gone kill_several_first_leaves_nothing kill_first
gone kill_several_second_leaves_nothing kill_second
is unknown_job "pulcctl: 99999: no such job on this node" "$("$bin/pulcctl" kill 99999 2>&1)"

# 600 processes, a third of them in sessions of their own.
start forest sh -c 'i=0; while [ $i -lt 200 ]; do sleep 1000 & sleep 1000 & setsid sleep 1000 & i=$((i + 1)); done; echo ready; wait'
ready forest 1
# One that is just becoming `sleep` has no environment for a moment.
all_stand() { [ "$(marked forest | wc -l)" -ge 600 ]; }
await all_stand
is forest_stands 0 $?
kill -KILL "$(pgrep -P $runner)"
wait $runner 2>/dev/null
gone forest_falls forest

# What can't be killed is left, and holds nobody up: stopped by a tracer on its way out it keeps its streams.
cat >tracer.py <<'E2'
import ctypes, sys
SEIZE, TRACEEXIT = 0x4206, 0x40
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
print("traced" if libc.ptrace(SEIZE, int(sys.argv[1]), 0, TRACEEXIT) == 0 else "refused", flush=True)
sys.stdin.read()
E2
mkfifo hold
trace() { # MARK: the sleep of that job
	until pid=$(for p in $(marked "$1"); do ! grep -qszx 1000 "/proc/$p/cmdline" || echo "$p"; done) && [ -n "$pid" ]; do sleep 0.02; done
	python3 tracer.py "$pid" <hold >traced &
	exec {held}>hold
	await grep -q . traced
}
start unkillable sh -c 'echo ready; exec sleep 1000'
ready unkillable 1
trace unkillable
if grep -q refused traced; then
	echo "skip $suite.unkillable: no tracing here"
else
	"$bin/pulcctl" kill "$("$bin/pulcctl" jobs --json | json 'j[0]["job"]')"
	wait $runner
	is unkillable_task "137 1" "$? $(grep -c 'left behind' unkillable.err)"
	exec {held}>&-
	gone unkillable_task_goes_when_it_can unkillable
	start unkillable2 sh -c 'sleep 1000 & echo ready; until [ -e left ]; do sleep 0.02; done; seq 1000'
	ready unkillable2 1
	trace unkillable2
	touch left
	wait $runner
	is unkillable_leftover "0 1001 1" "$? $(wc -l <unkillable2.out) $(grep -c 'left behind' unkillable2.err)"
fi
exec {held}>&-
gone unkillable_leftover_goes_when_it_can unkillable2

# Where no cgroup is to be had the process tree serves.
"$bin/pulcctl" stop
no_cgroup='for m in $(awk "/cgroup/ { print \$2 }" /proc/mounts | sort -r); do umount -l "$m"; done; exec "$0" --daemonize'
if [ "$(id -u)" != 0 ] || ! unshare -m sh -c "$no_cgroup" "$bin/psid"; then
	echo "skip $suite.no_cgroup: no namespace without cgroups is to be had"
	exit 0
fi
start t_end -n 2 ./tree
ready t_end 2
"$bin/pulcctl" kill "$("$bin/pulcctl" jobs --json | json 'j[0]["job"]')"
wait $runner
is no_cgroup.kill 137 $?
gone no_cgroup.kill_leaves_nothing t_end
start t_leftover sh -c 'setsid sleep 1000 & sleep 1000 & echo ready'
wait $runner
is no_cgroup.end_of_the_last_task 0 $?
gone no_cgroup.end_of_the_last_task_ends_all t_leftover
start t_keeper -n 2 ./tree
ready t_keeper 2
kill -KILL "$(keeper_pid)"
wait $runner
is no_cgroup.death_of_the_keeper 125 $?
gone no_cgroup.death_of_the_keeper_leaves_nothing t_keeper
