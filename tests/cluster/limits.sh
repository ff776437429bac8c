#!/bin/bash
# Limits for each user over several nodes, and the deaths of nodes: of who counts, of where the jobs are, of who has set them.
# timeout: 600
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
# shellcheck source=tests/cluster/queue.bash
. "$(dirname "$0")/queue.bash"
lab_check cluster.limits

limits() { # I: of the partition, as node I has it
	lab_ctl "$1" partition list all --no-headers 2>/dev/null | awk '{ print $NF }'
}

limits_are() { # TEXT I...
	local i
	for i in "${@:2}"; do
		[ "$(limits "$i")" = "$1" ] || return 1
	done
}

says() { # TEXT I ARGUMENT...: a job that is refused
	[ "$(run "${@:2}" true 2>&1 | xargs)" = "$1" ]
}

lab_up 4
for i in 1 2 3 4; do lab_start $i; done
await lab_all_alive 4 1 2 3 4
lab_ctl 1 partition create all n1-n3 --default
await limits_are - 1 2 3 4
both=(--oversubscribe -n 2 --per-node 1)

# Set on a node that dies at once, and all know it.
lab_ctl 4 partition set all --limit nodes=2 --limit jobs=2
lab_kill 4
comes limits.survive_who_set_them limits_are nodes=2,jobs=2 1 2 3
lab_start 4
await lab_all_alive 4 1 2 3 4
comes limits.and_he_has_them limits_are nodes=2,jobs=2 4

of_nodes="pulcrun: limit nodes=2 of partition all for each user"
of_jobs="pulcrun: limit jobs=2 of partition all for each user"
is limits.so_many_nodes "$of_nodes: so many have room for 2 tasks of this kind (ask for less)" \
	"$(run 1 --oversubscribe -n 3 --per-node 1 true 2>&1 | xargs)"
begin one 4 "${both[@]}"
comes limits.one_begins runs one 2
begin two 4 "${both[@]}"
comes limits.two_begins runs two 2
is limits.both_on_the_same_nodes "$(where one)" "$(where two)"
comes limits.no_third_one says "$of_jobs: 2 run (--wait waits for that)" 1
begin three 4 --oversubscribe --wait
comes limits.third_waits queue_is 4 "1: 1 tasks: limit jobs=2 of partition all for each user: 2 run"

# Who counts dies, with all that runs there: the next one counts what is left. keeper and pulcrun of the jobs are elsewhere.
first=$(lab_ctl 1 --json nodes | python3 -c 'import json, sys
print(min((n["id"], n["name"]) for n in json.load(sys.stdin) if n["name"] != "n4")[1][1])')
ip netns pids "$lab_id-$first" | xargs kill -KILL
wait "${lab_pid[first]}" 2>/dev/null
case " $(where one) " in
*" n$first "*) # both jobs have lost a task, which ends them
	wait "${runner[one]}" "${runner[two]}"
	comes limits.death_of_jobs_makes_room runs three 1
	;;
*)
	comes limits.others_count_too says "$of_jobs: 2 run (--wait waits for that)" 4
	ends limits.first_ends one
	comes limits.end_of_one_makes_room runs three 1
	ends limits.second_ends two
	;;
esac
ends limits.third_ends three
lab_start "$first"
await lab_all_alive 4 1 2 3 4

# The psid of each node in turn dies while the jobs run on: they still count, whoever counts.
lab_ctl 2 partition set all --limit nodes=none --limit jobs=1
comes limits.changed_everywhere limits_are jobs=1 1 2 3 4
begin four 4 --oversubscribe -n 3 --per-node 1
comes limits.on_all_nodes runs four 3
for i in 1 2 3; do
	lab_kill $i
	lab_start $i
	await lab_all_alive 4 1 2 3 4
	comes limits.still_counts_after_$i says "pulcrun: limit jobs=1 of partition all for each user: 1 run (--wait waits for that)" 4
done

# Its time is up: the node that it was started from ends it everywhere. Without that, each of the others what it has.
begin five 4 --oversubscribe -n 3 --per-node 1 --wait
comes limits.five_waits queue_is 4 "1: 3 tasks: limit jobs=1 of partition all for each user: 1 run"
lab_ctl 3 partition set all --limit jobs=2 --limit time=2
comes limits.time_is_set limits_are jobs=2,time=2s 1 2 3 4
wait "${runner[four]}"
is limits.time_is_up 137 $?
comes limits.its_owner_reads_why grep -q 'limit time of partition all: a job may run for 2 s: it is ended' "$lab/four.out"
wait "${runner[five]}"
is limits.of_the_next_too 137 $?
nothing_runs() {
	[ -z "$(lab_ctl 1 tasks --no-headers 2>/dev/null)" ]
}
comes limits.nothing_is_left nothing_runs
lab_ctl 1 partition set all --limit time=none --limit jobs=none
await limits_are - 1 2 3 4
begin six 4 --oversubscribe -n 3 --per-node 1
comes limits.six_begins runs six 3
lab_kill 4
lab_ctl 1 partition set all --limit time=1s
gone_from() {
	[ -z "$(lab_ctl "$1" tasks --here --no-headers 2>/dev/null)" ]
}
for i in 1 2 3; do comes limits.ended_without_its_psid_on_$i gone_from $i; done
wait "${runner[six]}"
is limits.and_reported 137 $?
