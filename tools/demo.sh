#!/bin/bash
# The gain, measured here and now: each case once on the kernel and once under PULC.
#
# Cases: a ping-pong of 8 bytes with blocking calls, iperf3 as it comes, redis-benchmark with 50
# clients, connections of one request each. The programs are unmodified. A private psid in a temporary folder serves this run only;
# while a case runs under PULC, pulcctl is asked whether its bytes really go through rings (those connections end too soon for that). Ends by
# itself in about a minute; whatever way it ends, no process and no file of it is left.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2

bin=$PWD/build/bin
if [ ! -x "$bin/psid" ] || [ ! -x build/bench/pingpong ]; then
	echo "demo: nothing is built: make demo builds what is missing, and runs this" >&2
	exit 1
fi
for variable in "${!PULC_@}"; do unset "$variable"; done
unset LD_PRELOAD
work=$(mktemp -d "${TMPDIR:-/tmp}/pulc-demo.XXXXXX") || exit 2
export PULC_RUNTIME_DIR=$work/run

sec_iperf=5
n_requests=100000
sec_limit=60 # for any one program

psid=     # process group of the daemon
groups=() # process groups of what runs now
launch=() # what stands before each program: nothing, or pulc
rows=()   # of the table
failed=

fail() {
	echo
	echo "demo: $1" >&2
	tail -qn 5 "$work"/log "$work"/server.log "$work"/psid.log 2>/dev/null | sed 's/^/    /' >&2
	exit 1
}

# Starts a command as a process group of its own, $group: it can be ended with all that it started.
start() {
	set -m
	"$@" &
	group=$!
	set +m
}

# Ends a group, by force if it takes longer than two seconds.
end_group() {
	local i
	kill -TERM -- "-$1" 2>/dev/null
	for ((i = 0; i < 40; i++)); do
		kill -0 -- "-$1" 2>/dev/null || return
		sleep 0.05
	done
	kill -KILL -- "-$1" 2>/dev/null
}

end_groups() {
	local each
	for each in "${groups[@]}"; do
		end_group "$each"
	done
	groups=()
}

cleanup() {
	trap '' INT TERM HUP
	end_groups
	[ -z "$psid" ] || end_group "$psid"
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# A server of the case, under its path. The case's end is its end.
serve() {
	timeout --foreground "$sec_limit" "${launch[@]}" "$@" >"$work/server.log" 2>&1 </dev/null &
}

# A client of the case, under its path.
run() {
	timeout --foreground "$sec_limit" "${launch[@]}" "$@" 2>"$work/log" </dev/null
}

listens() {
	(: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

free_port() {
	port=$((20000 + RANDOM % 12000))
	while listens $port; do
		port=$((20000 + RANDOM % 12000))
	done
}

await_port() {
	local i
	for ((i = 0; i < 100; i++)); do
		! listens "$port" || return
		sleep 0.05
	done
	fail "no server on port $port"
}

start_psid() {
	local i
	mkdir -m 700 "$PULC_RUNTIME_DIR"
	start "$bin/psid" 2>"$work/psid.log"
	psid=$group
	for ((i = 0; i < 100; i++)); do
		! "$bin/pulcctl" status >/dev/null 2>&1 || return
		sleep 0.05
	done
	fail "psid did not start"
}

# Bytes that pulcctl sees sent through rings by connections of now.
ring_bytes() {
	"$bin/pulcctl" --json --path rings sockets 2>/dev/null |
		sed -n 's/.*"size_sent":\([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

watch_rings() {
	while sleep 0.2; do
		ring_bytes >>"$work/rings"
	done
}

case_pingpong() {
	run build/bench/pingpong --msec 2000 --warmup-msec 700 |
		sed -n 's/.*one_way_ns=\([0-9.]*\).*/\1/p' | awk '{ printf "%.2f\n", $1 / 1000 }'
}

case_iperf() {
	free_port
	serve iperf3 -s -p "$port"
	await_port
	run iperf3 -c 127.0.0.1 -p "$port" -t "$sec_iperf" -f m |
		awk '/receiver/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /bits\/sec/) printf "%.1f\n", $i / 1000 }'
}

case_redis() {
	free_port
	serve redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" --loglevel warning
	await_port
	run redis-benchmark -p "$port" -t set,get -n "$n_requests" -c 50 --csv |
		awk -F'"' '$2 == "SET" || $2 == "GET" { printf "%.0f\n", $4 }'
}

case_connects() {
	run build/bench/connects --server prefork --connections 8000 | sed -n 's/.*per_second=\([0-9]*\).*/\1/p'
}

# Runs one case on one path and leaves its figures, so many, in a file.
measure() {
	local path=$1 case=$2 title=$3 n_figures=$4 unit=$5
	printf '%-32s %-8s' "$title" "$path"
	launch=()
	: >"$work/rings"
	if [ "$path" = PULC ]; then
		launch=("$bin/pulc" --no-psid)
		start watch_rings
		groups+=("$group")
	fi
	start "case_$case" >"$work/$path"
	groups+=("$group")
	wait "$group"
	end_groups
	kill -0 "$psid" 2>/dev/null || fail "psid has died"
	[ "$(wc -l <"$work/$path")" = "$n_figures" ] || fail "$title gave no figures on the path $path"
	echo "$(paste -sd ' ' "$work/$path") $unit"
	if [ "$path" = PULC ] && [ "$case" != connects ] && [ "$(sort -n "$work/rings" | tail -n 1)" = 0 ]; then
		failed+=" '$title'"
	fi
}

# compare CASE TITLE more|less NAME UNIT [NAME UNIT...]: a row for each figure that the case gives.
compare() {
	local case=$1 title=$2 better=$3 kernel pulc
	shift 3
	measure kernel "$case" "$title" $(($# / 2)) "$2"
	measure PULC "$case" "$title" $(($# / 2)) "$2"
	while read -r kernel pulc; do
		rows+=("$1|$2|$kernel|$pulc|$(awk -v k="$kernel" -v p="$pulc" -v better="$better" \
			'BEGIN { if (k && p) printf "%.1f x", better == "less" ? k / p : p / k; else printf "-" }')")
		shift 2
	done < <(paste "$work/kernel" "$work/PULC")
}

print_table() {
	printf '%s\n' 'case|unit|kernel|PULC|better by' "${rows[@]}" | awk -F'|' '
		{
			for (i = 1; i <= NF; i++) {
				cell[NR, i] = $i
				if (length($i) > width[i]) width[i] = length($i)
			}
		}
		END {
			for (r = 1; r <= NR; r++)
				printf "%-*s  %-*s  %*s  %*s  %*s\n", width[1], cell[r, 1], width[2], cell[r, 2],
					width[3], cell[r, 3], width[4], cell[r, 4], width[5], cell[r, 5]
		}'
}

echo "Each case runs once on the kernel and once under PULC; this takes about a minute."
start_psid
compare pingpong "ping-pong, 8 bytes" less "ping-pong 8 B, one way" us
compare iperf "iperf3, $sec_iperf s" more "iperf3" Gbit/s
compare redis "redis-benchmark, $n_requests requests" more \
	"redis SET, 50 clients" req/s "redis GET, 50 clients" req/s
compare connects "connections of one request" more "connections of one request" conn/s
echo
print_table
echo
[ -z "$failed" ] || fail "pulcctl saw no bytes in rings during:$failed"
echo "pulcctl saw the bytes of every case under PULC go through rings, but of the last: those stay on the kernel."
