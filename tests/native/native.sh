#!/bin/bash
# timeout: 240
# The native interface as it is installed: the examples against libpulc.so, pulcctl ports, what fork does to ports and protocols,
# and the header in each language that it promises.
set -u
bin=$PULC_BUILD/bin
examples=$PULC_BUILD/examples
include=$(cd "$(dirname "$0")/../../include" && pwd)
export PULC_SOCKET=$PULC_RUNTIME_DIR/psid.sock

is() { # NAME EXPECTED ACTUAL
	if [ "$2" = "$3" ]; then
		echo "ok native.$1"
	else
		echo "not ok native.$1: expected '$2', got '$3'"
	fi
}

await() { # COMMAND...: until it succeeds, forty seconds at most
	local i
	for ((i = 0; i < 800; i++)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	return 1
}

has_port() { # NAME
	"$bin/pulcctl" ports --no-headers | awk -v name="$1" '$3 == name { found = 1 } END { exit !found }'
}

json() {
	python3 -c 'import json, sys; j = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" 2>&1 | tail -n 1
}

# No library has to be there for a program's sake but libc; and a ring of libpulc's own, made by what it has inside, is nobody's to notice.
for library in libpulc libpulc-preload; do
	is $library.needs "" "$(readelf -d "$PULC_BUILD/lib/$library.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so|ld-linux|lib[a-z]*san\.)')"
	is $library.has_its_own_ring "" "$(nm -D --undefined-only "$PULC_BUILD/lib/$library.so" | grep io_uring)"
done

if "$(dirname "$0")/../another-psid"; then
	echo "skip native.without_psid: another psid answers, which the server would find"
else
	is without_psid 1 "$("$examples/pingpong" server 2>"$TMPDIR/none"; echo $?)"
	is says_why 1 "$(grep -c 'cannot open a port (does a psid run?): No such file or directory' "$TMPDIR/none")"
	is log_says_where 1 "$(PULC_LOG=stderr "$examples/pingpong" server 2>&1 | grep -c -m 1 "looked for psid at $PULC_SOCKET")"
	is log_says_what_to_do 1 "$(PULC_LOG=stderr "$examples/pingpong" server 2>&1 | grep -c 'no psid runs: start one with')"
fi
is log_says_why_none_is_asked 1 "$(PULC_DISABLE=1 PULC_LOG=stderr "$examples/pingpong" server 2>&1 | grep -c 'PULC_DISABLE is set')"
is disabled_is_refused 1 "$(PULC_DISABLE=1 "$examples/pingpong" server 2>&1 | grep -c ': Operation not permitted')"

"$bin/psid" 2>"$TMPDIR/psid.log" &
psid=$!
trap 'kill "$psid" 2>/dev/null' EXIT
await "$bin/pulcctl" status || { echo "not ok native.psid_starts: $(tail -n 1 "$TMPDIR/psid.log")"; exit 1; }

"$examples/pingpong" server &
server=$!
await has_port pingpong || echo "not ok native.server_starts"
is ports.text "D pingpong $server" "$("$bin/pulcctl" ports --no-headers | awk '{ print $2, $3, $4 }')"
is ports.json "['d', $server, 0, '']" "$("$bin/pulcctl" ports --json | json "[j[0]['kind'], j[0]['pid'], j[0]['n_links'], j[0]['path']]")"
is ports.nobody_waits "0 0 - 0 0+0" "$("$bin/pulcctl" ports --no-headers | awk '{ print $(NF - 6), $(NF - 5), $(NF - 4), $(NF - 3), $(NF - 2) }')"
is ports.of_one_number "pingpong" "$("$bin/pulcctl" ports --no-headers --port "$("$bin/pulcctl" ports --json | json "j[0]['port']")" | awk '{ print $3 }')"
is ports.none_of_that_number 0 "$("$bin/pulcctl" ports --no-headers --port 4000000000 | wc -l)"
is ports.no_peers_yet "[]" "$("$bin/pulcctl" ports --peers --json | json j)"
is ports.nothing_is_measured_yet "-+- -" "$("$bin/pulcctl" ports --no-headers | awk '{ print $(NF - 1), $NF }')"
is pingpong.plays 2000 "$("$examples/pingpong" client 2000 | awk '{ print $1 }')"
wait "$server"
is pingpong.server_ends 0 $?
is ports.are_given_back 0 "$("$bin/pulcctl" ports --no-headers | wc -l)"

