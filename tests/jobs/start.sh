#!/bin/bash
# One node: exit statuses, environment, placement, reports.
# shellcheck disable=SC2016 # the tasks' shell expands it
suite=jobs.start
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

is starts_a_psid_when_none_is_there hello "$(run printf hello)"
is status_is_the_tasks 3 "$(status_of sh -c 'exit 3')"
is signal_is_128_and_its_number 137 "$(status_of sh -c 'kill -9 $$')"
is crash_of_one_is_told 'pulcrun: rank 0 on '"$(hostname)"': killed by signal 11 (Segmentation fault)
status 139' "$(said sh -c 'kill -SEGV $$')"
is interrupt_of_one_is_not "status 130" "$(said sh -c 'kill -INT $$')"
is quiet_says_no_crash "status 139" "$(said -q sh -c 'kill -SEGV $$')"
is not_found 127 "$(status_of no-such-program)"
is not_executable 126 "$(status_of /etc/passwd)"
is no_such_folder 127 "$(status_of --directory / -n 2 ./no-such-program)"
is script_without_interpreter 5 "$(printf 'exit 5\n' >script; chmod +x script; status_of ./script)"
is wrong_usage 125 "$(status_of -n 0 true)"
is words_beside_a_number "pulcrun: --stdin, unless it is all or none, wants a number from 0 to 65535, not 'every'" "$(run --stdin every true 2>&1)"
is first_failure_decides 4 "$(status_of -n 2 sh -c 'if [ "$PULC_RANK" = 1 ]; then exit 4; else sleep 60; fi')"
is failure_is_told 'pulcrun: rank 1 on '"$(hostname)"': exit status 4
status 4' "$(said -n 2 sh -c 'if [ "$PULC_RANK" = 1 ]; then exit 4; else sleep 60; fi')"
is keep_going_lets_others_end '0
status 4' "$(said -n 2 -q --keep-going sh -c 'if [ "$PULC_RANK" = 1 ]; then exit 4; else sleep 0.3; echo 0; fi')"
aborts() { # CODE, by PMI-1
	status_of bash -c 'echo "cmd=abort exitcode='"$1"'" >&"$PMI_FD"; sleep 60'
}
is an_abort_decides '7 0 255 1' "$(aborts 7) $(aborts 0) $(aborts -1) $(aborts 256)"
is code_of_an_abort_may_be_negative '-1 -1' \
	"$(run --json -n 2 bash -c '[ $PULC_RANK = 0 ] || echo "cmd=abort exitcode=-1" >&"$PMI_FD"; sleep 60' 2>said | json 'j["tasks"][1]["code"]') $(sed -n 's/.*(code \(.*\))/\1/p' said)"
is timeout_is_124 124 "$(status_of --timeout 0.2 sleep 60)"

