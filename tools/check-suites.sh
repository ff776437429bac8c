#!/bin/bash
# Other people's test suites under the shim, compared test by test with their verdicts on the kernel.
#
#	SUITES="libuv nng" tools/check-suites.sh      (default: every suite there is a verdict of)
#
# The runners are no part of this tree: they are looked for beside it, in ../shared/suites or in the folder
# that PULC_SUITES names. A suite runs in a network namespace that only it and a psid of all
# users live in; what it needs is downloaded before. Results: build/suites/NAME. Exit status 1: a test
# that passes on the kernel does not pass under the shim.
set -u
cd "$(dirname "$0")/.." || exit 2

suites=${PULC_SUITES:-$PWD/../shared/suites}
run=$suites/run
export SUITES_DIR=${SUITES_DIR:-/var/tmp/pulc-suites}
# Some tests run as another user, who may not be able to look into this tree.
reachable=$SUITES_DIR/pulc

# Inside the namespace: a psid at the system's own place, which hides the real one from here only.
inside() {
	local name=$1 out=$2 psid i
	mount -t tmpfs -o mode=755 none /run/pulc || exit 2
	env -u XDG_RUNTIME_DIR PULC_LOG_LEVEL=warning "$reachable/bin/psid" --system 2>"$out/psid.log" &
	psid=$!
	for ((i = 0; i < 100; i++)); do
		[ ! -S /run/pulc/psid.sock ] || break
		sleep 0.05
	done
	NO_NETNS=1 PRELOAD=$reachable/lib/libpulc-preload.so OUT=$out "$run/$name.sh"
	"$reachable/bin/pulcctl" --json status >"$out/psid.json" 2>&1
	kill "$psid" && wait "$psid"
}

one_suite() {
	local name=$1 out=$PWD/build/suites/$1
	rm -rf "$out"
	mkdir -p "$out"
	echo "== $name"
	# Choosing no test makes a runner fetch and build only.
	ONLY='^$' UNITS=- OUT=$out.setup "$run/$name.sh" >"$out.setup.log" 2>&1
	"$run/ns.sh" "$0" --inside "$name" "$out" 2>&1 | tail -n 3
	echo "$name: $(sed -n 's/.*"n_upgrades":\([0-9]*\).*/\1/p' "$out/psid.json") connections went through rings"
	"$run/compare.sh" "$suites/baseline/$name.txt" "$out"
}

if [ "${1:-}" = --inside ]; then
	inside "$2" "$3"
	exit
fi
if [ ! -d "$run" ]; then
	echo "check-suites: no suites at $suites; nothing was run"
	exit 0
fi
if [ "$(id -u)" != 0 ]; then
	echo "check-suites: the suites need root: network namespaces, other users" >&2
	exit 2
fi

# The mount point; the mount itself exists inside only.
[ -d /run/pulc ] || { mkdir /run/pulc && trap 'rmdir /run/pulc 2>/dev/null' EXIT; }
rm -rf "$reachable"
mkdir -p "$reachable"
chmod 755 "$SUITES_DIR"
cp -r build/bin build/lib "$reachable/"
chmod -R a+rX "$reachable"

failed=
for name in ${SUITES:-$(basename -s .txt "$suites"/baseline/*.txt)}; do
	one_suite "$name" || failed+=" $name"
done
if [ -n "$failed" ]; then
	echo "regressions in:$failed"
	exit 1
fi
echo "no regressions"