# A receiver that takes nothing, and its sender, who has used up its credit.
slow=$PULC_BUILD/tests/native/slow
peers() { # PID COLUMN...: of pulcctl ports --peers
	local pid=$1
	shift
	"$bin/pulcctl" ports --peers --pid "$pid" | awk -v wanted="$*" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(wanted, names) }
		NR > 1 { for (i = 1; i <= n; i++) printf "%s%s", $at[names[i]], i < n ? " " : "\n" }'
}
sender_waits() {
	[ "$(peers "$sender" CREDIT WAITS)" = "0 credit" ]
}
# Its progress thread has taken what came.
receiver_shows() {
	[ "$(peers "$receiver" NAME)" = slow ]
}
"$slow" receive slow >"$TMPDIR/slow" &
receiver=$!
await has_port slow || echo "not ok native.slow_receiver_starts"
"$slow" send slow 1000 &
sender=$!
await sender_waits
await receiver_shows
is peers.sender "- $receiver slow shm 0 credit - -" "$(peers "$sender" NAME PEER-PID PEER-PROGRAM PATH CREDIT WAITS UNREAD HOLDS)"
is peers.receiver "slow $sender slow shm - - -" "$(peers "$receiver" NAME PEER-PID PEER-PROGRAM PATH CREDIT WAITS HOLDS)"
is peers.ports_are_each_others "$(peers "$sender" PORT PEER)" "$(peers "$receiver" PEER PORT)"
is peers.sums "0 1 0" "$("$bin/pulcctl" ports --json --pid "$sender" | json "j[0]['size_credit'], j[0]['n_destinations'], j[0]['n_held']" | tr -d '(),')"
is peers.json "[('', True, False, 0, True), ('slow', False, True, 0, False)]" "$("$bin/pulcctl" ports --json --peers | json "sorted((p['name'], p['sends'], p['receives'], p['size_credit'], p['waits']) for p in j)")"
is peers.json_unread True "$("$bin/pulcctl" ports --json --peers --pid "$receiver" | json "2000000 < j[0]['size_unread'] + j[0]['size_queued'] < 4000000")"
kill -USR1 "$receiver"
wait "$receiver" "$sender"
is peers.goes_on "1000 received" "$(cat "$TMPDIR/slow")"

# Under the shim too: sockets and ports live in one process, with one client of psid's.
LD_PRELOAD=$PULC_BUILD/lib/libpulc-preload.so "$examples/pingpong" server &
server=$!
await has_port pingpong
is pingpong.under_the_shim 500 "$(LD_PRELOAD=$PULC_BUILD/lib/libpulc-preload.so "$examples/pingpong" client 500 | awk '{ print $1 }')"
wait "$server"
is pingpong.server_under_the_shim_ends 0 $?

# A server with a loop of its own, without the shim and under it.
for preload in "" "$PULC_BUILD/lib/libpulc-preload.so"; do
	LD_PRELOAD=$preload "$PULC_BUILD/tests/native/loop" >"$TMPDIR/loop" 2>&1 &
	server=$!
	await has_port pingpong
	is "loop.plays${preload:+.under_the_shim}" 700 "$("$examples/pingpong" client 700 | awk '{ print $1 }')"
	wait "$server"
	is "loop.counts${preload:+.under_the_shim}" 700 "$(cat "$TMPDIR/loop")"
done

