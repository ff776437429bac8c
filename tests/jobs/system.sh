#!/bin/bash
# The psid of the system: jobs of several users, each as who asked, and nobody as root.
# shellcheck disable=SC2016
suite=jobs.system
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"
system_dir
export PULC_TEST_SECRET=of_the_administrator
system_psid
unset PULC_TEST_SECRET

as() { # UID COMMAND...
	local uid=$1
	shift
	setpriv --reuid "$uid" --regid $((uid + 1)) --groups $((uid + 2)),$((uid + 3)) env HOME=/ "$@"
}

as_run() {
	local uid=$1
	shift
	as "$uid" timeout 60 "$dir/bin/pulcrun" "$@"
}

is user_and_groups '6001 6002 6002 6003 6004' "$(as_run 6001 sh -c 'echo $(id -u) $(id -g) $(id -G)')"
is another_user '7001 7002' "$(as_run 7001 sh -c 'echo $(id -u) $(id -g)')"
is root_is_root 0 "$(run() { timeout 60 "$dir/bin/pulcrun" "$@"; }; run id -u)"
is no_way_back 127 "$(as_run 6001 setpriv --reuid 0 true >/dev/null 2>&1; echo $?)"
is keeper_is_the_users 6001 "$(as_run 6001 sh -c 'stat -c %u /proc/$PPID')"
# The PMIx server that scripts get is a process of the user, who may look into it.
names=$(as_run 6001 sh -c 'for p in $(pgrep -P $PPID -x keeper-pmix); do tr "\0" "\n" <"/proc/$p/environ"; done' | cut -d= -f1 | sort | xargs)
if [ -n "$names" ]; then
	is environment_of_psid_is_not_shown "HOME PATH" "$names"
else
	echo "skip $suite.environment_of_psid_is_not_shown: no PMIx server"
fi
waiting() { # a keeper that is no job's
	pgrep -P "$psid" -x keeper-waits
}
as_run 6001 true
await waiting
spare=$(waiting)
is waiting_keeper_is_nobodys_yet 0 "$(stat -c %u "/proc/$spare")"
is waiting_keeper_becomes_the_user "$spare 7001 7001 7002 7003 7004" "$(as_run 7001 sh -c 'echo $PPID $(stat -c %u /proc/$PPID) $(id -u) $(id -g) $(id -G | cut -d" " -f2-)')"
is hard_limit_is_the_callers 77 "$( (ulimit -n 77; as_run 6001 sh -c 'ulimit -H -n'))"
is file_belongs_to_the_user 6001 "$(as_run 6001 --output "$dir/work/out" touch made; stat -c %u made)"
is failure_ends_the_others 3 "$(as_run 6001 -q -n 2 sh -c '[ $PULC_RANK = 0 ] || exit 3; setsid sleep 1000 & sleep 1000'; echo $?)"

PULC_TEST_MARK=$TMPDIR/mine as_run 6001 sh -c 'setsid sleep 1000 & echo ready $PULC_JOB; wait' >ready &
runner=$!
await grep -q ready ready
read -r _ job <ready
is others_do_not_see_it 0 "$(as 7001 "$dir/bin/pulcctl" jobs --json | json 'len(j)')"
is others_may_not_end_it "pulcctl: $job: this job is another user's" "$(as 7001 "$dir/bin/pulcctl" kill "$job" 2>&1)"
is its_owner_sees_it 1 "$(as 6001 "$dir/bin/pulcctl" jobs --json | json "[i['job'] for i in j].count('$job')")"
as 6001 "$dir/bin/pulcctl" kill "$job"
wait $runner
is its_owner_may_end_it 137 $?
gone ended_all mine
