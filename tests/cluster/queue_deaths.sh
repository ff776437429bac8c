#!/bin/bash
# The queue of a partition, and the deaths of nodes: of who decides, of who asks, of all.
# timeout: 600
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
# shellcheck source=tests/cluster/queue.bash
. "$(dirname "$0")/queue.bash"
lab_check cluster.queue_deaths
queue_up

# Who decides dies, with a part of the job that runs: what waits goes on waiting, and is decided about by the other node.
first=$(lab_ctl 1 --json nodes | python3 -c 'import json, sys
print(min((n["id"], n["name"]) for n in json.load(sys.stdin) if n["name"] in ("n2", "n3"))[1][1])')
other=$((5 - first))
begin large2 1 "${both[@]}"
comes queue_deaths.first_begins runs large2 2
begin large3 1 "${both[@]}" --wait
comes queue_deaths.one_waits queue_is 4 "1: 2 tasks: there is room for 0 of 2 tasks now"
begin small3 4 --partition night --wait
comes queue_deaths.both_wait queue_is 1 "1: 2 tasks: there is room for 0 of 2 tasks now; 2: 1 tasks: there is room for 0 of 1 tasks now"
ip netns pids "$lab_id-$first" | xargs kill -KILL
wait "${lab_pid[first]}" "${runner[large2]}" 2>/dev/null
comes queue_deaths.death_of_who_decides runs small3 1
is queue_deaths.small_has_what_is_left "n$other" "$(where small3)"
comes queue_deaths.large_waits_for_the_dead queue_is 4 "1: 2 tasks: 1 nodes are down or drained: room for 1 of 2 tasks is left"
lab_start "$first"
comes queue_deaths.large_waits_for_the_small queue_is 4 "1: 2 tasks: there is room for 1 of 2 tasks now"
ends queue_deaths.small3_ends small3
comes queue_deaths.large_begins_when_all_are_back runs large3 2

# Who has asked dies: his own job is gone, and holds nobody up.
begin large4 4 "${both[@]}" --wait
comes queue_deaths.waits_at_4 queue_is 1 "1: 2 tasks: there is room for 0 of 2 tasks now"
begin large5 1 "${both[@]}" --wait
await lab_ctl 1 queue --here --no-headers
lab_kill 4
wait "${runner[large4]}"
is queue_deaths.dead_asker_loses_its_own 125 $?
comes queue_deaths.others_move_up queue_is 1 "1: 2 tasks: there is room for 0 of 2 tasks now"
ends queue_deaths.large3_ends large3
comes queue_deaths.next_after_the_dead runs large5 2

# All psids of the partition die and come back: what runs goes on, and they know it again.
begin last 1 "${both[@]}" --wait
comes queue_deaths.last_waits queue_is 1 "1: 2 tasks: there is room for 0 of 2 tasks now"
kill -KILL "${lab_pid[1]}"
wait "${lab_pid[1]}" 2>/dev/null
wait "${runner[last]}"
is queue_deaths.without_psid_nobody_waits 125 $?
lab_start 1
await lab_all_alive 3 1 2 3
begin again 1 "${both[@]}" --wait
comes queue_deaths.what_runs_is_known queue_is 1 "1: 2 tasks: there is room for 0 of 2 tasks now"
ends queue_deaths.large5_ends large5
comes queue_deaths.again_begins runs again 2
ends queue_deaths.again_ends again
