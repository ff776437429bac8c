#!/bin/bash
# pulc starts a private psid: once, however many want one; and leaves what it can't start alone.
set -u
bin=$PULC_BUILD/bin
export XDG_RUNTIME_DIR=$TMPDIR

is() { # NAME EXPECTED ACTUAL
	if [ "$2" = "$3" ]; then
		echo "ok psid-start.$1"
	else
		echo "not ok psid-start.$1: expected '$2', got '$3'"
	fi
}

psids() {
	grep -lzsxF "PULC_TEST_DIR=$PULC_TEST_DIR" /proc/[0-9]*/environ | cut -d/ -f3 | while read -r pid; do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != psid ] || echo "$pid"
	done | wc -l
}

if "$(dirname "$0")/../another-psid"; then
	echo "skip psid-start: a psid runs here"
	exit
fi

is none_at_first 0 "$(psids)"
for _ in 1 2 3 4 5 6 7 8; do
	"$bin/pulc" true 2>>"$TMPDIR/err" &
done
wait
is one_for_all 1 "$(psids)"
is silent "" "$(cat "$TMPDIR/err")"
"$bin/pulc" true
is found_again 1 "$(psids)"
is is_ours "$PULC_RUNTIME_DIR/psid.sock" "$("$bin/pulcctl" --json status | grep -oE '"socket_path":"[^"]*"' | cut -d'"' -f4)"
# Nobody who reads our output waits for the daemon.
is output_ends yes "$(timeout 10 cat < <("$bin/pulc" echo yes 2>&1))"
"$bin/pulcctl" stop
is stops 0 "$(psids)"
for _ in 1 2 3 4 5; do
	"$bin/pulcctl" stop 2>/dev/null &
	"$bin/pulc" true 2>>"$TMPDIR/err"
	wait
done
is survives_stops_meanwhile "" "$(cat "$TMPDIR/err")"
"$bin/pulcctl" stop 2>/dev/null
: >"$TMPDIR/some.conf"
(cd "$TMPDIR" && "$bin/psid" --config some.conf --daemonize 2>/dev/null)
is in_the_background_it_knows_its_settings 0 "$("$bin/pulcctl" reload 2>&1; echo $?)"
is its_log_has_the_time 1 "$(grep -cE '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} psid: settings read$' "$PULC_RUNTIME_DIR/psid.log")"
ln -s "$PULC_RUNTIME_DIR" "$TMPDIR/pulc"
is stop_ends_none_elsewhere "3 1" "$(PULC_RUNTIME_DIR=$TMPDIR/elsewhere "$bin/pulcctl" stop 2>/dev/null; echo "$? $(psids)")"
rm "$TMPDIR/pulc"
"$bin/pulcctl" stop
head -c 1048576 /dev/zero >>"$PULC_RUNTIME_DIR/psid.log"
"$bin/psid" --daemonize
"$bin/pulcctl" reload
"$bin/pulcctl" stop
is a_long_log_is_begun_anew "2 0 1" "$(grep -c 'settings read$\|psid ends$' "$PULC_RUNTIME_DIR/psid.log") \
$(tail -c 100 "$PULC_RUNTIME_DIR/psid.log.old" | tr -d '\0' | wc -c) $(grep -c 'settings read$' -a "$PULC_RUNTIME_DIR/psid.log.old")"
rm "$PULC_RUNTIME_DIR/psid.log.old"
is only_its_log_is_left psid.log "$(ls -A "$PULC_RUNTIME_DIR")"

# Somebody has the lock who serves nobody: a psid that was killed and is not gone yet, or one that hangs.
lock=$PULC_RUNTIME_DIR/psid.sock.lock
(
	flock 9
	: >"$TMPDIR/locked"
	exec sleep 1
) 9>>"$lock" &
until [ -e "$TMPDIR/locked" ]; do sleep 0.02; done
"$bin/psid" --daemonize
is follows_who_goes "0 1" "$? $(psids)"
"$bin/pulcctl" stop
(
	flock 9
	: >"$TMPDIR/locked_again"
	exec sleep 1000
) 9>>"$lock" &
until [ -e "$TMPDIR/locked_again" ]; do sleep 0.02; done
"$bin/psid" --daemonize 2>"$TMPDIR/err"
is says_who_hangs "1 1" "$? $(grep -c "another psid has $lock, and does not answer" "$TMPDIR/err")"
kill $!
wait $! 2>/dev/null

# Whatever descriptors are lacking for, it is not silent.
is fails_with_a_word "" "$(for n in 8 9 10 11 12 13 14 15; do
	said=$(ulimit -n $n && timeout 20 "$bin/psid" --daemonize 2>&1) || [ -n "$said" ] || echo "$n: silent"
	"$bin/pulcctl" stop 2>/dev/null
done)"

# Another's port is not another psid: that is said, once, and nothing runs.
"$bin/pulcctl" keygen "$TMPDIR/key" >/dev/null
python3 -c 'import signal, socket
s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True); signal.pause()' >"$TMPDIR/port" &
holder=$!
until [ -s "$TMPDIR/port" ]; do sleep 0.02; done
printf 'ClusterName=c\nClusterKeyFile=%s\nClusterAddress=127.0.0.1:%s\n' "$TMPDIR/key" "$(cat "$TMPDIR/port")" >"$TMPDIR/port.conf"
for how in --foreground --daemonize; do
	timeout 20 "$bin/psid" $how --config "$TMPDIR/port.conf" 2>"$TMPDIR/err"
	is "says_whose_port${how//-/_}" "1 0 psid: error: can't start: Address already in use" "$? $(grep -c 'another psid' "$TMPDIR/err") $(tail -n 1 "$TMPDIR/err")"
done
kill $holder
wait $holder 2>/dev/null

chmod 755 "$PULC_RUNTIME_DIR"
rm -rf "$PULC_RUNTIME_DIR"
echo "not a folder" >"$PULC_RUNTIME_DIR"
is runs_without yes "$("$bin/pulc" echo yes 2>"$TMPDIR/err")"
is says_why 1 "$(grep -c "cannot use $PULC_RUNTIME_DIR" "$TMPDIR/err")"
rm -f "$PULC_RUNTIME_DIR"