# All that there is in each of two processes, with the socket on the kernel and in rings.
kinds="socket, port, tags, blocks, itself, protocol"
is together "$(printf '%s\n%s' "$kinds" "$kinds")" "$("$PULC_BUILD/tests/native/together" 2>&1)"
is together.under_the_shim "$(printf '%s\n%s' "$kinds" "$kinds")" "$(LD_PRELOAD=$PULC_BUILD/lib/libpulc-preload.so "$PULC_BUILD/tests/native/together" 2>&1)"
is together.over_a_transport_that_loses "$(printf '%s\n%s' "$kinds" "$kinds")" "$("$PULC_BUILD/tests/native/lossy/together" 2>/dev/null)"

workers=()
for _ in 1 2 3; do
	"$examples/workqueue" worker &
	workers+=($!)
done
is workqueue.adds_up '3000 numbers, total 43503' "$("$examples/workqueue" master 3000 3)"
for worker in "${workers[@]}"; do
	wait "$worker"
	is workqueue.worker_ends 0 $?
done

"$examples/active_messages" server &
server=$!
await has_port active_messages || echo "not ok native.active_messages.server_starts"
is active_messages.answer "$(printf '1: olleh\n1: 5\n2: clup\n2: 4')" "$("$examples/active_messages" client hello pulc)"
wait "$server"
is active_messages.server_ends 0 $?
is active_messages.no_server 1 "$("$examples/active_messages" client hello 2>/dev/null; echo $?)"

# The same port program over memory, and over a transport that loses, doubles and overtakes frames.
for way in "" lossy/; do
	"$PULC_BUILD/tests/native/${way}far" serve >"$TMPDIR/far.serve" 2>&1 &
	server=$!
	await has_port far-d || echo "not ok native.far.${way}server_starts"
	"$PULC_BUILD/tests/native/${way}far" play >"$TMPDIR/far.${way%/}" 2>"$TMPDIR/far.faults"
	is "far.${way}plays" 0 $?
	wait "$server"
	is "far.${way}server_ends" 0 $?
done
is far.as_over_memory "$(cat "$TMPDIR/far.")" "$(cat "$TMPDIR/far.lossy")"
is far.frames_suffered 3 "$(awk '{ print ($1 > 20) + ($3 > 20) + ($5 > 20) }' "$TMPDIR/far.faults")"

finders=()
for piece in 2 0 1; do
	"$examples/tags" find "$piece" &
	finders+=($!)
done
is tags.in_order "$(printf '9592 primes, the last is 99991\n8392 primes, the last is 199999\n8013 primes, the last is 299993')" "$("$examples/tags" collect 3)"
for finder in "${finders[@]}"; do
	wait "$finder"
	is tags.finder_ends 0 $?
done

# Empty, one block exactly, and many blocks with a rest; without the shim and under it.
for size in 0 262144 20000001; do
	head -c "$size" /dev/urandom >"$TMPDIR/file"
	for preload in "" "$PULC_BUILD/lib/libpulc-preload.so"; do
		name=file_transfer.$size${preload:+.under_the_shim}
		LD_PRELOAD=$preload "$examples/file_transfer" receive "$TMPDIR/copy" &
		server=$!
		await has_port file_transfer || echo "not ok native.$name.receiver_starts"
		is "$name" "$size bytes" "$("$examples/file_transfer" send "$TMPDIR/file" 2>&1)"
		wait "$server"
		is "$name.receiver_ends" 0 $?
		is "$name.same" "" "$(cmp "$TMPDIR/file" "$TMPDIR/copy" 2>&1)"
	done
done
is file_transfer.no_receiver 1 "$("$examples/file_transfer" send "$TMPDIR/file" 2>/dev/null; echo $?)"

is fork "$(printf 'child\nparent')" "$("$PULC_BUILD/tests/native/fork" 2>&1)"
is fork.port "$(printf 'child\nparent')" "$("$PULC_BUILD/tests/native/fork_port" 2>&1)"
for preload in "" "$PULC_BUILD/lib/libpulc-preload.so"; do
	is "fork.shared${preload:+.under_the_shim}" "$(printf '500 jobs, right\nclosed\nclosed\nclosed\nclosed')" "$(LD_PRELOAD=$preload "$PULC_BUILD/tests/native/fork_shared" 2>&1)"
