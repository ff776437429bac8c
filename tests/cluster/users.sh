#!/bin/bash
# Psids of the system on two nodes that each have user lists of their own: jobs of two users run as who asked on both
# nodes, and nobody runs as a user that the other node means by the same name or the same number.
# timeout: 300
# shellcheck disable=SC2016 # the tasks' shell expands it
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
suite=cluster.users
lab_check $suite
# Where every user may look; $TMPDIR is root's alone.
dir=$(mktemp -d /tmp/pulc-users.XXXXXX)
chmod 755 "$dir"
lab=$dir/lab
mkdir "$dir/bin" "$dir/libexec" "$dir/work"
cp "$bin/psid" "$bin/pulcrun" "$bin/pulcctl" "$dir/bin"
cp -r "$PULC_BUILD/libexec/pulc" "$dir/libexec/pulc"
chmod -R go+rX "$dir"
chmod 1777 "$dir/work"
cd "$dir/work" || exit 1
trap 'users_down' EXIT

users_down() {
	lab_down
	cd / && rm -rf "$dir"
}

# alice and bob are the same on both nodes, carol has another number on each, dave is on node 1 only; what is eve on node 1 is
# dave's number on node 2.
users_of() { # I
	cat <<-LIST
		root:x:0:0:root:/root:/bin/sh
		alice:x:6001:6001::/:/bin/sh
		bob:x:7001:7001::/:/bin/sh
		carol:x:800$1:8000::/:/bin/sh
		$([ "$1" = 1 ] && echo dave || echo eve):x:9001:9001::/:/bin/sh
	LIST
}

# The node's own list of users, then psid.
start_node() { # I [NAME=VALUE...]
	local i=$1
	shift
	users_of "$i" >"$dir/passwd.$i"
	(exec ip netns exec "$lab_id-$i" env PULC_RUNTIME_DIR="$dir/run$i" PULC_NODE_NAME="n$i" PULC_CLUSTER_NAME=users \
		PULC_CLUSTER_KEY_FILE="$lab/key" PULC_CLUSTER_SEEDS="10.77.0.1 10.77.0.2" PULC_LOAD_FROM="$lab/$i/proc" "$@" \
		unshare -m sh -c 'mount --bind "$1" /etc/passwd && exec "$2" --system' sh "$dir/passwd.$i" "$dir/bin/psid" \
		>>"$lab/$i/log" 2>&1) &
	lab_pid[i]=$!
}

as() { # UID NODE COMMAND...: a user with a group and two more
	local uid=$1 node=$2
	shift 2
	ip netns exec "$lab_id-$node" setpriv --reuid "$uid" --regid $((uid + 1)) --groups $((uid + 2)),$((uid + 3)) \
		env HOME=/ PULC_RUNTIME_DIR="$dir/run$node" timeout 60 "$@"
}

both=(-n 2 --oversubscribe --per-node 1 -q)

run_as() { # UID ARGUMENT...: from node 1
	as "$1" 1 "$dir/bin/pulcrun" "${both[@]}" "${@:2}"
}

# What was refused and why, without the name of the rank, then the status.
refusal() { # UID
	as "$1" 1 "$dir/bin/pulcrun" "${both[@]}" true 2>&1 | grep -o 'the user .*'
	echo "status ${PIPESTATUS[0]}"
}

ctl_as() { # UID NODE ARGUMENT...
	as "$1" "$2" "$dir/bin/pulcctl" "${@:3}" 2>&1
}

know_each_other() {
	[ "$(ctl_as 0 1 nodes --no-headers | awk '$2 == "alive"' | wc -l)" = 2 ] &&
		[ "$(ctl_as 0 2 nodes --no-headers | awk '$2 == "alive"' | wc -l)" = 2 ]
}

n_jobs() { # UID NODE
	ctl_as "$1" "$2" jobs --no-headers | wc -l
}

