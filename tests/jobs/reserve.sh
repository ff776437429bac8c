#!/bin/bash
# Reservations on one node: whose they are, what they hold, and how their command ends.
# shellcheck disable=SC2016
suite=jobs.reserve
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"
system_dir
export PULC_STATE_DIR=$dir/state PULC_NODE_NAME=here
system_psid

reserve() { # UID ARGUMENT...
	as "$1" "$dir/bin/pulcrun" --reserve --oversubscribe -q "${@:2}"
}

# One in the background, until the file NAME.go is there; NAME.id is its name.
hold() { # NAME UID ARGUMENT...
	reserve "$2" "${@:3}" sh -c 'echo "$PULC_RESERVATION" >"$0.new" && mv "$0.new" "$0.id"; until [ -e "$0.go" ]; do sleep 0.05; done' "$1" >"$1.out" 2>&1 &
	runner[$1]=$!
	await test -s "$1.id"
	is "$1_begins" 0 $?
}
declare -A runner

in_it() { # NAME UID ARGUMENT...
	as "$2" env PULC_RESERVATION="$(cat "$1.id")" "$dir/bin/pulcrun" "${@:3}" 2>&1
}

rows() { # COMMAND
	"$dir/bin/pulcctl" "$1" --no-headers | wc -l
}

nothing_runs() {
	[ "$(rows jobs)" = 0 ]
}

run=$dir/bin/pulcrun
export run
is command_and_its_status "4
7" "$(reserve 6001 -n 4 sh -c '"$run" -n 4 echo task | wc -l; exit 7' | xargs; echo "${PIPESTATUS[0]}")"
is signal_of_command 137 "$(reserve 6001 sh -c 'kill -KILL $$'; echo $?)"
is its_shell_if_nothing_is_said "task" "$(echo '"$run" echo task' | SHELL=/bin/sh reserve 6001 -n 1)"
is no_such_command 127 "$(reserve 6001 /nonexistent 2>/dev/null; echo $?)"
is says_its_name 1 "$(as 6001 "$run" --reserve true 2>&1 | grep -c 'pulcrun: reservation [0-9]*@here: 1 tasks of room')"

hold mine 6001 -n 2
is room_for_two "task task" "$(in_it mine 6001 -n 2 echo task | xargs)"
is and_no_more "pulcrun: the reservation has room for 2 tasks of this kind" "$(in_it mine 6001 -n 3 true)"
is of_one_processor "pulcrun: the reservation has room for 1 tasks of this kind" "$(in_it mine 6001 -n 2 --cpus-per-task 2 true)"
is oversubscribed 3 "$(in_it mine 6001 -n 3 --oversubscribe echo task | wc -l)"
is others_are_not_in_it "pulcrun: the reservation is another user's" "$(in_it mine 6002 true)"
is nor_is_root "pulcrun: the reservation is another user's" "$(in_it mine 0 true)"
is counts_once 2 "$("$dir/bin/pulcctl" nodes --json | json 'j[0]["n_cpus"]')"
in_it mine 6001 -n 2 sleep 1000 >inner.out &
inner=$!
await eval '[ "$(rows jobs)" = 2 ]'
is still_counts_once 2 "$("$dir/bin/pulcctl" nodes --json | json 'j[0]["n_cpus"]')"
is lists_what_is_in_it "$(cat mine.id)" "$("$dir/bin/pulcctl" jobs --json | json '"".join(i["reservation"] for i in j)')"
is is_full "pulcrun: there is room for 0 of 1 tasks now" "$(in_it mine 6001 true)"
is a_job_is_no_reservation "pulcrun: there is no such reservation, or it has ended" \
	"$(as 6001 env PULC_RESERVATION="$("$dir/bin/pulcctl" jobs --json | json '"".join(i["job"] for i in j if not i["reserves"])')" "$run" true 2>&1)"

# Killed as a job, it takes what is in it along, and its command.
is is_killed_as_a_job "" "$(ctl 6001 kill "$(cat mine.id)")"
wait $inner
is what_was_in_it_is_killed 137 $?
wait "${runner[mine]}"
is so_is_its_command 125 $?
is which_it_says 1 "$(grep -c 'the reservation has ended, and with it sh' mine.out)"
is nothing_is_left 0 "$(await nothing_runs; echo $?)"
is time_is_up 124 "$(reserve 6001 --timeout 1 sleep 1000; echo $?)"
hold stubborn 6001 -n 1
pkill -TERM -P "${runner[stubborn]}" 2>/dev/null || kill -TERM "${runner[stubborn]}"
wait "${runner[stubborn]}"
is signal_is_passed_on 0 "$(test $? -gt 128; echo $?)"
is not_for_tasks 125 "$(reserve 6001 --pty true 2>/dev/null; echo $?)"

# It counts as a job where there are limits, and what is in it does not.
is limits "" "$(ctl 0 partition create all here --default --limit cores=2)"
is larger_than_the_limit "pulcrun: limit cores=2 of partition all for each user: 3 are asked for (ask for less)" "$(reserve 6001 -n 3 true 2>&1)"
hold limited 6001 -n 2
is is_in_no_partition_of_its_own 2 "$(in_it limited 6001 -n 2 echo task | wc -l)"
is is_what_its_user_may_have "pulcrun: limit cores=2 of partition all for each user: 2 are in use (--wait waits for that)" "$(as 6001 "$run" true 2>&1)"
touch limited.go
wait "${runner[limited]}"
is ends_well 0 $?
