#!/bin/bash
# Jobs over several nodes: each a network namespace with its own host name, psid, address and run folder.
# shellcheck disable=SC2016 # the tasks' shell expands it
# timeout: 300
suite=cluster.jobs
# shellcheck source=tests/jobs/names.bash
. "$(dirname "$0")/../jobs/names.bash"
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/../jobs/common.sh"
trap - EXIT

if [ "$(id -u)" != 0 ] || ! ip netns add "pj$$.sw" 2>/dev/null; then
	echo "skip $suite: needs root and network namespaces"
	exit 0
fi
n_nodes=3
key=$TMPDIR/key
(umask 077; echo "PULC-KEY-1:$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" >"$key")

on() { # NODE COMMAND...
	local i=$1
	shift
	PULC_RUNTIME_DIR=$TMPDIR/n$i ip netns exec "pj$$.$i" "$@"
}

start_node() {
	PULC_NODE_NAME=n$1 PULC_CLUSTER_NAME=test PULC_CLUSTER_KEY_FILE=$key PULC_CLUSTER_ADDRESS=10.77.0.$1 \
		PULC_CLUSTER_SEEDS=10.77.0.1 PULC_IDLE_EXIT_SEC=0 \
		on "$1" unshare -u sh -c 'hostname "$1"; exec "$2" --daemonize' sh "n$1" "$bin/psid" 2>/dev/null
}

make_nodes() {
	local i
	ip -n "pj$$.sw" link add name sw0 type bridge && ip -n "pj$$.sw" link set sw0 up || return
	for ((i = 1; i <= n_nodes; i++)); do
		ip netns add "pj$$.$i" &&
			ip -n "pj$$.sw" link add "v$i" type veth peer name eth0 netns "pj$$.$i" &&
			ip -n "pj$$.sw" link set "v$i" master sw0 up &&
			ip -n "pj$$.$i" addr add "10.77.0.$i/24" dev eth0 &&
			ip -n "pj$$.$i" link set eth0 up && ip -n "pj$$.$i" link set lo up || return
		mkdir -m 700 "n$i"
		start_node "$i"
	done
}

remove_nodes() {
	local i
	for ((i = 1; i <= n_nodes; i++)); do
		on "$i" timeout 10 "$bin/pulcctl" stop >/dev/null 2>&1
		ip netns del "pj$$.$i" 2>/dev/null
	done
	ip netns del "pj$$.sw"
}
trap remove_nodes EXIT

run() {
	on 1 timeout 60 "$bin/pulcrun" "$@"
}

all_nodes_are_there() {
	[ "$(run -n $n_nodes --oversubscribe --per-node 1 sh -c 'echo $PULC_NODE' 2>/dev/null | sort -u | wc -l)" = $n_nodes ]
}

make_nodes || { echo "skip $suite: no veth or bridge here"; exit 0; }
await all_nodes_are_there || { echo "not ok $suite.nodes_meet"; exit 1; }
echo "ok $suite.nodes_meet"

everywhere=(-n 6 --oversubscribe --per-node 2)
is ranks 'n1 n1 n2 n2 n3 n3 0 1 2 3 4 5' "$(run "${everywhere[@]}" sh -c 'echo $PULC_NODE; echo $PULC_RANK' | sort | xargs | sed 's/^\(.*5\) \(n.*\)$/\2 \1/')"
is addresses_differ 3 "$(run "${everywhere[@]}" sh -c 'ip -o addr show dev eth0 | grep -o 10.77.0.[0-9]' | sort -u | wc -l)"
is named_nodes 'n2 n3 n3' "$(run -n 3 --nodes n2:1,n3:2 sh -c 'echo $PULC_NODE' | sort | xargs)"
is filling_named_nodes 'n3 n3 n2' "$(run -n 3 --strategy node --nodes n3:2,n2:2 --json=report sh -c :; json '" ".join(t["node"] for t in j["tasks"])' <report)"
is first_failure 5 "$(run "${everywhere[@]}" -q sh -c '[ $PULC_RANK != 4 ] || exit 5; sleep 60'; echo $?)"
is output_is_complete 60000 "$(run "${everywhere[@]}" sh -c 'seq 10000' | wc -l)"
is input_to_all "$(seq 30000 | md5sum | cut -c1-32) 6" "$(seq 30000 | run "${everywhere[@]}" --stdin all md5sum | cut -c1-32 | sort | uniq -c | awk '{ print $2, $1 }')"
is input_to_a_rank_elsewhere 1 "$(seq 30000 | run "${everywhere[@]}" --stdin 5 --label md5sum | grep -c "^.5. $(seq 30000 | md5sum | cut -c1-32)")"
is unknown_node 125 "$(run --nodes n9 true 2>/dev/null; echo $?)"

