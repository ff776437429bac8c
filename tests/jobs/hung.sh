#!/bin/bash
# A job whose PMIx server hangs has no tasks yet: its end waits for nothing, and is no success.
# timeout: 120
suite=jobs.hung
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

mkdir bin libexec
cp "$bin/psid" "$bin/pulcrun" "$bin/pulcctl" bin
cp -r "$PULC_BUILD/libexec/pulc" libexec
printf '#!/bin/sh\n: >"%s/hangs"\nexec sleep 1000\n' "$PWD" >libexec/pulc/keeper-pmix
bin=$PWD/bin

# Nor does the time wait for a psid that does not get ready.
mkdir none late late/libexec
cp bin/pulcrun late
printf '#!/bin/sh\necho $$ >psid.pid\nexec sleep 30\n' >late/psid
chmod +x late/psid
is time_is_up_while_psid_starts "124 1 at once" "$(began=$SECONDS
	XDG_RUNTIME_DIR=$PWD/none PULC_RUNTIME_DIR=$PWD/none timeout 60 late/pulcrun --timeout 0.5 true 2>err
	echo $? "$(grep -c 'time is up: there is no job yet' err)" "$([ $((SECONDS - began)) -lt 5 ] && echo at once)")"
kill "$(cat psid.pid)"

# Nor for a scheduler, or for nodes of an allocation that do not come.
mkdir slurm
printf '#!/bin/sh\nexec cat >/dev/null\n' >slurm/srun
chmod +x slurm/srun
is time_is_up_while_nodes_come "124 1 at once" "$(began=$SECONDS
	PATH=$PWD/slurm:$PATH SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_TASKS_PER_NODE=1 \
		timeout 60 bin/pulcrun --timeout 0.5 true 2>err
	echo $? "$(grep -c 'time is up: there is no job yet' err)" "$([ $((SECONDS - began)) -lt 5 ] && echo at once)")"

start() { # ARGUMENT...
	rm -f hangs
	PULC_TEST_MARK=$TMPDIR/hung timeout 60 "$bin/pulcrun" --mpi pmix "$@" sleep 1000 2>err &
	runner=$!
	await test -e hangs
}

job() {
	"$bin/pulcctl" jobs --json | json 'j[0]["job"]'
}

"$bin/psid" --daemonize
start -n 2
began=$SECONDS
"$bin/pulcctl" kill "$(job)"
wait $runner
is killed "137 at once" "$? $([ $((SECONDS - began)) -lt 5 ] && echo at once)"
gone killed_leaves_nothing hung

start -n 2 --timeout 1
wait $runner
is time_is_up "124" $?
gone time_is_up_leaves_nothing hung

start
pid=$(pgrep -P $runner -x pulcrun)
kill -KILL "$pid"
wait $runner
gone death_of_pulcrun_leaves_nothing hung
is nothing_is_left 0 "$(await are_jobs 0; n_jobs)"
