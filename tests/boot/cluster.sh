#!/bin/bash
# Two machines with one key: they see each other, a job runs across while both psids are restarted, and one that boots
# again leaves and comes back as a new incarnation, while the other's job goes on.
# shellcheck disable=SC2016 # the tasks' shell expands it
# timeout: 3600
# shellcheck source=tests/boot/machines.bash
. "$(dirname "$0")/machines.bash"
boot_begin
seconds_job=900

settings() { # NAME
	cat >>"$work/$1/root/etc/pulc/psid.conf" <<-'END2'
		ClusterName=boot
		ClusterKeyFile=/etc/pulc/cluster.key
		ClusterSeeds=10.78.0.1
	END2
}

# A field of a node, as another one knows it.
node_field() { # ASKED NODE FIELD
	on "$1" pulcctl nodes --json | sed -n "/\"name\":\"$2\"/s/.*\"$3\":\"\{0,1\}\([^,\"]*\).*/\1/p"
}

sees_alive() { # ASKED NODE
	[ "$(node_field "$1" "$2" state)" = alive ]
}

sees_gone() { # ASKED NODE
	[ "$(node_field "$1" "$2" state)" != alive ]
}

# A node that lives, in a life that is not this one.
sees_life_after() { # ASKED NODE LIFE
	sees_alive "$1" "$2" && [ "$(node_field "$1" "$2" life_msec)" != "$3" ]
}

# A job whose tasks say where they are, then a number in each turn until its file is gone on their machine.
task='echo "at $PULC_NODE"; i=0; while [ -e "$0" ]; do echo "$PULC_NODE $i"; i=$((i + 1)); sleep 0.1; done; exit 6'

job_start() { # NAME MACHINE OPTION...
	local name=$1 machine=$2
	shift 2
	(seconds_max=$seconds_job on "$machine" sh -c 'name=$1 task=$2; shift 2
		pulcrun -q "$@" sh -c "$task" "/srv/$name.runs" >"/srv/$name" 2>"/srv/$name.errors"; echo $? >"/srv/$name.status"' \
		sh "$name" "$task" "$@") &
}

said_by() { # NAME MACHINE NODE: how many numbers a node's task has said
	grep -c "^$3 " "$work/$2/root/srv/$1"
}

goes_on() { # NAME MACHINE NODE
	local n
	n=$(said_by "$@")
	await says_more_than $((n + 3)) "$@"
}

says_more_than() { # N NAME MACHINE NODE
	[ "$(said_by "${@:2}")" -gt "$1" ]
}

job_end() { # NAME MACHINE NODE...: its tests; each task's numbers are all there, in their order
	local name=$1 machine=$2 node
	for node in "${@:3}"; do
		on "$node" rm "/srv/$name.runs"
	done
	comes "$name.ends" test -s "$work/$machine/root/srv/$name.status"
	is "$name.exits_right" 6 "$(cat "$work/$machine/root/srv/$name.status")"
	is "$name.says_nothing_else" '' "$(tail -n 1 "$work/$machine/root/srv/$name.errors")"
	for node in "${@:3}"; do
		is "$name.output_of_$node.is_whole" 0 \
			"$(awk -v node="$node" '$1 == node { if ($2 != n++) bad++ } END { print bad + 0 }' "$work/$machine/root/srv/$name")"
	done
}

for i in 1 2; do
	machine_make m$i $i
	machine_start m$i
	machine_install m$i
	settings m$i
	touch "$work/m$i/root/srv/across.runs" "$work/m$i/root/srv/stays.runs"
done
on m1 pulcctl keygen /etc/pulc/cluster.key >"$TMPDIR/keygen" 2>&1
is key_is_made 0 $?
cp -p "$work/m1/root/etc/pulc/cluster.key" "$work/m2/root/etc/pulc/"
for i in 1 2; do
	on m$i systemctl enable -q --now psid
	is m$i.psid_runs 0 $?
done
comes m1_sees_m2 sees_alive m1 m2
comes m2_sees_m1 sees_alive m2 m1

job_start across m1 --oversubscribe -n 2 --per-node 1
comes across.runs_on_m1 says_more_than 3 across m1 m1
comes across.runs_on_m2 says_more_than 3 across m1 m2
for node in m1 m2; do
	before=$(psid_of $node)
	on $node systemctl restart psid
	is across.restart_of_$node 0 $?
	is across.restart_of_$node.is_another_psid yes "$([ "$(psid_of $node)" != "$before" ] && echo yes)"
	comes across.m1_goes_on_after_restart_of_$node goes_on across m1 m1
	comes across.m2_goes_on_after_restart_of_$node goes_on across m1 m2
	comes across.m1_sees_m2_after_restart_of_$node sees_alive m1 m2
	comes across.m2_sees_m1_after_restart_of_$node sees_alive m2 m1
done
job_end across m1 m1 m2

job_start stays m1 --oversubscribe -n 1 --nodes m1
comes stays.runs says_more_than 3 stays m1 m1
life=$(node_field m1 m2 life_msec)
before=$(boot_of m2)
on m2 systemctl reboot
comes reboot.m1_sees_m2_leave sees_gone m1 m2
comes reboot.m2_boots_again has_booted_after m2 "$before"
comes reboot.m1_sees_m2_in_a_new_life sees_life_after m1 m2 "$life"
comes reboot.m2_sees_m1 sees_alive m2 m1
comes stays.goes_on goes_on stays m1 m1
job_end stays m1 m1
is reboot.jobs_run_across 'm1 m2' "$(on m1 pulcrun --oversubscribe -n 2 --per-node 1 sh -c 'echo $PULC_NODE' 2>/dev/null | sort | xargs)"