lab_up 2
chmod 755 "$lab" "$lab/1" "$lab/2"
start_node 1
start_node 2 PULC_ALLOW_USERS="0 alice bob carol 9001"
comes $suite.nodes_meet know_each_other

who='echo $PULC_NODE $(id -u) $(id -g) $(id -G)'
is $suite.one_user "n1 6001 6002 6002 6003 6004 n2 6001 6002 6002 6003 6004" "$(run_as 6001 sh -c "$who" | sort | xargs)"
is $suite.another_user "n1 7001 7002 7002 7003 7004 n2 7001 7002 7002 7003 7004" "$(run_as 7001 sh -c "$who" | sort | xargs)"
is $suite.root "n1 0 n2 0" "$(run_as 0 sh -c 'echo $PULC_NODE $(id -u)' | sort | xargs)"
is $suite.no_way_back "0 0" "$(run_as 6001 sh -c 'setpriv --reuid 0 true 2>/dev/null; echo $(($? == 0))' | xargs)"
is $suite.keepers_are_the_users "6001 6001" "$(run_as 6001 sh -c 'stat -c %u /proc/$PPID' | xargs)"
is $suite.folder_mask_and_limits "$dir/work 0031 55 $dir/work 0031 55" \
	"$( (umask 031; ulimit -n 55; run_as 6001 sh -c 'echo $PWD $(umask) $(ulimit -H -n)') | xargs)"
is $suite.environment "x y x y" "$(export THING='x y'; run_as 7001 sh -c 'echo $THING' | xargs)"
is $suite.files_belong_to_the_user "6001 6001" "$(run_as 6001 sh -c 'touch made.$PULC_NODE'; stat -c %u made.n1 made.n2 | xargs)"
is $suite.files_of_others_are_closed "1 1" "$(install -m 600 /dev/null secret; run_as 7001 sh -c 'cat secret 2>/dev/null; echo $?' | xargs)"

is $suite.same_name_another_number "the user has another number on that node, or none status 125" "$(refusal 8001 | xargs)"
is $suite.same_number_another_name "the user has another number on that node, or none status 125" "$(refusal 9001 | xargs)"
is $suite.no_name_at_all "the user has another number on that node, or none status 125" "$(refusal 5555 | xargs)"
is $suite.at_home_they_may "8001 9001" "$(for u in 8001 9001; do as $u 1 "$dir/bin/pulcrun" --nodes n1 id -u; done | xargs)"

# What one user runs, another neither sees nor ends, from either node.
run_as 6001 --keep-going sh -c 'echo ready; exec sleep 1000' >ready &
runner=$!
await eval '[ "$(grep -c ready ready)" = 2 ]'
job=$(ctl_as 6001 2 jobs --no-headers | awk '{ print $1 }')
is $suite.who_sees_it "1 1 0 0 1 1" "$(for u in 6001 7001 0; do n_jobs $u 1; n_jobs $u 2; done | xargs)"
for i in 1 2; do
	is $suite.who_may_not_end_it_from_n$i "pulcctl: $job: this job is another user's" "$(ctl_as 7001 $i kill "$job")"
done
is $suite.it_runs_on 2 "$(ctl_as 6001 1 tasks "$job" --no-headers | grep -c running)"
ctl_as 6001 2 kill "$job"
wait $runner
is $suite.its_owner_ends_it_from_there 137 $?

# Who may not use node 2 at all. The list is read again; nothing that runs is touched.
lab_kill 2 TERM
wait "${lab_pid[2]}"
start_node 2 PULC_ALLOW_USERS="0 alice"
comes $suite.nodes_meet_again know_each_other
is $suite.not_allowed_there "the user may not use the psid of that node (AllowUsers) status 125" "$(refusal 7001 | xargs)"
is $suite.allowed_there "6001 6001" "$(run_as 6001 id -u | xargs)"
nothing_is_left() {
	! grep -qlzsx "PULC_JOB=$job" /proc/[0-9]*/environ
}
comes $suite.nothing_is_left nothing_is_left