is ranks '0/3 0/3
1/3 1/3
2/3 2/3' "$(run -n 3 --oversubscribe sh -c 'echo $PULC_RANK/$PULC_SIZE $PULC_LOCAL_RANK/$PULC_LOCAL_SIZE' | sort)"
is environment_is_the_callers 'a b' "$(THING='a b' run sh -c 'echo "$THING"')"
is folder_is_the_callers "$TMPDIR" "$(run pwd)"
is folder_that_is_gone 'pulcrun: the current directory: No such file or directory
status 125' "$(mkdir gone; cd gone && rmdir ../gone && said pwd)"
is folder_of_any_name "$TMPDIR/"$'a b\nc' "$(mkdir $'a b\nc'; cd $'a b\nc' && run pwd)"
is arguments_of_any_bytes "$(printf '<%s>' '' $'a b\nc' $'\xff' '*')" "$(run printf '<%s>' '' $'a b\nc' $'\xff' '*')"
is folder_can_be_chosen / "$(run --directory / pwd)"
is umask_is_the_callers 0027 "$(umask 027; run sh -c umask)"
is limits_are_the_callers '333 4096' "$(ulimit -S -n 333; ulimit -S -s 4096; run bash -c 'ulimit -n; ulimit -s' | xargs)"
is many_arguments_pass 20000 "$(seq 20000 | xargs sh -c '"$0" sh -c "echo \$#" "$@"' "$bin/pulcrun" x | awk '{n += $1} END {print n}')"
is no_descriptors_leak '0 1 2' "$(run --mpi none sh -c 'ls /proc/$$/fd' | xargs)"
is no_descriptors_leak_in_a_crowd '40 0 40 1 40 2 40 3' "$(run -n 40 --oversubscribe --mpi none ls /proc/self/fd | sort | uniq -c | xargs)"
is a_crowd_has_one_parent_and_a_session_each '40 0 0' "$(run -n 40 --oversubscribe sh -c 'read -r a b c parent group session rest </proc/$$/stat; echo $parent $((group - $$)) $((session - $$))' | sort | uniq -c | awk '{print $1, $3, $4}')"
is not_found_by_a_crowd 127 "$(status_of -n 40 --oversubscribe no-such-program)"
is a_job_in_a_job_names_its_parent '1@' "$(run -n 2 --oversubscribe sh -c '[ $PULC_RANK = 0 ] || PULC_PARENT_PORT=5@n "'"$bin"'/pulcrun" --oversubscribe sh -c "echo \${PULC_PARENT#*.}\$PULC_PARENT_PORT"' | sed 's/@.*/@/')"
is no_parent_by_hand '' "$(PULC_PARENT=1.1@n PULC_PARENT_PORT=5@n run sh -c 'echo $PULC_PARENT$PULC_PARENT_PORT')"
is a_job_in_a_job_is_its_own '0/1' "$(run -n 2 --oversubscribe sh -c '[ $PULC_RANK = 1 ] || "'"$bin"'/pulcrun" --oversubscribe sh -c "echo \$PULC_RANK/\$PULC_SIZE"')"

n=$(nproc)
is cores_are_the_limit 125 "$(status_of -n $((n + 1)) true)"
is oversubscribing_lifts_it 0 "$(status_of -n $((n + 1)) --oversubscribe true)"
is per_node_is_a_limit 125 "$(status_of -n 2 --oversubscribe --per-node 1 true)"
is per_node_is_named 'pulcrun: there is room for 1 of 2 tasks now (pulcctl nodes shows the nodes; --per-node allows no more on one)' \
	"$(run -n 2 --oversubscribe --per-node 1 true 2>&1)"
is slots_are_a_limit 125 "$(status_of -n 2 --oversubscribe --nodes localhost:1 true)"
is unknown_node 'pulcrun: no node named nowhere
status 125' "$(said --nodes nowhere true)"

is json "[0, 7] 7 2" "$(run -n 2 --keep-going -q --json=report sh -c 'exit $((PULC_RANK * 7))'; json '[t["status"] for t in j["tasks"]], j["status"], len({t["pid"] for t in j["tasks"]})' <report | tr -d '()' | sed 's/, \([0-9]*\), / \1 /; s/\], /] /; s/, 2$/ 2/')"
is many_short_tasks 128 "$(run -n 128 --oversubscribe sh -c 'echo $PULC_RANK' | sort -n | uniq | wc -l)"
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status; }
is tasks_are_bound "$n" "$(run -n "$n" --cpus-per-task 1 sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | sort -u | grep -cx '[0-9]*')"
is cores_of_a_task "$(allowed)" "$(run --cpus-per-task "$n" sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
is not_bound_unasked "$(allowed)" "$(run sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
i=0
while [ $i -lt 50 ] && [ "$(status_of -n 4 --oversubscribe true)" = 0 ]; do i=$((i + 1)); done
is again_and_again 50 $i
for ((i = 0; i < 20; i++)); do run -n 100 --oversubscribe sh -c 'echo $PULC_RANK'; done >thousands
is thousands 2000 "$(wc -l <thousands)"
for ((i = 0; i < 20; i++)); do run -n 2 --oversubscribe sh -c 'echo $PULC_RANK' & done >together
wait
is many_at_once '20 0
20 1' "$(sort together | uniq -c | awk '{print $1, $2}')"
