#!/bin/bash
# The cluster's key is changed, step by step, while a job runs on all nodes and they stay members of each other; steps
# that come too early are refused; who has only a dropped key stays out, and both sides say why.
# timeout: 300
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
lab_check cluster.rotation
lab_up 3

# Each node has a copy of the key file, as on machines of their own.
spread() { # NODE...
	local i
	for i in "$@"; do cp "$lab/key" "$lab/$i/key"; done
}

# Slow to give each other up: this is not about nodes that get no processor for a while.
start() { # I
	lab_start "$1" PULC_CLUSTER_KEY_FILE="$lab/$1/key" PULC_CLUSTER_PROBE_MSEC=1000
}

keygen() { # OPTION...
	"$bin/pulcctl" keygen "$@" "$lab/key" >/dev/null
}

numbers() { # the keys in the file, as `pulcctl nodes` shows them
	"$bin/pulcctl" keygen --list "$lab/key" | awk '{ print $1 }' | paste -sd+
}

all_have() { # KEYS I...: every one of the given nodes knows that all three have these
	local i
	for i in "${@:2}"; do
		[ "$(lab_ctl "$i" nodes --no-headers 2>/dev/null | awk -v keys="$1" '$2 == "alive" && index($0, " " keys " ")' | wc -l)" = 3 ] || return 1
	done
}

reload() { # I
	lab_ctl "$1" reload
}

reloads() { # NAME: on all nodes, each as soon as nobody has anything against it
	local i
	spread 1 2 3
	for i in 1 2 3; do comes "rotation.$1.n$i" reload $i; done
	comes "rotation.$1.all_know" all_have "$(numbers)" 1 2 3
}

spread 1 2 3
for i in 1 2 3; do start $i; done
comes rotation.they_meet lab_all_alive 3 1 2 3
first=$(numbers)
is rotation.nodes_show_the_key "$first" "$(lab_ctl 1 --json nodes n3 | grep -oE '"keys":\["[0-9a-f]+"\]' | tr -dc '0-9a-f"' | cut -d'"' -f4)"

# A job with a task on each node, whose input and output go from node to node all the time.
mkfifo "$lab/in"
lab_node 1 timeout 200 "$bin/pulcrun" -n 3 --oversubscribe --per-node 1 --stdin all cat <"$lab/in" >"$lab/out" 2>"$lab/err" &
job=$!
exec {input}>"$lab/in"
lines=0
echoed() { # a line more comes back from each of the three
	[ "$(wc -l <"$lab/out")" = $((3 * lines)) ]
}
talks() { # NAME
	lines=$((lines + 1))
	echo "line $lines" >&"$input"
	comes "rotation.$1.the_job_talks" echoed
}
talks before

# Too early: nobody else has the new key.
keygen --add
added=$(numbers)
keygen --use "${added#*+}"
spread 1
is rotation.too_early 1 "$(reload 1 2>"$lab/why"; echo $?)"
is rotation.too_early_is_said 1 "$(grep -cE "^pulcctl: the key ${added#*+} can't be used yet, for there are nodes that don't have it: n[23] and 1 more$" "$lab/why")"
is rotation.and_in_the_log 1 "$(lab_log 1 | grep -c "the settings stay as they were: the key ${added#*+} can't be used yet")"

# The three steps.
keygen --use "$first"
reloads added
talks added
keygen --use "${added#*+}"
spread 1
comes rotation.used_by_one reload 1
talks while_both_are_used
keygen --drop-old
spread 1
is rotation.dropped_too_early 1 "$(reload 1 2>"$lab/why"; echo $?)"
is rotation.dropped_too_early_is_said 1 "$(grep -cE "^pulcctl: the key $first can't be dropped yet, for there are nodes that use it: n[23] and 1 more$" "$lab/why")"
cp "$lab/2/key" "$lab/key" # what the others have: both
keygen --use "${added#*+}"
reloads used
talks used
cp "$lab/key" "$lab/old" # for later: the first key only
"$bin/pulcctl" keygen --use "$first" "$lab/old" >/dev/null
"$bin/pulcctl" keygen --drop-old "$lab/old" >/dev/null
keygen --drop-old

# By a signal, and a file that is no key file.
echo nonsense >"$lab/2/key"
kill -s HUP "${lab_pid[2]}"
comes rotation.nonsense_is_refused lab_said 2 "the settings stay as they were: $lab/2/key:1: no key of a cluster"
spread 2
kill -s HUP "${lab_pid[2]}"
comes rotation.signal lab_said 2 "keys of the cluster from now on: $(numbers)"
reloads dropped
talks dropped

exec {input}>&-
wait $job
is rotation.the_job_ends_well 0 $?
is rotation.nothing_is_lost "$((3 * lines))" "$(wc -l <"$lab/out")"
is rotation.nobody_was_lost "" "$(cat "$lab"/[123]/log | grep -E "dead|given this one up|broken|lost")"

# One that was away, and has only the old key.
lab_kill 3 TERM
wait "${lab_pid[3]}"
comes rotation.one_has_left lab_knows 1 "n3 left"
cp "$lab/old" "$lab/3/key"
start 3
comes rotation.dropped_key_here lab_said 3 "they use the key $(numbers), we have only $first (ClusterKeyFile)"
comes rotation.dropped_key_there lab_said 1 "they use the key $first, we have only $(numbers) (ClusterKeyFile)"
comes rotation.dropped_key_of_datagrams lab_said 1 "sends datagrams that can't be read: its key is none of ours, $(numbers) (ClusterKeyFile)"
is rotation.stays_out "n1 alive, n2 alive, n3 left" "$(lab_states 1)"
spread 3
comes rotation.comes_in_with_a_reload reload 3
comes rotation.and_is_back lab_all_alive 3 1 2 3
