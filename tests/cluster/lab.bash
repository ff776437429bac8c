# A cluster on one machine: each node is a network namespace with an address on a common bridge and a
# psid with a run folder of its own. To be sourced. Everything is gone when the script ends.
#
#	lab_up N			nodes 1 to N (10.77.0.1 ...), with the same key
#	lab_start I [NAME=VALUE...]	psid of node I, with more settings as environment variables
#	lab_node I COMMAND...		a command on node I, in the environment of its psid
#	lab_ctl I ARGUMENT...		pulcctl of node I
#	lab_cut I, lab_join I		take node I's cable out, and put it in again
#	lab_loss I PERCENT		node I loses so many of the datagrams that it sends
#	lab_log I			what its psid said
#	is NAME EXPECTED ACTUAL		a test's result line
#	await COMMAND...		until it succeeds; 30 seconds at most
# shellcheck shell=bash disable=SC2034

bin=$PULC_BUILD/bin
lab=${TMPDIR:-/tmp}/lab
# Names of interfaces and namespaces are the machine's; other tests may run at the same time.
lab_id=pulc$$
lab_n=0
declare -a lab_pid

lab_check() { # TEST: ends the script if nodes can't be made here
	if [ "$(id -u)" != 0 ] || ! ip netns add "$lab_id-x" 2>/dev/null; then
		echo "skip $1: needs root and network namespaces"
		exit 0
	fi
	ip netns del "$lab_id-x"
}

lab_down() {
	local i
	for ((i = 1; i <= lab_n; i++)); do
		[ -z "${lab_pid[i]:-}" ] || kill -9 "${lab_pid[i]}" 2>/dev/null
	done
	wait 2>/dev/null
	for ((i = 0; i <= lab_n; i++)); do
		ip netns del "$lab_id-$i" 2>/dev/null
	done
	lab_n=0
}

lab_up() {
	local i
	trap lab_down EXIT
	mkdir -p "$lab"
	"$bin/pulcctl" keygen "$lab/key" >/dev/null
	ip netns add "$lab_id-0" # the switch
	ip -n "$lab_id-0" link add br0 type bridge
	ip -n "$lab_id-0" link set br0 up
	for ((i = 1; i <= $1; i++)); do
		lab_n=$i
		ip netns add "$lab_id-$i"
		ip -n "$lab_id-$i" link add eth0 type veth peer name "port$i" netns "$lab_id-0"
		ip -n "$lab_id-0" link set "port$i" master br0 up
		ip -n "$lab_id-$i" addr add "10.77.$((i / 250)).$((i % 250))/16" dev eth0
		ip -n "$lab_id-$i" link set eth0 up
		ip -n "$lab_id-$i" link set lo up
		mkdir -m 700 "$lab/$i"
		lab_load "$i" 0
	done
}

lab_address() {
	echo "10.77.$(($1 / 250)).$(($1 % 250))"
}

# What node I's psid takes for the load of its machine: so many runnable processes besides itself.
lab_load() { # I RUNNABLE
	mkdir -p "$lab/$1/proc"
	echo "0.00 0.00 0.00 $(($2 + 1))/100 1" >"$lab/$1/proc/loadavg"
	[ -e "$lab/$1/proc/meminfo" ] ||
		printf 'MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n' >"$lab/$1/proc/meminfo"
}

lab_node() {
	local i=$1
	shift
	ip netns exec "$lab_id-$i" env PULC_RUNTIME_DIR="$lab/$i" XDG_RUNTIME_DIR="$lab/$i" "$@"
}

lab_start() {
	local i=$1
	shift
	# Its own process, so that it can be killed: exec all the way.
	(exec ip netns exec "$lab_id-$i" env PULC_RUNTIME_DIR="$lab/$i" PULC_NODE_NAME="n$i" \
		PULC_CLUSTER_NAME=lab PULC_CLUSTER_KEY_FILE="$lab/key" PULC_CLUSTER_SEEDS="10.77.0.1 10.77.0.2" \
		PULC_LOAD_FROM="$lab/$i/proc" "$@" "$bin/psid" >>"$lab/$i/log" 2>&1) &
	lab_pid[i]=$!
}

lab_kill() { # I [SIGNAL]
	kill -s "${2:-KILL}" "${lab_pid[$1]}"
	[ "${2:-KILL}" != KILL ] || wait "${lab_pid[$1]}" 2>/dev/null
}

lab_ctl() {
	lab_node "$1" "$bin/pulcctl" "${@:2}"
}

lab_cut() {
	ip -n "$lab_id-0" link set "port$1" down
}

lab_join() {
	ip -n "$lab_id-0" link set "port$1" up
}

lab_loss() {
	lab_node "$1" nft -f - <<-RULES
		table inet lab {
			chain out {
				type filter hook output priority 0;
				meta l4proto udp numgen random mod 100 < $2 drop;
			}
		}
	RULES
}

lab_log() {
	cat "$lab/$1/log"
}

lab_said() { # I TEXT
	grep -qF -- "$2" "$lab/$1/log"
}

# "n1 alive, n2 dead, ...": what node I knows, by name.
lab_states() {
	lab_ctl "$1" nodes --no-headers 2>/dev/null | awk '{ print $1, $2 }' | sort -V | paste -sd, | sed 's/,/, /g'
}

lab_knows() { # I TEXT: that is in its list
	[[ "$(lab_states "$1")" == *"$2"* ]]
}

# Every one of the given nodes knows so many that are alive.
lab_all_alive() { # COUNT I...
	local i
	for i in "${@:2}"; do
		[ "$(lab_ctl "$i" nodes --no-headers 2>/dev/null | awk '$2 == "alive"' | wc -l)" = "$1" ] || return 1
	done
}

is() {
	if [ "$2" = "$3" ]; then
		echo "ok $1"
	else
		echo "not ok $1: expected '$2', got '$3'"
	fi
}

await() {
	local i
	for ((i = 0; i < 300; i++)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	return 1
}

# As a result: it comes true.
comes() { # NAME COMMAND...
	if await "${@:2}"; then
		echo "ok $1"
	else
		echo "not ok $1: did not come true: ${*:2}"
		for i in 1 2; do lab_states "$i"; tail -n 5 "$lab/$i/log"; done
	fi
}