for i in 1 2; do
	is "ports_of_parent_and_child_on_n$i" "n$i $([ $i = 1 ] && echo here || echo elsewhere)
42" "$(on 1 timeout 120 "$PULC_BUILD/tests/jobs/family" across n$i; echo $?)"
done

cat >tree <<'E2'
#!/bin/bash
trap '' TERM INT HUP
setsid bash -c 'trap "" TERM INT HUP; (sleep 1000 & sleep 1000 & wait) & wait' &
echo ready
wait
E2
chmod +x tree

start() { # MARK ARGUMENTS...
	local mark=$1
	shift
	: >"$mark.out"
	PULC_TEST_MARK=$TMPDIR/$mark on 1 timeout 120 "$bin/pulcrun" "$@" >"$mark.out" 2>"$mark.err" &
	runner=$!
	await eval '[ "$(grep -c ready '"$mark"'.out)" -ge '"$2"' ]'
}

pulcrun_of() { # MARK
	local p
	for p in $(marked "$1"); do
		! grep -qsx pulcrun "/proc/$p/comm" || echo "$p"
	done
}

start kill_run "${everywhere[@]}" "$TMPDIR/tree"
kill -KILL "$(pulcrun_of kill_run)"
wait $runner 2>/dev/null
gone death_of_pulcrun kill_run

start ctl -n 4 --oversubscribe --strategy node --nodes n1:2,n2:2 --per-node 2 "$TMPDIR/tree"
# Node 3 has no part of it, and sees and ends it all the same.
await eval '[ "$(on 3 "$bin/pulcctl" jobs --no-headers | wc -l)" = 1 ] && [ "$(on 3 "$bin/pulcctl" tasks --no-headers | wc -l)" = 4 ]'
job=$(on 3 "$bin/pulcctl" jobs --json | json 'j[0]["job"]')
is jobs_of_all_nodes "n1 4 4 0" "$(on 3 "$bin/pulcctl" jobs --json | json '" ".join(str(j[0][k]) for k in ("node", "n_tasks", "n_running", "keeper"))')"
is tasks_of_all_nodes "0 n1 1 n1 2 n2 3 n2" "$(on 3 "$bin/pulcctl" tasks "$job" --json | json '" ".join("%u %s" % (t["rank"], t["node"]) for t in j)')"
is tasks_of_this_node "2 3 0" "$(on 2 "$bin/pulcctl" tasks --here --json | json '" ".join(str(t["rank"]) for t in j)') $(on 3 "$bin/pulcctl" tasks --here --no-headers | wc -l)"
is kill_without_its_node "1 pulcctl: ${job%@*}: no such job on this node; those of others are named JOB@NODE" "$(on 3 "$bin/pulcctl" kill "${job%@*}" 2>err; echo "$? $(cat err)")"
is kill_of_no_job "1 pulcctl: 77777@n1: no such job" "$(on 3 "$bin/pulcctl" kill 77777@n1 2>err; echo "$? $(cat err)")"
is kill_at_no_node "1 pulcctl: 1@nowhere: no such job, and no node of that name" "$(on 3 "$bin/pulcctl" kill 1@nowhere 2>err; echo "$? $(cat err)")"
await on 3 "$bin/pulcctl" kill "$job"
wait $runner
is kill_from_another_node 137 $?
gone kill_from_another_node_leaves_nothing ctl

