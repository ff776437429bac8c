#!/bin/bash
# Whoever says that he keeps a job takes no other user's, in its cgroup or not, and stands in nobody's way.
# shellcheck disable=SC2016
suite=jobs.claims
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/jobs/common.sh
. "$here/common.sh"
system_dir
cp "$here/claim.py" "$dir"
chmod 644 "$dir/claim.py"
node=$(hostname)
export PULC_NODE_NAME=$node
system_psid

liar() { # ARGUMENT...: in the background, until its input ends; what it said is in ./liar
	mkfifo -m 666 hold
	: >liar
	as 7001 python3 "$dir/claim.py" "$dir/run/psid.sock" "$@" <hold >liar &
	liar=$!
	exec {hold}>hold
	rm hold
	await grep -q heard liar
}

liar_ends() {
	exec {hold}>&-
	wait $liar
}

numbers_to_come() {
	local i
	for i in 1 2 3 4 5 6 7 8; do echo "$(($1 + i))@$node"; done
}

jobs_of() { # UID
	ctl "$1" jobs --json | json '" ".join(i["job"].split("@")[0] for i in j if i["program"] != "liar")'
}

last_number() {
	as 6001 "$dir/bin/pulcrun" sh -c 'echo ${PULC_JOB%@*}'
}

kill_psid() {
	kill -KILL $psid
	wait $psid 2>/dev/null
}

start_victim() {
	: >victim
	rm -f go
	as 6001 "$dir/bin/pulcrun" sh -c 'echo ${PULC_JOB%@*} $PPID; until [ -e "$0" ]; do sleep 0.05; done; exit 5' "$dir/work/go" >victim &
	runner=$!
	await test -s victim
	read -r job keeper <victim
}

stands() { # NAME: the job of the user is there, and nobody else's
	await eval '[ "$(jobs_of 6001)" = '"$job"' ]'
	is "$1" "$job" "$(jobs_of 6001)"
}

# Numbers that will come: nobody keeps the others from theirs.
last=$(last_number)
# shellcheck disable=SC2046 # a list
liar $(numbers_to_come "$last")
is numbers_that_come.heard "heard 8" "$(cat liar)"
is numbers_that_come.others_start "0 0 0" "$(for i in 1 2 3; do as 6001 "$dir/bin/pulcrun" true; echo $?; done | xargs)"
liar_ends

# Another one's job, in the moment after a restart, before its keeper has called; a stopped keeper makes that long, but
# not for ever: psid sweeps what nobody keeps.
start_victim
kill -STOP "$keeper"
kill_psid
system_psid
liar "$job@$node"
kill -CONT "$keeper"
liar_ends
await eval '[ -z "$(ctl 7001 jobs --no-headers)" ]'
is after_a_restart.liar_is_gone "" "$(ctl 7001 jobs --no-headers)"
stands after_a_restart.job_is_its_users
touch go
wait $runner
is after_a_restart.job_goes_on 5 $?

# A keeper of another version than the psid that comes after a restart: neither understands the other, and its job goes on.
other_version() { # VERSION: such a keeper; what became of it is in ./liar
	mkfifo -m 666 hold
	: >liar
	as 6001 python3 "$dir/claim.py" --version "$1" "$dir/run/psid.sock" <hold >liar &
	liar=$!
	exec {hold}>hold
	rm hold
	await grep -q . liar
}
start_victim
cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)$(sed -n 's/^0:://p' "/proc/$keeper/cgroup")
if ! grep -qsx "$keeper" "$cgroup/cgroup.procs"; then
	echo "skip $suite.other_version: jobs have no cgroups here"
	touch go
	wait $runner
