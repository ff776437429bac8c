#!/bin/bash
# Jobs over more nodes than one psid tells itself (docs/jobs.md): psids that were told pass it on. And the ways to name
# nodes that need several of them.
# timeout: 300
# shellcheck disable=SC2016 # the tasks' shell expands it
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
lab_check cluster.tree
lab_up 7

run() { # ARGUMENT...
	lab_node 1 timeout 120 "$bin/pulcrun" "$@"
}

nothing_runs() {
	local i
	for i in 1 2 3 4 5 6 7; do
		[ -z "$(lab_ctl $i tasks --here --no-headers)" ] || return 1
	done
}

# Slow to give each other up: this is not about nodes that get no processor for a while.
for i in 1 2 3 4 5 6 7; do lab_start $i PULC_CLUSTER_PROBE_MSEC=1000; done
comes tree.they_meet lab_all_alive 7 1 2 3 4 5 6 7

everywhere=(-n 14 --oversubscribe --per-node 2)
is tree.two_tasks_on_each "2 n1 2 n2 2 n3 2 n4 2 n5 2 n6 2 n7" "$(run "${everywhere[@]}" sh -c 'echo $PULC_NODE' | sort | uniq -c | xargs)"
is tree.output_is_complete 14000 "$(run "${everywhere[@]}" seq 1000 | wc -l)"
is tree.input_reaches_all "$(seq 1000 | md5sum | cut -c1-32) 14" \
	"$(seq 1000 | run "${everywhere[@]}" --stdin all md5sum | cut -c1-32 | sort | uniq -c | awk '{ print $2, $1 }')"
is tree.failure_at_a_leaf_ends_all 6 "$(run "${everywhere[@]}" -q sh -c '[ $PULC_RANK != 13 ] || exit 6; exec sleep 1000'; echo $?)"
comes tree.everywhere nothing_runs

printf 'n7 slots=2 # the last one\n\nn5\n' >"$lab/hosts"
is tree.nodes_of_a_file "0 n7 1 n7 2 n5" \
	"$(run -n 3 --oversubscribe --strategy node --hostfile "$lab/hosts" sh -c 'echo $PULC_RANK $PULC_NODE' | sort | xargs)"
is tree.next_goes_round "n1 n2 n3 n4 n5 n6 n7" \
	"$(for i in 1 2 3 4 5 6 7; do run --strategy next --oversubscribe sh -c 'echo $PULC_NODE'; done | sort | xargs)"
