#!/bin/bash
# pulcctl against a real psid with one connection on rings: every view, every filter, the watch, the end.
set -u
bin=$PULC_BUILD/bin
export PULC_SOCKET=$PULC_RUNTIME_DIR/psid.sock

is() { # NAME EXPECTED ACTUAL
	if [ "$2" = "$3" ]; then
		echo "ok pulcctl.$1"
	else
		echo "not ok pulcctl.$1: expected '$2', got '$3'"
	fi
}

# What a Python expression makes of the JSON on standard input (called j).
json() {
	python3 -c 'import json, sys; j = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" 2>&1 | tail -n 1
}

ctl() {
	"$bin/pulcctl" "$@"
}

await() { # COMMAND...: until it succeeds, ten seconds at most
	local i
	for ((i = 0; i < 200; i++)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	return 1
}

on_rings() {
	[ "$(ctl --json --path rings sockets | json 'len(j)')" = 2 ]
}

jobs_are() { # COUNT: of those that are there
	[ "$(ctl --json jobs | json 'len(j)')" = "$1" ]
}

"$bin/psid" 2>"$TMPDIR/psid.log" &
psid=$!
trap 'kill "$psid" 2>/dev/null' EXIT
await ctl status || { echo "not ok pulcctl.psid_starts: $(tail -n 1 "$TMPDIR/psid.log")"; exit 1; }
is status.json "True $psid $PULC_SOCKET" "$(ctl status --json | json 'j["uptime_usec"] > 0, j["pid"], j["socket_path"]' | tr -d "(),'")"
is status.text 1 "$(ctl status | grep -c "pid $psid,")"
is sockets.json_is_empty '[]' "$(ctl sockets --json | json j)"
is sockets.only_header 1 "$(ctl sockets | wc -l)"
is sockets.not_even_header 0 "$(ctl sockets --no-headers | wc -l)"

exec {hold}> >("$bin/pulc" --no-psid "$PULC_BUILD/bench/pingpong" --msec 100 --warmup-msec 100 --stay >"$TMPDIR/pingpong")
await on_rings || { echo "not ok pulcctl.connection_is_on_rings: $(ctl sockets)"; exit 1; }
echo "ok pulcctl.connection_is_on_rings"

is sockets.bytes_are_seen True "$(ctl sockets --json | json "min(s['size_sent'] for s in j) > 0")"
await test -s "$TMPDIR/pingpong"
is sockets.all_is_received "(0, True)" "$(ctl sockets --json | json "sum(s['fill_receive'] + s['fill_send'] for s in j), j[0]['size_received'] == j[1]['size_sent'] > 0")"
is sockets.ends_mirror True "$(ctl sockets --json | json "(j[0]['local_addr'], j[0]['local_port']) == (j[1]['remote_addr'], j[1]['remote_port']) and j[0]['local_port'] > 0")"
is sockets.program "['pingpong', 'pingpong']" "$(ctl sockets --json | json "[s['program'] for s in j]")"
is sockets.no_reason "['none', 'none']" "$(ctl sockets --json | json "[s['reason'] for s in j]")"
port=$(ctl sockets --json | json "j[0]['local_port']")
pid=$(ctl sockets --json | json "j[0]['pid']")
is sockets.by_port 2 "$(ctl sockets --json --port "$port" | json 'len(j)')"
is sockets.by_other_port 0 "$(ctl sockets --json --port 1 | json 'len(j)')"
is sockets.by_pid True "$(ctl sockets --json --pid "$pid" | json "set(s['pid'] for s in j) == {$pid}")"
is sockets.by_path 0 "$(ctl sockets --json --path kernel | json 'len(j)')"
is sockets.table 2 "$(ctl sockets --no-headers | grep -c ' rings ')"
is sockets.columns_are_aligned 1 "$(ctl sockets | awk '{ print index($0, "pingpong") + index($0, "PROGRAM") }' | sort -u | wc -l)"
is sockets.cut_on_a_terminal 1 "$(COLUMNS=60 script -qec "$bin/pulcctl sockets" /dev/null | tr -d '\r' | awk '{ print length($0) < 140 }' | sort -u | wc -l)"
is clients.json True "$(ctl clients --json | json "len(j) >= 1 and all(c['program'] == 'pingpong' and c['pid'] > 0 for c in j)")"
is clients.by_pid True "$(ctl clients --json --pid "$pid" | json "[c['pid'] for c in j] == [$pid]")"
is areas.json True "$(ctl areas --json | json "len(j) >= 2 and sum(a['n_used'] for a in j) == 2 and {a['pid'] for a in j} == {a['peer_pid'] for a in j}")"
is clients.by_user True "$(ctl clients --json --user "$(id -un)" | json "len(j) >= 1 and all(c['uid'] == $(id -u) for c in j)")"
is clients.by_number_of_user "$(ctl clients --json | json 'len(j)')" "$(ctl clients --json --user 4294967 --user "$(id -u)" | json 'len(j)')"
is sockets.of_nobody_else 0 "$(ctl sockets --no-headers --user 4294967 | wc -l)"
is sockets.of_no_user "2 pulcctl: no user 'no-such-user'" "$(ctl sockets --user no-such-user 2>&1 >/dev/null | sed "s/^/$(ctl sockets --user no-such-user >"$TMPDIR/none" 2>&1; echo $?) /")"
is nodes.have_no_user "pulcctl: --user means nothing to 'nodes'" "$(ctl nodes --user root 2>&1)"
is tasks.of_no_job "pulcctl: no tasks of a job named no-such-job" "$(ctl tasks no-such-job 2>&1 >/dev/null)"
is tasks.of_no_job_json '[]' "$(ctl tasks no-such-job --json | json j)"
is areas.by_pid 0 "$(ctl areas --json --pid 1 | json 'len(j)')"
is areas.table 2 "$(ctl areas --no-headers --pid "$pid" | wc -l)"
is top.json "True True 1" "$(ctl top --json | json "j['status']['n_connections'] == 1, j['nodes'][0]['self'], len(j['nodes'])" | tr -d "(),'")"
is top.once 1 "$(ctl top | grep -c ' connections on rings, ')"
declare -a runs=()
for ((i = 0; i < 5; i++)); do
	"$bin/pulcrun" -n 1 sleep 600 </dev/null >/dev/null 2>>"$TMPDIR/runs" &
	runs+=($!)
done
await jobs_are 5 || echo "not ok pulcctl.jobs_run: $(ctl jobs; cat "$TMPDIR/runs")"
timeout 120 python3 tests/house/top.py "$bin/pulcctl" || echo "not ok pulcctl.top_on_a_terminal: ended with $?"
kill "${runs[@]}"
wait "${runs[@]}"
await jobs_are 0 || echo "not ok pulcctl.jobs_end: $(ctl jobs)"
# Names that are not ASCII are shown as they are; what is no name, and would do something to a terminal, is not.
cp "$(command -v sleep)" "$TMPDIR/größe-漢字"
cp "$(command -v sleep)" "$TMPDIR/"$'\033[31m\302\233\377'
for name in größe-漢字 $'\033[31m\302\233\377'; do
	"$bin/pulcrun" -n 1 "$TMPDIR/$name" 600 </dev/null >/dev/null 2>&1 &
	runs+=($!)
done
await jobs_are 2
is jobs.names "?[31m??,größe-漢字" "$(LC_ALL=C.UTF-8 ctl jobs --no-headers | awk '{ print $3 }' | sort | paste -sd,)"
is jobs.names_in_ascii "?[31m??,gr??e-??" "$(LC_ALL=C ctl jobs --no-headers | awk '{ print $3 }' | sort | paste -sd,)"
is jobs.names_json "True" "$(ctl jobs --json | json "sorted(e['program'] for e in j) == ['?[31m??', 'gr\u00f6\u00dfe-\u6f22\u5b57']")"
kill "${runs[@]:5}"
wait "${runs[@]:5}"
await jobs_are 0
is loglevel.tells info "$(ctl loglevel)"
is loglevel.sets '{"error":"","level":"warning"}' "$(ctl --json loglevel warning)"
# A node on its own is a cluster of one.
is nodes.json "1 True alive local True" "$(ctl nodes --json | json "len(j), j[0]['self'], j[0]['state'], j[0]['path'], j[0]['cores'] > 0 and j[0]['mib_memory'] > 0" | tr -d "(),'")"
is nodes.table 1 "$(ctl nodes --no-headers | grep -c " alive .* local ")"
is nodes.of_name 0 "$(ctl nodes --no-headers no-such-node | wc -l)"
ctl drain
is nodes.drained drained "$(ctl nodes --no-headers | awk '{ print $2 }')"
ctl undrain
is nodes.undrained alive "$(ctl nodes --no-headers | awk '{ print $2 }')"
is drain.no_such_node 1 "$(ctl drain no-such-node 2>/dev/null; echo $?)"
is keygen.makes_a_file "600 0" "$(ctl keygen "$TMPDIR/key" >/dev/null; a=$?; stat -c "%a $a" "$TMPDIR/key")"
before=$(cat "$TMPDIR/key")
is keygen.never_another 1 "$(ctl keygen "$TMPDIR/key" >/dev/null 2>&1; echo $?)"
is keygen.leaves_it_alone "$before" "$(cat "$TMPDIR/key")"
first=$(ctl keygen --list "$TMPDIR/key" | awk '$2 == "used" { print $1 }')
is keygen.adds_at_the_end "$first" "$(ctl keygen --add "$TMPDIR/key" --json | json 'j["keys"][0]')"
second=$(ctl keygen --list "$TMPDIR/key" | awk '$2 == "accepted" { print $1 }')
is keygen.names_both True "$([[ $first != "$second" && $first$second =~ ^[0-9a-f]{16}$ ]] && echo True)"
is keygen.keeps_the_key "$before" "$(head -n 1 "$TMPDIR/key")"
is keygen.keeps_the_mode 600 "$(stat -c %a "$TMPDIR/key")"
is keygen.uses_a_key "$second+$first" "$(ctl keygen --use "$second" "$TMPDIR/key" | grep -o "^$second+$first")"
is keygen.uses_it_once "{'file': '$TMPDIR/key', 'keys': ['$second', '$first']}" "$(ctl keygen --use "$second" "$TMPDIR/key" --json | json j)"
is keygen.no_such_key 1 "$(ctl keygen --use 0123456789 "$TMPDIR/key" 2>/dev/null; echo $?)"
is keygen.drops_old "$second used" "$(ctl keygen --drop-old "$TMPDIR/key" >/dev/null; ctl keygen --list "$TMPDIR/key")"
is keygen.says_file_and_line "pulcctl: $TMPDIR/key:2: no key of a cluster" "$(echo nonsense >>"$TMPDIR/key"; ctl keygen --add "$TMPDIR/key" 2>&1 | cut -d: -f1-4)"
is keygen.one_step_at_a_time 2 "$(ctl keygen --add --list "$TMPDIR/key" 2>/dev/null; echo $?)"
is keygen.leaves_nothing "$TMPDIR/key" "$(echo "$TMPDIR"/key*)"
is version.of_psid "$(ctl version | awk '{ print $2 }' | head -n 1)" "$(ctl --json version | json "j['psid']")"

is watch.repeats 3 "$(ctl --watch=0.1 --json status | head -n 3 | wc -l)"
ctl --watch=0.1 sockets >"$TMPDIR/watch" 2>&1 &
watch=$!
await grep -q rings "$TMPDIR/watch"
timeout 120 python3 tests/house/top.py "$bin/pulcctl" "$TMPDIR/top" &
top=$!
await test -e "$TMPDIR/top"
ctl --json stop >"$TMPDIR/stop"
is stop '0 {"error":""}' "$? $(cat "$TMPDIR/stop")"
wait "$watch"
is watch.ends_with_psid 3 $?
wait "$top"
wait "$psid"
is psid.ended_well 0 $?
"$(dirname "$0")/../another-psid" || is status.without_psid 3 "$(XDG_RUNTIME_DIR=$TMPDIR ctl status 2>/dev/null; echo $?)"
is connection_outlives_psid 0 "$(kill -0 "$pid"; echo $?)"
exec {hold}>&-
wait