else
	task=$(head -n 1 "$cgroup/tasks/cgroup.procs")
	kill -STOP "$keeper"
	kill_psid
	rm -r "$dir/run/jobs" # as if that psid had written nothing down: any process of the cgroup is taken for its keeper
	system_psid
	other_version 2
	is other_version.is_refused_elsewhere refused "$(cat liar)"
	liar_ends
	(
		echo 0 >"$cgroup/cgroup.procs"
		other_version 2
		cat liar
		# Until psid has swept what nobody keeps.
		sleep 11
		kill -0 "$task" && echo goes on
		exec {hold}>&-
	) >said 2>&1 &
	other=$!
	await grep -q . said
	is other_version.job_is_shown "$job ?" "$(ctl 6001 jobs --json | json '" ".join([j[0]["job"].split("@")[0], j[0]["program"]])')"
	is other_version.has_no_signals "pulcctl: $job@$node: its keeper is of another version than psid: it can be ended as a whole only" \
		"$(ctl 6001 kill --signal USR1 "$job@$node")"
	wait $other
	is other_version.job_goes_on "heard goes on" "$(xargs <said)"
	kill -CONT "$keeper"
	wait $runner
	is other_version.job_ends_with_its_keeper 125 $?
fi

# A task of the job says so of its own job, from the keeper's cgroup: what stands there was written down before.
programs() {
	ctl 6001 jobs --json | json '" ".join(i["program"] + "*" + str(i["n_tasks"]) for i in j)'
}
rm -f go
mkfifo -m 666 hold
: >victim
rm liar
cat >teller <<'E2'
#!/bin/sh
echo ${PULC_JOB%@*} $PPID
until [ -e lie ]; do sleep 0.05; done
own=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)$(sed -n 's/^0:://p' /proc/self/cgroup)
sh -c 'echo $$ >"$0/cgroup.procs" && exec python3 "$@"' "${own%/tasks}" "$1" --tasks 4000 "$2" "$PULC_JOB" <hold >liar
until [ -e go ]; do sleep 0.05; done
exit 5
E2
chmod 755 teller
as 6001 "$dir/bin/pulcrun" ./teller "$dir/claim.py" "$dir/run/psid.sock" >victim &
runner=$!
await test -s victim
read -r job keeper <victim
kill -STOP "$keeper"
kill_psid
system_psid
exec {hold}<>hold
touch lie
await grep -q heard liar
is own_job.another_process_is_not_heard "" "$(programs)"
kill -CONT "$keeper"
await eval '[ -n "$(programs)" ]'
is own_job.is_as_it_was "teller*1" "$(programs)"
exec {hold}>&-
touch go
wait $runner
is own_job.goes_on 5 $?
rm hold
await eval '[ ! -e "$dir/run/jobs" ]'
is own_job.nothing_is_left "" "$(ls -d "$dir/run/jobs" 2>/dev/null)"

# The same where there are no cgroups.
kill $psid
wait $psid
no_cgroup='for m in $(awk "/cgroup/ { print \$2 }" /proc/mounts | sort -r); do umount -l "$m"; done; exec "$0" --system'
if ! unshare -m true; then
	echo "skip $suite.no_cgroup: no namespace without cgroups is to be had"
	exit 0
fi
plain_psid() {
	unshare -m sh -c "$no_cgroup" "$dir/bin/psid" 2>>"$dir/log" &
	psid=$!
	await is_up
}
plain_psid
last=$(last_number)
# shellcheck disable=SC2046
liar $(numbers_to_come "$last")
is no_cgroup.heard "heard 8" "$(cat liar)"
is no_cgroup.is_not_believed "" "$(ctl 7001 jobs --no-headers)"
is no_cgroup.others_start "0 0 0" "$(for i in 1 2 3; do as 6001 "$dir/bin/pulcrun" true; echo $?; done | xargs)"
liar_ends
is no_cgroup.one_job_for_each_client closed "$(python3 "$dir/claim.py" --one "$dir/run/psid.sock" "1@$node" "2@$node")"
await eval '[ -z "$(ctl 0 jobs --no-headers)" ]'
is no_cgroup.claims_end_with_their_clients "" "$(ctl 0 jobs --no-headers)"
start_victim
kill_psid
plain_psid
stands no_cgroup.job_is_taken_back
touch go
wait $runner
is no_cgroup.job_goes_on 5 $?
