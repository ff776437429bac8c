#!/bin/bash
# Limits for each user of a partition, partitions that are changed, and the one for jobs that name none.
# shellcheck disable=SC2016
suite=jobs.limits
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"
system_dir
export PULC_STATE_DIR=$dir/state PULC_NODE_NAME=here
system_psid

run_as() { # UID ARGUMENT...: what is said, and the status if it is not 0
	local r
	as "$1" "$dir/bin/pulcrun" --oversubscribe "${@:2}" 2>&1
	r=$?
	[ $r = 0 ] || echo "status $r"
}

# A job in the background, until the file NAME.go is there; NAME.up is when it runs, NAME.out is what is said.
begin() { # NAME UID ARGUMENT...
	as "$2" "$dir/bin/pulcrun" --oversubscribe "${@:3}" sh -c 'echo >"$0.up"; until [ -e "$0.go" ]; do sleep 0.05; done' "$1" >"$1.out" 2>&1 &
	runner[$1]=$!
}
declare -A runner

ends() { # TEST NAME: the job ends well
	touch "$2.go"
	wait "${runner[$2]}"
	is "$1" 0 $?
}

queue() { # what waits, and why
	"$dir/bin/pulcctl" queue --json | json '"; ".join("%u %s" % (i["uid"], i["waits"]) for i in j)'
}

queue_is() {
	[ "$(queue)" = "$1" ]
}

comes() { # NAME COMMAND...
	is "$1" 0 "$(await "${@:2}"; echo $?)"
}

line() {
	"$dir/bin/pulcctl" partition list --no-headers | xargs
}

of_cores="limit cores=2 of partition all for each user"
is wait_wants_a_partition "pulcrun: --wait is for jobs of a --partition, and there is none for jobs that name none status 125" "$(run_as 6002 --wait true | xargs)"
is created "" "$(ctl 0 partition create all here --default --owner 6001 --limit cores=2 --limit queued=1 --limit time=36h)"
is listed "all 6001 shared,default all here cores=2,queued=1,time=36h" "$(line)"
is listed_json "2 0 0 1 129600 True" "$("$dir/bin/pulcctl" partition --json | json '" ".join(str(j[0][k]) for k in ("max_cores", "max_nodes", "max_jobs", "max_queued", "max_sec", "is_default"))')"
is more_than_one_may_have "pulcrun: $of_cores: 3 are asked for (ask for less) status 125" "$(run_as 6002 -n 3 true | xargs)"
is processors_count "pulcrun: $of_cores: 4 are asked for (ask for less) status 125" "$(run_as 6002 -n 2 --cpus-per-task 2 true | xargs)"
begin a 6002 -n 2
comes begins test -e a.up
is others_are_used "pulcrun: $of_cores: 2 are in use (--wait waits for that) status 125" "$(run_as 6002 true | xargs)"
is the_partition_may_be_named "pulcrun: $of_cores: 2 are in use (--wait waits for that) status 125" "$(run_as 6002 --partition all true | xargs)"
is others_have_their_own 6003 "$(run_as 6003 id -u)"
begin b 6002 --wait
comes waits_for_his_own queue_is "6002 $of_cores: 2 are in use"
comes says_so grep -q "waits: $of_cores: 2 are in use" b.out
is so_many_may_wait "pulcrun: limit queued=1 of partition all for each user: 1 wait (try again when one has begun) status 125" "$(run_as 6002 --wait true | xargs)"
is does_not_run 1 "$(test -e b.up; echo $?)"

