# Jobs that wait in partitions, for the tests of queues. To be sourced after lab.bash.
# shellcheck shell=bash disable=SC2034
run() { # I ARGUMENT...
	lab_node "$1" timeout 500 "$bin/pulcrun" "${@:2}"
}

# A job that runs until the file NAME.go is there; its output and words in NAME.out.
begin() { # NAME I ARGUMENT...
	# shellcheck disable=SC2016 # the tasks' shell expands it
	lab_node "$2" timeout 500 "$bin/pulcrun" "${@:3}" sh -c 'echo "on $PULC_NODE"; until [ -e "$0" ]; do sleep 0.05; done' \
		"$lab/$1.go" >"$lab/$1.out" 2>&1 &
	runner[$1]=$!
}
declare -A runner

ends() { # TEST NAME
	touch "$lab/$2.go"
	wait "${runner[$2]}"
	is "$1" 0 $?
}

n_on() { # NAME: tasks that run
	grep -c "^on " "$lab/$1.out"
}

runs() { # NAME TASKS
	[ "$(n_on "$1")" = "$2" ]
}

where() { # NAME
	sed -n 's/^on //p' "$lab/$1.out" | sort | xargs
}

# "2 tasks: why; 1 tasks: why", in the order of the queue, as node I shows it.
queue() { # I
	lab_ctl "$1" queue --json 2>/dev/null | python3 -c 'import json, sys
print("; ".join("%u: %u tasks: %s" % (j["position"], j["n_tasks"], j["waits"]) for j in json.load(sys.stdin)))'
}

queue_is() { # I TEXT
	[ "$(queue "$1")" = "$2" ]
}

# Four nodes, n2 and n3 the exclusive partition night.
queue_up() {
	local i
	lab_up 4
	for i in 1 2 3 4; do lab_start $i; done
	await lab_all_alive 4 1 2 3 4
	cores=$(lab_ctl 1 --json nodes n2 | grep -oE '"cores":[0-9]+' | cut -d: -f2)
	both=(--partition night -n 2 --per-node 1)
	lab_ctl 1 partition create night n2,n3 --exclusive
}
