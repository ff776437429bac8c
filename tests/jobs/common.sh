# What the tests of jobs have in common: sourced by each.
# shellcheck shell=bash
set -u
bin=$PULC_BUILD/bin
suite=${suite:-jobs}
cd "$TMPDIR" || exit 1
trap '"$bin/pulcctl" stop >/dev/null 2>&1' EXIT

# A psid of the system with folders of its own, where every user may look; the script goes to one where each may write.
system_dir() {
	trap - EXIT
	if [ "$(id -u)" != 0 ]; then
		echo "skip $suite: needs root"
		exit 0
	fi
	dir=$(mktemp -d /tmp/pulc-jobs.XXXXXX)
	chmod 755 "$dir"
	mkdir "$dir/bin" "$dir/libexec" "$dir/work"
	cp -r "$bin/psid" "$bin/pulcrun" "$bin/pulcctl" "$dir/bin"
	cp -r "$PULC_BUILD/libexec/pulc" "$dir/libexec/pulc"
	chmod -R go+rX "$dir"
	chmod 1777 "$dir/work"
	export PULC_RUNTIME_DIR=$dir/run
	cd "$dir/work" || exit 1
	trap 'kill $psid; wait $psid; rm -rf "$dir"' EXIT
}

# Not another one of this machine, which pulcctl asks where ours is not there yet.
is_up() {
	"$dir/bin/pulcctl" status --json | grep -qE "\"pid\":$psid\b"
}

system_psid() {
	"$dir/bin/psid" --system 2>>"$dir/log" &
	psid=$!
	await is_up || {
		echo "not ok $suite.psid_starts: $(tail -n 1 "$dir/log")"
		exit 1
	}
}

# The same as another user; what pulcctl says to one.
as() { # UID COMMAND...
	local uid=$1
	shift
	setpriv --reuid "$uid" --regid $((uid + 1)) --clear-groups env HOME=/ timeout 60 "$@"
}

ctl() { # UID ARGUMENT...
	as "$1" "$dir/bin/pulcctl" "${@:2}" 2>&1
}

is() { # NAME EXPECTED ACTUAL
	if [ "$2" = "$3" ]; then
		echo "ok $suite.$1"
	else
		echo "not ok $suite.$1: expected '$2', got '$3'"
	fi
}

run() {
	timeout 60 "$bin/pulcrun" "$@"
}

# What pulcrun says on both streams, then its exit status.
said() {
	run "$@" 2>&1
	echo "status $?"
}

status_of() {
	run "$@" >/dev/null 2>&1
	echo $?
}

# What a Python expression makes of the JSON on standard input (called j).
json() {
	python3 -c 'import json, sys; j = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" 2>&1 | tail -n 1
}

n_jobs() {
	"$bin/pulcctl" jobs --json | json 'len(j)'
}

are_jobs() { # N: as many are under way
	[ "$(n_jobs)" = "$1" ]
}

are_tasks() { # N
	[ "$("$bin/pulcctl" tasks --json | json 'len(j)')" = "$1" ]
}

await() { # COMMAND...: until it succeeds, 30 seconds at most
	local i
	for ((i = 0; i < 600; i++)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	return 1
}

# Processes whose environment carries this test's mark (and a word of their own).
marked() { # WORD
	grep -lzsx "PULC_TEST_MARK=$TMPDIR/$1" /proc/[0-9]*/environ | cut -d/ -f3
}

none_marked() {
	[ -z "$(marked "$1")" ]
}

gone() { # NAME WORD: nothing that carries the mark survives
	if await none_marked "$2"; then
		echo "ok $suite.$1"
	else
		echo "not ok $suite.$1: still there: $(marked "$2" | tr '\n' ' ')"
	fi
}

# The process of the psid of this test, and of the keeper of the latest job.
psid_pid() {
	"$bin/pulcctl" status --json | json 'j["pid"]'
}

keeper_pid() {
	"$bin/pulcctl" jobs --json | json 'max(j, key=lambda i: int(i["job"].split("@")[0]))["keeper"]'
}