is not_everybody_changes_it "pulcctl: only its owner and root may change a partition" "$(ctl 6002 partition set all --limit cores=none)"
is its_owner_does_not_take_nodes "pulcctl: only operators of this psid may change the nodes and the kind of a partition" "$(ctl 6001 partition set all here --limit cores=3)"
is its_owner_does_not_keep_others_out "pulcctl: only operators of this psid may change the nodes and the kind of a partition" "$(ctl 6001 partition set all --exclusive)"
is its_owner_does_not_give_it_away "pulcctl: only root may give a partition to somebody else" "$(ctl 6001 partition set all --owner 6002)"
is nothing_has_changed "all 6001 shared,default all here cores=2,queued=1,time=36h" "$(line)"
is its_owner_changes_limits "" "$(ctl 6001 partition set all --limit cores=3 --limit queued=none)"
is and_nothing_else "all 6001 shared,default all here cores=3,time=36h" "$(line)"
comes who_waited_begins test -e b.up
ends first_ends a
ends second_ends b

is limit_of_jobs "" "$(ctl 6001 partition set all --limit cores=none --limit jobs=1)"
begin c 6002 -n 4
comes as_many_cores_as_he_likes test -e c.up
is one_job "pulcrun: limit jobs=1 of partition all for each user: 1 run (--wait waits for that) status 125" "$(run_as 6002 true | xargs)"

# psid dies and comes back: what runs still counts.
restart_psid() {
	kill -KILL $psid
	wait $psid 2>/dev/null
	system_psid
}
restart_psid
still() {
	[ "$(run_as 6002 true | xargs)" = "pulcrun: limit jobs=1 of partition all for each user: 1 run (--wait waits for that) status 125" ]
}
comes still_one_job still

# Time: what runs already is ended too, and its owner reads why.
is limit_of_time "" "$(ctl 6001 partition set all --limit jobs=none --limit time=1)"
wait "${runner[c]}"
is ended_for_its_time 137 $?
is and_its_owner_reads_why 1 "$(grep -c 'limit time of partition all: a job may run for 1 s: it is ended' c.out)"
is so_is_a_new_one 137 "$(as 6002 "$dir/bin/pulcrun" sleep 50 2>/dev/null; echo $?)"


# Also of one whose keeper has not called by then.
mv "$dir/libexec/pulc/keeper" "$dir/libexec/pulc/keeper.late"
cat >"$dir/libexec/pulc/keeper" <<E2
#!/bin/sh
sleep 3
exec "$dir/libexec/pulc/keeper.late" "\$@"
E2
chmod 755 "$dir/libexec/pulc/keeper"
restart_psid
as 6002 "$dir/bin/pulcrun" sleep 50 >late.out 2>&1
is late_keeper 137 $?
is late_keeper_and_why 1 "$(grep -c 'limit time of partition all: a job may run for 1 s: it is ended' late.out)"
mv "$dir/libexec/pulc/keeper.late" "$dir/libexec/pulc/keeper"

is users_and_kind "" "$(ctl 0 partition set all --user 6003 --owner 6003 --no-default --limit time=none --exclusive)"
is all_of_it "all 6003 exclusive 6003 here -" "$(line)"
is only_its_user "pulcrun: you may not use partition all status 125" "$(run_as 6002 --partition all true | xargs)"
is everybody_again "" "$(ctl 6003 partition set all --all-users)"
is everybody_may 6002 "$(run_as 6002 --partition all id -u)"
is shared_again "" "$(ctl 0 partition set all --shared --default here)"
is one_default_only "pulcctl: partition all is the one for jobs that name none" "$(ctl 0 partition create more here --default)"
is nothing_to_set "pulcctl: no partition of that name" "$(ctl 0 partition set more --shared)"
is no_such_node "pulcctl: no node named there" "$(ctl 0 partition set all there)"
is set_what "pulcctl: partition set: what? (pulcctl --help)" "$(ctl 0 partition set all)"
is bad_limit "pulcctl: --limit wants cores=N, nodes=N, jobs=N, queued=N or time=N[smhd], or none for N, not 'cores=0'" "$(ctl 0 partition set all --limit cores=0)"
is bad_name_of_a_limit 2 "$(ctl 0 partition set all --limit core=1 >/dev/null; echo $?)"
is limit_elsewhere "pulcctl: --limit means nothing to 'partition'" "$(ctl 0 partition list --limit cores=1)"
is nothing_was_set "all 6003 shared,default all here -" "$(line)"
