#!/bin/bash
# What needs the build says so, names what is missing and what to do, when there is none; and what could not be played has not passed.
set -u
cd "$(dirname "$0")/../.." || exit 2
built=${PULC_BUILD:-$PWD/build}
export PULC_BUILD=$PWD/none-at-all

is() { # NAME EXPECTED ACTUAL
	if [ "$2" = "$3" ]; then
		echo "ok unbuilt.$1"
	else
		echo "not ok unbuilt.$1: expected '$2', got '$3'"
	fi
}

last_of() { # COMMAND...: what it says last, and its exit status
	local said status
	said=$(timeout 60 "$@" 2>&1 </dev/null)
	status=$?
	printf '%s: %s' "$status" "$(tail -n 1 <<<"$said")"
}

# A copy, because a run of it writes logs into the tree that it lies in.
tree=$TMPDIR/tree
mkdir -p "$tree/tests/native" "$tree/tools" || exit 2
cp tests/run "$tree/tests/"
cp tools/demo.sh "$tree/tools/"
touch "$tree/tests/native/native.sh"

is bench "1: bench/run: $PULC_BUILD/bin/psid is not built: make all bench-programs" "$(last_of bench/run)"
is catalogue "1: run-catalogue: $PULC_BUILD/tests/preload/catalogue is not built: make all tests" "$(last_of tests/preload/run-catalogue)"
is random "1: run-random: $PULC_BUILD/tests/random/sequence is not built: make all tests" "$(last_of tests/random/run-random)"
is demo "1: demo: nothing is built: make demo builds what is missing, and runs this" "$(last_of "$tree/tools/demo.sh")"
is program "    not ok gone: build/tests/unit/gone is not built: make all tests" "$("$tree/tests/run" unit: build/tests/unit/gone | grep 'not ok')"
is script "    not ok native.sh: nothing is built in $PULC_BUILD: make all tests" "$("$tree/tests/run" native: tests/native/native.sh | grep 'not ok')"
is no_script "    not ok none.sh: there is no tests/none.sh" "$("$tree/tests/run" native: tests/none.sh | grep 'not ok')"
is usage "2: usage: tests/run SUITE: PROGRAM... [SUITE: PROGRAM...]..." "$(timeout 10 "$tree/tests/run" 2>&1 >/dev/null | head -n 1 | sed 's/^/2: /')"
is usage_is_wrong 2 "$("$tree/tests/run" build/tests/unit/gone >"$TMPDIR/none" 2>&1; echo $?)"
for apps in tests/apps/run-apps tests/stress/run-stress tests/apps/load/run-load; do
	is "$(basename "$apps")" "0: skip $(basename "${apps%/*}" | sed 's/load/apps/'): the shim is not built (make)" "$(last_of "$apps")"
done

# Everything is there, but the program that plays is no program.
broken=$TMPDIR/broken
mkdir -p "$broken/tests/random" || exit 2
ln -s "$(realpath "$built/bin")" "$(realpath "$built/lib")" "$broken/"
touch "$broken/tests/random/sequence"
is unplayed 1 "$(PULC_BUILD=$broken tests/random/run-random --seeds 1 --variants never >"$TMPDIR/none" 2>&1; echo $?)"