done
"$PULC_BUILD/tests/native/pass" own 3 >"$TMPDIR/own" &
server=$!
feeders=()
for i in 0 1 2; do
	"$PULC_BUILD/tests/native/pass" feed "$i" passed >"$TMPDIR/feed$i" &
	feeders+=($!)
done
for i in 0 1 2; do
	wait "${feeders[i]}"
	is "pass.feeder_$i" "400 sent, all received" "$(cat "$TMPDIR/feed$i")"
done
wait "$server"
is pass.within_streams "$(printf 'child\nparent')" "$(cat "$TMPDIR/own")"
is fork.protocol "$(printf 'child\nparent')" "$("$PULC_BUILD/tests/native/fork_protocol" 2>&1)"
is fork.handler "$(printf 'child\nended\nparent')" "$("$PULC_BUILD/tests/native/fork_handler" 2>&1)"
is fork.handler_says_why 1 "$(PULC_LOG=stderr "$PULC_BUILD/tests/native/fork_handler" 2>&1 | grep -c "must exec or _exit there")"
is fork.operations "$(printf 'child\nparent')" "$("$PULC_BUILD/tests/native/fork_ops" 2>&1)"
is fork.tagged "$(printf 'child\nparent')" "$("$PULC_BUILD/tests/native/fork_tag" 2>&1)"
is fork.thread "$(printf 'child\nparent')" "$("$PULC_BUILD/tests/native/fork_thread" 2>&1)"
is fork.semaphores "$(printf 'child\ngrandchild\nparent')" "$("$PULC_BUILD/tests/native/fork_sem" 2>&1)"
is fork.blocks "$(printf 'child\nparent')" "$("$PULC_BUILD/tests/native/fork_block" 2>&1)"
mkfifo "$TMPDIR/until"
"$PULC_BUILD/tests/native/locked" hold <"$TMPDIR/until" >"$TMPDIR/held" &
holder=$!
exec 4>"$TMPDIR/until"
await grep -q held "$TMPDIR/held" || echo "not ok native.areas.holder_begins"
is areas.messages "[($holder, 0, True)]" "$("$bin/pulcctl" areas --json | json "[(a['pid'], a['n_slots'], 1 << 20 <= a['size_bytes'] < 1 << 24) for a in j if a['messages']]")"
exec 4>&-
wait "$holder"
is areas.holder_ends 0 $?
locked=$("$PULC_BUILD/tests/native/locked" 2>&1)
case $locked in
"may not lock"*) echo "skip native.locked: this process $locked" ;;
*) is locked "no more memory than blocks" "$locked" ;;
esac

# The headers are C++ too, and the oldest C that they promise.
compiles() { # COMPILER LANGUAGE STANDARD
	"$1" -x "$2" -std="$3" -pedantic-errors -Wall -Wextra -Werror -D_GNU_SOURCE -I"$include" -fsyntax-only - 2>&1 <<-'END'
		#include <pulc/pulc.h>
		#include <pulc/job.h>
		#include <pulc/sem.h>
		#include <pulc/block.h>
		#include <pulc/tag.h>
		int main() { struct pulc_frame f = { 0, 0, 0, 0, 0 }; return pulc_protocol_send(&f, NULL, PULC_DONTWAIT) + (int)pulc_tag_send(0, 0, NULL, 0) + pulc_free(NULL); }
	END
}
for compiler in g++ clang++; do
	command -v "$compiler" >/dev/null || { echo "skip native.header.$compiler: not installed"; continue; }
	for standard in c++11 c++20; do
		is "header.$compiler.$standard" "" "$(compiles "$compiler" c++ "$standard")"
	done
done
is header.c11 "" "$(compiles cc c c11)"
is nothing_is_left 0 "$("$bin/pulcctl" ports --no-headers | wc -l)"

kill "$psid"
wait "$psid"
if "$(dirname "$0")/../another-psid"; then
	echo "skip native.semaphores.new_psid: another psid answers, to which its clients would go"
else
	is semaphores.new_psid "$(printf 'returned\nlate')" "$("$PULC_BUILD/tests/native/return_sem" "$bin/psid" 2>&1)"
fi