# The head keeper has no descriptor for who calls: it looks again later, and has not the processor meanwhile.
start crowded "${everywhere[@]}" "$TMPDIR/tree"
keeper=$(on 1 "$bin/pulcctl" jobs --json | json 'j[0]["keeper"]')
port=$(on 1 ss -Hltnp | awk -v who="pid=$keeper," 'index($0, who) { n = split($4, a, ":"); print a[n]; exit }')
free=0
while [ -e "/proc/$keeper/fd/$free" ]; do ((free++)); done
ticks() { awk '{ print $14 + $15 }' "/proc/$keeper/stat"; }
prlimit --pid "$keeper" --nofile=$free:
on 1 timeout 30 bash -c 'exec 3<>"/dev/tcp/10.77.0.1/$0" && echo nonsense >&3 && echo called && cat <&3; echo hung up' "$port" >caller.out 2>/dev/null &
caller=$!
await grep -q called caller.out
before=$(ticks)
sleep 1
is caller_without_a_descriptor "calm 1" "$([ $(($(ticks) - before)) -lt $(($(getconf CLK_TCK) / 2)) ] && echo calm || echo busy) $(wc -l <caller.out)"
prlimit --pid "$keeper" --nofile=1024:
wait $caller
is caller_with_a_descriptor "hung up" "$(tail -n 1 caller.out)"
on 1 "$bin/pulcctl" kill "$(on 1 "$bin/pulcctl" jobs --json | json 'j[0]["job"]')"
wait $runner
gone crowded_keeper_leaves_nothing crowded

start keeper "${everywhere[@]}" "$TMPDIR/tree"
kill -KILL "$(on 3 "$bin/pulcctl" jobs --json | json 'j[0]["keeper"]')"
wait $runner
is death_of_a_keeper "125 1" "$? $(grep -c 'is lost' keeper.err)"
gone death_of_a_keeper_leaves_nothing keeper

# psid dies on every node: the job goes on.
start psids "${everywhere[@]}" --keep-going sh -c 'echo ready; until [ -e "$0" ]; do sleep 0.05; done; echo end; exit $((PULC_RANK / 5 * 5))' "$TMPDIR/go"
for ((i = 1; i <= n_nodes; i++)); do
	pid=$(on $i "$bin/pulcctl" status --json | json 'j["pid"]')
	kill -KILL "$pid"
	await eval "! kill -0 $pid"
	start_node $i
done
touch go
wait $runner
is job_survives_all_psids "5 6" "$? $(grep -c end psids.out)"
gone job_survives_all_psids_and_ends psids
await all_nodes_are_there

# psid dies on one node, and none comes before the cluster has given that up: the job goes on there as well.
start alone "${everywhere[@]}" sh -c 'echo ready; until [ -e "$0" ]; do sleep 0.05; done; echo end' "$TMPDIR/go_alone"
pid=$(on 3 "$bin/pulcctl" status --json | json 'j["pid"]')
kill -KILL "$pid"
await eval '[ "$(on 1 "$bin/pulcctl" nodes --json | json "sum(n[\"state\"] == \"dead\" for n in j)")" = 1 ]'
sleep 5 # longer than the head waits for an answer
touch go_alone
wait $runner
is job_survives_a_lost_psid "0 6 0" "$? $(grep -c end alone.out) $(grep -c lost alone.err)"
gone job_survives_a_lost_psid_and_ends alone
start_node 3
await all_nodes_are_there

# A node falls silent: its tasks are lost, and with them the job.
start silent "${everywhere[@]}" "$TMPDIR/tree"
ip -n "pj$$.sw" link set v3 down
wait $runner
is silent_node "125 1" "$? $(grep -c 'is lost' silent.err)"
gone silent_node_kills_its_own silent
ip -n "pj$$.sw" link set v3 up
await all_nodes_are_there

# A node stops with all that runs on it: it is given up. When it goes on, what it had is not wanted any more.
start stopped "${everywhere[@]}" "$TMPDIR/tree"
stopped=$(ip netns pids "pj$$.3")
# shellcheck disable=SC2086 # a list of numbers
kill -STOP $stopped
wait $runner
is stopped_node "125 1" "$? $(grep -c 'is lost' stopped.err)"
# shellcheck disable=SC2086
kill -CONT $stopped
gone stopped_node_goes_on_without_it stopped
await all_nodes_are_there

