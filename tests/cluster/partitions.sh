#!/bin/bash
# Partitions over several nodes: made on one, known to all, whoever dies; jobs stay inside, and others outside.
# timeout: 300
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
lab_check cluster.partitions
lab_up 3

# "night: n2,n3 (exclusive)", a line each: what node I has in its book.
book() { # I
	lab_ctl "$1" partition list --json 2>/dev/null | python3 -c 'import json, sys
for p in json.load(sys.stdin): print(p["name"] + ":", ",".join(p["nodes"]) + (" (exclusive)" if p["exclusive"] else ""))' | paste -sd ';'
}

has() { # BOOK I...: all of these nodes
	local i
	for i in "${@:2}"; do
		[ "$(book "$i")" = "$1" ] || return 1
	done
}

run() { # I ARGUMENT...
	lab_node "$1" timeout 60 "$bin/pulcrun" "${@:2}"
}

nodes_of() { # I ARGUMENT...: where tasks have run
	# shellcheck disable=SC2016 # the tasks' shell expands it
	run "$@" sh -c 'echo $PULC_NODE' 2>&1 | sort | xargs
}

for i in 1 2 3; do lab_start $i; done
await lab_all_alive 3 1 2 3

is partitions.none_at_first "" "$(book 1)"
lab_ctl 1 partition create night n2-n3 2>"$lab/err"
is partitions.created "0 " "$? $(cat "$lab/err")"
# Who was told that it is there need not hear from the node that told him.
lab_kill 1
comes partitions.survives_its_maker has "night: n2,n3" 2 3
lab_start 1
await lab_all_alive 3 1 2 3
comes partitions.its_maker_still_has_it has "night: n2,n3" 1

is partitions.job_stays_inside "n2 n3" "$(nodes_of 1 -n 2 --oversubscribe --per-node 1 --partition night)"
is partitions.job_is_no_larger "125" "$(run 1 -n 3 --oversubscribe --per-node 1 --partition night true 2>/dev/null; echo $?)"
is partitions.named_node_inside n3 "$(nodes_of 1 --partition night --nodes n3)"
is partitions.named_node_outside "pulcrun: node n1 is not in partition night" "$(nodes_of 1 --partition night --nodes n1)"
is partitions.shared_ones_are_open "n1 n2 n3" "$(nodes_of 1 -n 3 --oversubscribe --per-node 1)"
is partitions.no_such_partition "pulcrun: no partition named day" "$(nodes_of 1 --partition day)"

is partitions.name_is_taken "1 pulcctl: there is a partition night already" "$(lab_ctl 2 partition create night n1 2>&1 | sed 's/^/1 /')"
is partitions.no_such_node "pulcctl: no node named n7" "$(lab_ctl 2 partition create day n1,n7 2>&1)"
is partitions.exclusive_shares_nothing "pulcctl: node n3 is in partition night, and an exclusive one shares no node" \
	"$(lab_ctl 2 partition create day n1,n3 --exclusive 2>&1)"

# A node that was away hears of what was deleted and made meanwhile.
lab_cut 3
await lab_knows 1 "n3 dead"
lab_ctl 2 partition delete night
lab_ctl 1 partition create kept 'n[2-2]' --exclusive
comes partitions.one_side_goes_on has "kept: n2 (exclusive)" 1 2
is partitions.the_other_has_the_old_book "night: n2,n3" "$(book 3)"
lab_join 3
comes partitions.who_comes_back_hears_of_it has "kept: n2 (exclusive)" 1 2 3
await lab_all_alive 3 1 2 3

is partitions.exclusive_keeps_others_out "n1 n3" "$(nodes_of 1 -n 2 --oversubscribe --per-node 1)"
is partitions.exclusive_node_is_refused "pulcrun: node n2 is kept for partition kept (--partition)" "$(nodes_of 3 --nodes n2)"
is partitions.exclusive_is_for_its_own n2 "$(nodes_of 3 --partition kept)"
is partitions.deleted_is_no_partition "pulcrun: no partition named night" "$(nodes_of 3 --partition night)"

# Both sides of a divided network make one of the same name: afterwards there is one.
lab_cut 3
await lab_knows 3 "n1 dead, n2 dead"
await lab_knows 1 "n3 dead"
lab_ctl 1 partition create both n1
lab_ctl 3 partition create both n3
lab_join 3
await lab_all_alive 3 1 2 3
agree() {
	[ -n "$(book 1)" ] && [ "$(book 1)" = "$(book 2)" ] && [ "$(book 2)" = "$(book 3)" ]
}
comes partitions.both_sides_agree agree

# All die; one comes back alone, as another machine would after a reboot, and has it on its disk.
before=$(book 3)
for i in 1 2 3; do lab_kill $i; done
lab_start 3
comes partitions.disk_keeps_it has "$before" 3
lab_start 1
lab_start 2
comes partitions.everywhere has "$before" 1 2 3
lab_ctl 1 partition delete both
lab_ctl 1 partition delete kept
comes partitions.deleted_everywhere has "" 1 2 3
is partitions.nothing_to_delete "pulcctl: no partition of that name" "$(lab_ctl 1 partition delete kept 2>&1)"
