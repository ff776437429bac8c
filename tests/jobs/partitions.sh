#!/bin/bash
# Whose partitions are, and who may run in them: the psid of the system with users that are no root.
# shellcheck disable=SC2016
suite=jobs.partitions
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"
system_dir
export PULC_STATE_DIR=$dir/state PULC_NODE_NAME=here
system_psid

run_in() { # UID PARTITION: who ran, or why not
	as "$1" "$dir/bin/pulcrun" ${2:+--partition "$2"} id -u 2>&1
}

names() {
	"$dir/bin/pulcctl" partition --json | json '" ".join(p["name"] for p in j)'
}

is not_everybody_makes_them "pulcctl: only operators of this psid may create a partition" "$(ctl 6001 partition create mine here)"
is owner_and_users "" "$(ctl 0 partition create lab here --exclusive --owner 6001 --user 6002 --user 6003)"
is list "lab 6001 exclusive 6002,6003 here -" "$(ctl 7001 partition list --no-headers | xargs)"
is list_json "6001 True [6002, 6003] ['here']" "$(ctl 7001 partition list lab --json | json '" ".join(str(j[0][k]) for k in ("owner", "exclusive", "users", "nodes"))')"
is list_of_another 0 "$(ctl 7001 partition list day --json | json 'len(j)')"
is owner_may 6001 "$(run_in 6001 lab)"
is user_may 6003 "$(run_in 6003 lab)"
is root_may 0 "$(run_in 0 lab)"
is others_may_not "pulcrun: you may not use partition lab" "$(run_in 7001 lab)"
is nobody_without_it "pulcrun: all nodes that are up are kept for partitions (--partition)" "$(run_in 6001 "")"
is others_may_not_delete_it "pulcctl: only its owner and root may delete a partition" "$(ctl 6002 partition delete lab)"

kill -KILL $psid
wait $psid 2>/dev/null
system_psid
is it_survives_a_kill lab "$(names)"
is and_who_may_too "pulcrun: you may not use partition lab" "$(run_in 7001 lab)"
is owner_may_delete_it "" "$(ctl 6001 partition delete lab)"
is deleted "" "$(names)"
is open_again 7001 "$(run_in 7001 "")"

is bad_name "pulcctl: that is no partition" "$(ctl 0 partition create ../lab here | cut -c1-29)"
is bad_user 'pulcctl: no user '"'no-such-user'" "$(ctl 0 partition create lab here --user no-such-user)"
is bad_nodes "pulcctl: 'here[' is no list of nodes such as n1,n[2-4] or n1-n4" "$(ctl 0 partition create lab 'here[')"
is bad_words "pulcctl: partition create NAME NODES" "$(ctl 0 partition create lab)"
is bad_verb 2 "$("$dir/bin/pulcctl" partition make 2>/dev/null; echo $?)"
is nothing_was_made "" "$(names)"

kill -KILL $psid
wait $psid 2>/dev/null
echo x >"$dir/state/partitions"
system_psid
is damaged_book_is_said 1 "$(grep -c 'partitions: damaged' "$dir/log")"
is and_another_is_written "" "$(ctl 0 partition create lab here)"