# The network falls apart under a job that wants to go on: what is on the wrong side is lost, the rest is complete.
start parted "${everywhere[@]}" --keep-going sh -c 'echo ready; until [ -e "$0" ]; do sleep 0.05; done; echo end' "$TMPDIR/go_on"
ip -n "pj$$.sw" link set v3 down
await grep -q 'is lost' parted.err
touch go_on
wait $runner
is parted_network "125 4" "$? $(grep -c end parted.out)"
ip -n "pj$$.sw" link set v3 up
gone parted_network_leaves_nothing parted
await all_nodes_are_there

# Every psid is killed under an MPI job on all nodes, which goes on, and ends as if nothing had been.
cat >ring.c <<'E2'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int rank, size, sum, go = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	printf("ready\n");
	fflush(stdout);
	while (!go) {
		int mine = argc > 1 && access(argv[1], F_OK) == 0;
		MPI_Allreduce(&mine, &go, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		usleep(20000);
	}
	for (int i = 0; i < 1000; i++)
		printf("rank %d of %d line %d\n", rank, size, i);
	MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	return rank == 0 ? sum : 0;
}
E2
survive_psids() { # KIND
	local pid i
	mpicc."$1" ring.c -o "ring.$1"
	start "ring.$1" -n 6 --oversubscribe --per-node 2 --keep-going "$TMPDIR/ring.$1" "$TMPDIR/go.$1"
	await eval '[ "$(grep -c ready ring.'"$1"'.out)" = 6 ]'
	for ((i = 1; i <= n_nodes; i++)); do
		pid=$(on $i "$bin/pulcctl" status --json | json 'j["pid"]')
		kill -KILL "$pid"
		await eval "! kill -0 $pid"
		start_node $i
	done
	touch "go.$1"
	wait $runner
	is "$1.survives_all_psids" "15 6000" "$? $(sort -u "ring.$1.out" | grep -c '^rank . of 6 line')"
	gone "$1.leaves_nothing" "ring.$1"
	await all_nodes_are_there
}

for kind in mpich openmpi; do
	if ! command -v mpicc.$kind >/dev/null; then
		echo "skip $suite.$kind: mpicc.$kind is not there"
		continue
	fi
	cat >hello.c <<-'E2'
		#include <mpi.h>
		#include <stdio.h>
		int main(int argc, char **argv)
		{
			int rank, size, sum;
			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_size(MPI_COMM_WORLD, &size);
			MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("rank %d of %d sum %d\n", rank, size, sum);
			MPI_Finalize();
			return 0;
		}
	E2
	mpicc.$kind hello.c -o hello.$kind
	survive_psids $kind
	is "$kind.across_nodes" 6 "$(run "${everywhere[@]}" "$TMPDIR/hello.$kind" 2>&1 | grep -c 'of 6 sum 15')"
	names_program $kind
	is "$kind.names_across_nodes" "$names_said" "$(run -n 3 --per-node 1 "$TMPDIR/names.$kind" 2>/dev/null | sort)"
	is "$kind.across_nodes_under_the_shim" 6 \
		"$(run "${everywhere[@]}" "$bin/pulc" "$TMPDIR/hello.$kind" 2>&1 | grep -c 'of 6 sum 15')"
done
is pmix.names_across_nodes "$published_said" "$(run -n 3 --per-node 1 --mpi pmix "$PULC_BUILD/tests/jobs/published" 2>&1 | sort)"
# Without an exchange of all data at the beginning: each rank asks for what it needs, when it needs it.
if [ -e hello.openmpi ]; then
	is openmpi.joins_by_name_across_nodes "$names_joined" "$(run -n 3 --per-node 1 "$TMPDIR/names.openmpi" joins 2>&1 | sort)"
	export OMPI_MCA_pmix_base_async_modex=1 OMPI_MCA_pmix_base_collect_data=0
	is openmpi.asks_across_nodes 6 "$(run "${everywhere[@]}" "$TMPDIR/hello.openmpi" 2>&1 | grep -c 'of 6 sum 15')"
fi
