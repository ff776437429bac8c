#!/bin/bash
# The queue of a partition: who waits, in which order, and why.
# timeout: 600
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
# shellcheck source=tests/cluster/queue.bash
. "$(dirname "$0")/queue.bash"
lab_check cluster.queue
queue_up

begin all 1 --partition night -n $((2 * cores))
comes queue.first_begins runs all $((2 * cores))
is queue.does_not_wait "125 pulcrun: there is room for 0 of 1 tasks now" "$(run 4 --partition night true >"$lab/err" 2>&1; echo "$? $(cat "$lab/err")")"
is queue.never_fits "125 pulcrun: the partition has room for $((2 * cores)) tasks of this kind" \
	"$(run 4 --partition night --wait -n $((2 * cores + 1)) true >"$lab/err" 2>&1; echo "$? $(cat "$lab/err")")"
begin large 1 "${both[@]}" --wait
comes queue.waits queue_is 1 "1: 2 tasks: there is room for 0 of 2 tasks now"
begin second 4 "${both[@]}" --wait
comes queue.in_its_order queue_is 3 "1: 2 tasks: there is room for 0 of 2 tasks now; 2: 2 tasks: there is room for 0 of 2 tasks now"
is queue.of_a_node "1" "$(lab_ctl 4 queue --here --no-headers | wc -l)"
comes queue.pulcrun_says_why grep -q 'waits: there is room for 0 of 2' "$lab/second.out"
ends queue.first_ends all
comes queue.next_begins runs large 2
is queue.on_both "n2 n3" "$(where large)"
comes queue.other_still_waits queue_is 2 "1: 2 tasks: there is room for 0 of 2 tasks now"
ends queue.next_ends large
comes queue.second_begins runs second 2
ends queue.second_ends second
begin small 4 --partition night --wait
comes queue.small_begins runs small 1

# A large one waits for the node that the small one has; another small one passes it, and only one of its size may.
begin large2 1 "${both[@]}" --wait
comes queue.large_waits queue_is 1 "1: 2 tasks: there is room for 1 of 2 tasks now"
begin pass 4 --partition night --wait
comes queue.small_passes runs pass 1
ends queue.pass_ends pass
begin late1 4 --partition night --wait
comes queue.another_passes runs late1 1
ends queue.late1_ends late1
begin late2 4 --partition night --wait
comes queue.third_does_not queue_is 1 "1: 2 tasks: there is room for 1 of 2 tasks now; 2: 1 tasks: 1 before it in the queue"
ends queue.small_ends small
comes queue.large_has_its_turn runs large2 2
job=$(lab_ctl 1 queue --no-headers | awk '{ print $1 }')
is queue.kill_of_one_that_waits "" "$(lab_ctl 2 kill "$job" 2>&1)"
wait "${runner[late2]}"
is queue.killed 125 $?
is queue.killed_is_told 1 "$(grep -c 'ended before it began' "$lab/late2.out")"
comes queue.is_empty queue_is 1 ""

ends queue.large2_ends large2

# A shared one goes by processors.
lab_ctl 1 partition delete night
lab_ctl 1 partition create day n2
await lab_ctl 2 partition list day
begin some 1 --partition day -n "$cores"
comes queue.shared_begins runs some "$cores"
begin more 1 --partition day --wait
comes queue.shared_waits queue_is 1 "1: 1 tasks: there is room for 0 of 1 tasks now"
is queue.pulcrun_may_be_ended_while_it_waits 124 "$(lab_node 1 timeout 2 "$bin/pulcrun" --partition day --wait true 2>/dev/null; echo $?)"
comes queue.and_its_job_with_it queue_is 1 "1: 1 tasks: there is room for 0 of 1 tasks now"
ends queue.some_ends some
comes queue.more_begins runs more 1
ends queue.more_ends more
