#!/bin/bash
# Reservations over several nodes, and the deaths of nodes: of who decides, of a part, of the node that it was made from.
# timeout: 600
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
# shellcheck source=tests/cluster/queue.bash
. "$(dirname "$0")/queue.bash"
lab_check cluster.reserve
queue_up

# A reservation with a command that runs until NAME.go is there; its name is in NAME.id.
reserve() { # NAME I ARGUMENT...
	# shellcheck disable=SC2016 # the command's shell expands it
	lab_node "$2" timeout 500 "$bin/pulcrun" --reserve "${@:3}" \
		sh -c 'echo "$PULC_RESERVATION" >"$0.new" && mv "$0.new" "$0.id"; until [ -e "$0.go" ]; do sleep 0.05; done' \
		"$lab/$1" >"$lab/$1.out" 2>&1 &
	runner[$1]=$!
	await test -s "$lab/$1.id"
	is "reserve.$1_begins" 0 $?
	id=$(cat "$lab/$1.id")
}

inside() { # I ARGUMENT...: pulcrun in the reservation
	lab_node "$1" timeout 60 env PULC_RESERVATION="$id" "$bin/pulcrun" "${@:2}"
}

says() { # TEXT I ARGUMENT...: what a job in it says, or where it was
	# shellcheck disable=SC2016
	[ "$(inside "${@:2}" sh -c 'echo "$PULC_NODE"' 2>&1 | sort | xargs)" = "$1" ]
}

is_free() { # the partition
	run 4 "${both[@]}" true
}

nothing_runs() {
	[ -z "$(lab_ctl 4 tasks --no-headers 2>/dev/null)" ]
}

await lab_ctl 4 partition list night
reserve first 1 "${both[@]}" --wait
comes reserve.runs_inside says "n2 n3" 1 -n 2
comes reserve.from_any_node says "n2 n3" 4 -n 2
is reserve.keeps_others_out "pulcrun: there is room for 0 of 2 tasks now" "$(run 4 "${both[@]}" true 2>&1)"
is reserve.no_larger_than_it_is "pulcrun: the reservation has room for 2 tasks of this kind" "$(inside 1 -n 3 true 2>&1)"
is reserve.is_listed "$id True, " "$(lab_ctl 4 jobs --json | python3 -c 'import json, sys
for j in json.load(sys.stdin): print(j["job"], j["reserves"], end=", ")')"

# The psids of all its nodes die, one after the other: it goes on, and what runs in it is known again.
begin_inside() { # NAME I ARGUMENT...
	PULC_RESERVATION=$id begin "$@"
}
begin_inside half 1
comes reserve.half_begins runs half 1
is reserve.lists_what_is_in_it "$id" "$(lab_ctl 4 jobs --json | python3 -c 'import json, sys
print("".join(j["reservation"] for j in json.load(sys.stdin)))')"
for i in 1 2 3; do
	lab_kill $i
	lab_start $i
	await lab_all_alive 4 1 2 3 4
	comes "reserve.goes_on_without_psid_$i" says "pulcrun: there is room for 1 of 2 tasks now" 4 -n 2
done
begin_inside both 4 -n 2 --wait
comes reserve.waits_inside queue_is 4 "1: 2 tasks: there is room for 1 of 2 tasks now"
ends reserve.half_ends half
comes reserve.who_waited_begins runs both 2

# A node of it dies, and with it what needed it; the rest stays.
ip netns pids "$lab_id-3" | xargs kill -KILL
wait "${lab_pid[3]}" 2>/dev/null
wait "${runner[both]}"
is reserve.what_ran_there_is_lost 0 "$(test $? != 0; echo $?)"
comes reserve.is_smaller says "pulcrun: the reservation has room for 1 tasks of this kind" 1 -n 2
comes reserve.is_still_there says n2 1
comes reserve.says_so grep -q "rank 1 on n3 is lost to the reservation" "$lab/first.out"
lab_start 3
await lab_all_alive 4 1 2 3 4
comes reserve.who_comes_back_is_no_part_of_it says "pulcrun: the reservation has room for 1 tasks of this kind" 4 -n 2

# Its end is the end of what runs in it.
begin_inside last 4
comes reserve.last_begins runs last 1
ends reserve.ends first
wait "${runner[last]}"
is reserve.ends_what_is_inside 137 $?
comes reserve.it_reads_why grep -q "its reservation has ended: it is ended" "$lab/last.out"
comes reserve.gives_back is_free
is reserve.is_over "pulcrun: there is no such reservation, or it has ended" "$(inside 4 true 2>&1)"

# pulcrun is killed.
reserve second 4 "${both[@]}" --wait
begin_inside second_last 1
comes reserve.second_last_begins runs second_last 1
kill -KILL "$(pgrep -f -- "--reserve.*$lab/second\$" | while read -r p; do [ "$(cat "/proc/$p/comm")" != pulcrun ] || echo "$p"; done)"
wait "${runner[second]}" "${runner[second_last]}"
touch "$lab/second.go" # its command has lost its parent and room, no more
comes reserve.ends_with_its_pulcrun is_free
comes reserve.nothing_is_left nothing_runs

# The node that it was made from dies, the reservation with it.
reserve third 1 "${both[@]}" --wait
begin_inside third_last 4
comes reserve.third_last_begins runs third_last 1
ip netns pids "$lab_id-1" | xargs kill -KILL
wait "${lab_pid[1]}" "${runner[third]}" "${runner[third_last]}" 2>/dev/null
comes reserve.ends_with_its_node is_free
comes reserve.nothing_is_left_of_it nothing_runs
is reserve.is_gone "pulcrun: the node of the reservation is gone" "$(inside 4 true 2>&1)"
