#!/bin/bash
# pulcrun in allocations of a real Slurm: a controller, three nodes and a munge of our own, in namespaces of our own for
# processes and network, so that no port is taken and what is left running can be seen.
# timeout: 300
# shellcheck disable=SC2016,SC2317 # the tasks' shell expands it; functions are called by await
suite=jobs.slurm
for program in munged slurmctld slurmd salloc sbatch srun; do
	if ! PATH=$PATH:/usr/sbin command -v $program >/dev/null; then
		echo "skip $suite: no $program here (packages slurm-wlm and munge)"
		exit 0
	fi
done
if [ "${1:-}" != inside ]; then
	if [ "$(id -u)" != 0 ] || ! unshare --net --pid --fork --mount-proc true 2>/dev/null; then
		echo "skip $suite: needs root, and namespaces for processes and network"
		exit 0
	fi
	exec unshare --net --pid --fork --kill-child --mount-proc "$0" inside
fi
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"
export PATH=$bin:$PATH:/usr/sbin
site=$TMPDIR/site
export SLURM_CONF=$site/slurm.conf

# ---- a site ---------------------------------------------------------------------------------

configure() {
	mkdir -p "$site"/{state,log} "$site"/spool/n{1,2,3}
	(umask 077 && head -c 128 /dev/urandom >"$site/key")
	cat >"$SLURM_CONF" <<-END
		ClusterName=pulc
		SlurmctldHost=localhost(127.0.0.1)
		SlurmUser=root
		AuthInfo=socket=$site/munge.sock
		StateSaveLocation=$site/state
		SlurmdSpoolDir=$site/spool/%n
		SlurmctldPidFile=$site/slurmctld.pid
		SlurmdPidFile=$site/slurmd.%n.pid
		SlurmctldLogFile=$site/log/slurmctld
		SlurmdLogFile=$site/log/%n
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/affinity
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		SlurmdParameters=config_overrides
		MpiDefault=none
		SwitchType=switch/none
		ReturnToService=2
		KillWait=5
		NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=7001 CPUs=2
		NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=7002 CPUs=2
		NodeName=n3 NodeHostname=localhost NodeAddr=127.0.0.1 Port=7003 CPUs=2
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	END
}

idle_nodes() {
	[ "$(timeout 5 sinfo -h -t idle -o %D 2>/dev/null)" = 3 ]
}

start_site() {
	local node
	configure
	ip link set lo up
	ip link add e0 type veth peer name e1 # names are not looked up where there is only a loopback
	ip addr add 10.78.0.1/24 dev e0
	ip link set e0 up
	ip link set e1 up
	munged --foreground --force --key-file="$site/key" --socket="$site/munge.sock" --pid-file="$site/munged.pid" \
		--log-file="$site/log/munged" --seed-file="$site/seed" >"$site/log/munged.out" 2>&1 &
	await test -S "$site/munge.sock"
	slurmctld -D >"$site/log/slurmctld.out" 2>&1 &
	for node in n1 n2 n3; do
		slurmd -D -N $node >"$site/log/$node.out" 2>&1 &
	done
	await idle_nodes
}

# What runs here besides the site and this script.
others() {
	ps -eo pid=,stat=,comm=,args= | awk '$2 !~ /^Z/ && $3 ~ /^(psid|agent|keeper|pulcrun|srun|salloc|sleep)/'
}

nothing_is_left() {
	local folder
	[ -z "$(others)" ] || return 1
	for folder in $folders; do
		[ ! -e "$folder" ] || return 1
	done
}

left_is_nothing() { # NAME
	if await nothing_is_left; then
		echo "ok $suite.$1"
	else
		echo "not ok $suite.$1: left:"
		others
		# shellcheck disable=SC2086 # a list
		ls -d $folders
	fi
}

# The run folders of the psids that there are now, for nothing_is_left.
folders=
note_folders() {
	folders=$(for i in $(pgrep -x psid); do tr '\0' '\n' <"/proc/$i/environ"; done | sed -n 's/^PULC_RUNTIME_DIR=//p')
	[ "$(wc -w <<<"$folders")" = "$1" ]
}

alloc() { # OPTION... -- COMMAND: in an allocation
	local -a options=()
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	timeout 120 salloc -Q "${options[@]}" "$@" 2>"$TMPDIR/err"
}

status_in() {
	alloc "$@" >/dev/null
	echo $?
}

task_count() { # N: so many tasks sleep
	[ "$(pgrep -xc sleep)" = "$1" ]
}

if ! start_site; then
	echo "skip $suite: Slurm does not come up here: $(tail -qn 2 "$site"/log/* | tail -n 3 | tr '\n' ' ')"
	exit 0
fi

# ---- where ----------------------------------------------------------------------------------

is tasks_are_those_of_the_allocation '0 n1
1 n2
2 n3' "$(alloc -N 3 -- pulcrun sh -c 'echo $PULC_RANK $PULC_NODE' | sort)"
is as_many_on_a_node_as_slurm_says '2 n1
1 n2' "$(alloc -w n1,n2 -n 3 -- pulcrun sh -c 'echo $PULC_NODE' | sort | uniq -c | awk '{ print $1, $2 }')"
is the_job_is_named_after_it '@slurm' "$(alloc -N 1 -- pulcrun sh -c 'echo $PULC_JOB' | sed 's/^[0-9]*//; s/\..*//')"
is own_number_of_tasks 2 "$(alloc -N 3 -- pulcrun -n 2 sh -c 'echo $PULC_NODE' | sort -u | wc -l)"
is own_nodes n3 "$(alloc -N 3 -- pulcrun --nodes n3 sh -c 'echo $PULC_NODE')"
is not_more_than_is_ours 125 "$(status_in -N 2 -- pulcrun -n 3 true)"
is oversubscribed 5 "$(alloc -N 2 -- pulcrun -n 5 --oversubscribe echo x | wc -l)"
is no_node_of_others 'pulcrun: n3 is no node of this allocation' \
	"$(alloc -w n1,n2 -N 2 -- pulcrun --nodes n3 true; cat "$TMPDIR/err")"
