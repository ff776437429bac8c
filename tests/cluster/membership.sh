#!/bin/bash
# Nodes that join, leave, die, stop, are cut off and lose datagrams, and what the others know of them.
# timeout: 300
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
lab_check cluster.membership
lab_up 5

for i in 1 2 3 4 5; do lab_start $i; done
comes cluster.all_know_all lab_all_alive 5 1 2 3 4 5
is cluster.names_and_states "n1 alive, n2 alive, n3 alive, n4 alive, n5 alive" "$(lab_states 4)"
is cluster.address 10.77.0.3:7852 "$(lab_ctl 1 nodes --no-headers n3 | awk '{ print $(NF - 1) }')"
is cluster.memory_is_told 1024 "$(lab_ctl 1 --json nodes n3 | grep -oE '"mib_memory":[0-9]+' | cut -d: -f2)"

lab_kill 3
comes cluster.the_killed_are_dead lab_knows 1 "n3 dead"
comes cluster.and_everywhere lab_knows 5 "n3 dead"
lab_start 3
comes cluster.the_restarted_are_back lab_all_alive 5 1 2 3 4 5

lab_kill 4 TERM
comes cluster.the_ended_have_left lab_knows 2 "n4 left"
is cluster.and_did_not_die "" "$(lab_log 2 | grep "n4 .*dead")"
wait "${lab_pid[4]}"
is cluster.they_end_well 0 $?
lab_start 4
comes cluster.and_come_again lab_all_alive 5 1 2 3 4 5

lab_kill 2 STOP
comes cluster.the_stopped_are_dead lab_knows 1 "n2 dead"
sleep 2
lab_kill 2 CONT
comes cluster.the_continued_are_back lab_all_alive 5 1 2 3 4 5
comes cluster.they_learn_of_it lab_said 2 "the other nodes had given this one up"

# Both seeds are on the other side.
lab_cut 5
comes cluster.the_cut_off_are_dead lab_knows 1 "n5 dead"
comes cluster.for_them_all_others_are lab_knows 5 "n1 dead, n2 dead, n3 dead, n4 dead, n5 alive"
lab_join 5
comes cluster.all_is_well_again lab_all_alive 5 1 2 3 4 5
is cluster.nobody_else_was_buried "" "$(lab_log 2 | grep -E "n[134] .*dead" | grep -v n3)"

lab_ctl 1 drain n4
comes cluster.drained_from_afar lab_knows 3 "n4 drained"
is cluster.path_is_a_connection tls "$(lab_ctl 1 nodes --no-headers n4 | awk '{ print $(NF - 3) }')"
lab_ctl 4 undrain
comes cluster.undrained lab_knows 3 "n4 alive"
lab_ctl 1 drain n9 2>"$lab/err"
is cluster.no_such_node 1 $?
is cluster.no_such_node_is_said "pulcctl: n9: no node of that name" "$(cat "$lab/err")"

lab_load 3 40
loaded() {
	[ "$(lab_ctl 1 --json nodes n3 | grep -oE '"centi_load":[0-9]+' | cut -d: -f2)" -gt 500 ]
}
comes cluster.load_is_told loaded

if lab_loss 1 10 2>"$lab/err"; then
	for i in 2 3 4 5; do lab_loss $i 10; done
	for i in 1 2 3 4 5; do : >"$lab/$i/log"; done
	sleep 20 # what must not happen has so long to happen
	is cluster.loss_is_no_death "" "$(cat "$lab"/*/log | grep dead)"
else
	echo "skip cluster.loss_is_no_death: nft can lose nothing here: $(head -n 1 "$lab/err")"
fi