if [ "$(nproc)" -ge 2 ]; then
	is processors_are_those_of_the_allocation '1 n2
1 n3
2 n1' "$(alloc -n 4 -N 3 -- pulcrun -n 3 --per-node 1 sh -c 'echo $(nproc) $PULC_NODE' | sort)"
	is cpus_per_task '2 n1
2 n2' "$(alloc -w n1,n2 -n 2 -c 2 -- pulcrun sh -c 'echo $(nproc) $PULC_NODE' | sort)"
else
	echo "skip $suite.processors_are_those_of_the_allocation: one processor"
fi
is a_job_in_a_job_stays_there 'n1 n2' "$(alloc -w n1,n2 -- pulcrun -n 1 pulcrun -n 2 sh -c 'echo $PULC_NODE' | sort | xargs)"
is two_at_a_time 4 "$(alloc -N 2 -- sh -c 'pulcrun echo x & pulcrun echo x; wait' | wc -l)"
is outside_there_is_none 125 "$(status_of --scheduler slurm true)"
is none_is_wanted "$(hostname)" "$(alloc -N 2 -- pulcrun --scheduler none sh -c 'echo $PULC_NODE')"
"$bin/pulcctl" stop >/dev/null
left_is_nothing nothing_is_left_of_jobs

# ---- streams, statuses ----------------------------------------------------------------------

is input 'hello' "$(echo hello | alloc -N 2 -- pulcrun --stdin 1 cat)"
is much_output 200000 "$(alloc -N 2 -- pulcrun seq 100000 | wc -l)"
is status_is_the_tasks 7 "$(status_in -N 2 -- pulcrun sh -c 'exit $((PULC_RANK * 7))')"
is not_found 127 "$(status_in -N 2 -- pulcrun no-such-program)"
cat >mpi.c <<-'END'
	#include <mpi.h>
	#include <stdio.h>
	int main(int argc, char **argv)
	{
		int rank, sum;
		MPI_Init(&argc, &argv);
		MPI_Comm_rank(MPI_COMM_WORLD, &rank);
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		printf("%d\n", sum);
		return MPI_Finalize();
	}
END
if mpicc.mpich -o mpi mpi.c 2>/dev/null; then
	is mpi '6 6 6 6' "$(alloc -n 4 -N 3 -- pulcrun ./mpi | xargs)"
else
	echo "skip $suite.mpi: no MPICH here"
fi
printf '#!/bin/sh\npulcrun sh -c "exit \$PULC_RANK"\n' >script
is batch_job 1 "$(timeout 120 sbatch -Q -W -n 2 -N 2 -o batch.out script; echo $?)"
left_is_nothing nothing_is_left_of_batch_jobs

# ---- ends -----------------------------------------------------------------------------------

begin() { # COMMAND...: in the background, until its tasks sleep: one that has gone off on its own and one at each node
	"$@" >out 2>err &
	job=$!
	await task_count 6 && await note_folders "$n_psids"
}
n_psids=4
long='setsid sleep 600 & sleep 601'

begin alloc -N 3 -- pulcrun sh -c "$long"
kill -TERM "$(pgrep -x pulcrun)"
wait $job
is a_signal_reaches_the_tasks 143 $?
left_is_nothing nothing_is_left_after_a_signal

begin alloc -N 3 -- pulcrun sh -c "$long"
kill -KILL "$(pgrep -x pulcrun)"
wait $job
left_is_nothing nothing_is_left_after_a_kill

begin alloc -N 3 -- pulcrun sh -c "$long"
kill -KILL "$(pgrep -x psid | tail -n 1)"
kill -TERM "$(pgrep -x pulcrun)"
wait $job
is a_psid_may_die 143 $?
left_is_nothing nothing_is_left_after_the_death_of_a_psid

begin alloc -N 3 -- pulcrun sh -c "$long"
scancel "$(squeue -h -o %i)"
wait $job
left_is_nothing nothing_is_left_of_a_cancelled_allocation

printf '#!/bin/sh\npulcrun sh -c "%s"\n' "$long" >script
begin sbatch -Q -N 3 -o batch.out script
scancel "$(squeue -h -o %i)"
left_is_nothing nothing_is_left_of_a_cancelled_batch_job

begin alloc -N 3 -- pulcrun sh -c "trap '' TERM; $long"
scancel "$(squeue -h -o %i)"
wait $job
left_is_nothing nothing_is_left_of_those_who_ignore_it

begin alloc -N 3 -- pulcrun sh -c "$long"
# shellcheck disable=SC2046 # a list of numbers
kill -KILL $(pgrep -x 'agent|psid|srun|pulcrun') 2>/dev/null
wait $job
stale=$folders
left=$(alloc -N 3 -- pulcrun -n 3 --per-node 1 true; for i in $stale; do [ ! -e "$i" ] || echo "$i"; done)
is the_next_one_clears_up '' "$left"
folders=
left_is_nothing nothing_is_left_when_all_are_killed
exit 0 # and with us, the first process here, goes the site
