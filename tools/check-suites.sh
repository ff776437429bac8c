#!/bin/bash
# Other people's test suites under the shim, compared test by test with their verdicts on the kernel.
#
#	SUITES="libuv nng" tools/check-suites.sh      (default: every suite there is a verdict of)
#
# The runners are no part of this tree: they are looked for beside it, in ../shared/suites or in the folder
# that PULC_SUITES names. A suite runs in a network namespace that only it and a psid of all
# users live in; what it needs is downloaded before. Results: build/suites/NAME. Exit status 1: a test
# that passes on the kernel does not pass under the shim, or fewer bytes went through rings than
# tests/suites/shares says for its surroundings: of all bytes in rings, and over the loopback of the suite's own
# namespace, headers not counted. (ONLY, DIRS and UNITS choose a part of a suite; its share is told only.) Tests that fail
# because PULC is faster than they can bear, or by chance on the kernel too, stand in tests/suites/explained, with what they say then.
#
# SURROUNDINGS="usual no-spin one-cpu tiny-rings at-once eager" plays the suites in each of these in turn: as they are; nobody spins
# before he sleeps; one processor for all; rings of 4 KiB at most; connections are upgraded at their first call, where the short ones
# of most tests would stay on the kernel; and connect and accept wait until they are (tests/suites/eager.c). Results:
# build/suites/NAME.SURROUNDINGS. ROUNDS=3 plays all of it three times; results of round 2: build/suites/NAME.2 and so on.
# A table of what was played stands at the end.
#
# Tests of a suite depend on time, and on how busy the machine is. TRIES=3 plays those that did not pass twice
# more, and then on the kernel, on as many processors: a test fails that passes there and never here. OPTIONAL=1 leaves a suite out that
# cannot be fetched or built, or that there is no namespace for.
set -u
cd "$(dirname "$0")/.." || exit 2

suites=${PULC_SUITES:-$PWD/../shared/suites}
run=$suites/run
export SUITES_DIR=${SUITES_DIR:-/var/tmp/pulc-suites}
# Some tests run as another user, who may not be able to look into this tree.
reachable=$SUITES_DIR/pulc

# How many bytes TCP and UDP have received in this namespace; it is empty at the beginning.
kernel_bytes() {
	cat /proc/self/net/{netstat,snmp,snmp6} | awk '
		/^[A-Z][A-Za-z]+: [A-Z]/ { for (i = 2; i <= NF; i++) name[i] = $1 $i; next }
		/:/ { for (i = 2; i <= NF; i++) value[name[i]] = $i; next }
		{ value[$1] = $2 }
		END {
			n = value["IpExt:InOctets"] - 20 * value["Ip:InReceives"] + value["Ip6InOctets"] - 40 * value["Ip6InReceives"]
			n -= 32 * value["Tcp:InSegs"] + 8 * (value["Udp:InDatagrams"] + value["Udp6InDatagrams"])
			printf "%.0f\n", (n > 0 ? n : 0)
		}'
}

status_of() {
	"$reachable/bin/pulcctl" --json status
}

# The environment of all that is played, what its programs are started by, and what is preloaded before the shim.
settings=()
prefix=()
before=
surround() {
	settings=()
	prefix=()
	before=
	case $1 in
	usual) ;;
	no-spin) settings=(PULC_SPIN_USEC=0) ;;
	one-cpu) prefix=(taskset -c 0) ;;
	tiny-rings) settings=("PULC_RING_SIZES=64,256,512,1024,4096") ;;
	at-once) settings=(PULC_HINT_AFTER=0) ;;
	eager) settings=(PULC_HINT_AFTER=0) before=$reachable/eager.so: ;;
	*)
		echo "check-suites: no such surroundings: $1 (there are: usual no-spin one-cpu tiny-rings at-once eager)" >&2
		exit 2
		;;
	esac
}

# Inside the namespace: a psid at the system's own place, which hides the real one from here only.
inside() {
	local name=$1 out=$2 psid i
	mount -t tmpfs -o mode=755 none /run/pulc || exit 2
	env -u XDG_RUNTIME_DIR PULC_LOG_LEVEL=warning "${settings[@]}" "${prefix[@]}" "$reachable/bin/psid" --system 2>"$out/psid.log" &
	psid=$!
	# A psid of root's own, beside this tree, would be asked first.
	export PULC_SOCKET=/run/pulc/psid.sock
	for ((i = 0; i < 100; i++)); do
		[ ! -S "$PULC_SOCKET" ] || break
		sleep 0.05
	done
	env NO_NETNS=1 PRELOAD="$before$reachable/lib/libpulc-preload.so" OUT="$out" "${settings[@]}" "${prefix[@]}" "$run/$name.sh"
	kernel_bytes >"$out/kernel-bytes"
	# What went through a ring is counted when its connection ends.
	for ((i = 0; i < 100; i++)); do
		! status_of | grep -q '"n_connections":[1-9]' || sleep 0.1
	done
	status_of >"$out/psid.json" 2>&1
	kill "$psid" && wait "$psid"
}

number_of() {
	sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$2"
}

# Says how many bytes went through rings. Exit status 1: too few.
check_share() {
	local name=$1 out=$2 rings kernel least
	rings=$(number_of size_rings "$out/psid.json")
	read -r kernel <"$out/kernel-bytes"
	share=$((${rings:-0} * 100 / (${rings:-0} + ${kernel:-0} + 1)))
	least=$(awk -v name="$name" -v where="$surroundings" '
		$1 == "suite" { for (i = 2; i <= NF; i++) if ($i == where) column = i }
		$1 == name && column { split($column, share, "/"); print share[1] }' tests/suites/shares)
	echo "$name: $(number_of n_upgrades "$out/psid.json") connections and ${rings:-0} bytes went through rings," \
		"${kernel:-no} bytes over the loopback: $share %, at least ${least:-?} % is wanted"
	[ -z "${ONLY:-}${DIRS:-}${UNITS:-}" ] || return 0
	[ -n "$least" ] || {
		echo "NO SHARE of $name is wanted yet: tests/suites/shares"
		return 1
	}
	[ "$share" -ge "$least" ] || {
		echo "TOO FEW bytes of $name in rings"
		return 1
	}
}

# A pattern for exactly these names, a line each.
pattern_of() {
	# shellcheck disable=SC2016 # these are the characters meant
	sed 's/[][\.*^$(){}|+?]/\\&/g' | paste -sd '|' | sed 's/.*/^(&)$/'
}

# The tests of the list that have not passed in the results.
not_passed() {
	grep -vxFf <(sed -n 's/^PASS //p' "$2/results.txt") "$1"
}

# Plays the tests that the list names, and leaves in it those that have not passed.
play_again() {
	local name=$1 list=$2 out=$3
	mkdir -p "$out"
	ONLY=$(pattern_of <"$list") "$run/ns.sh" "$0" --inside "$name" "$out" "$surroundings" >"$out.log" 2>&1
	not_passed "$list" "$out" >"$list.new"
	mv "$list.new" "$list"
}

# Leaves in the list what passes on the kernel.
play_on_kernel() {
	local name=$1 list=$2 out=$3
	ONLY=$(pattern_of <"$list") PRELOAD='' OUT=$out "${prefix[@]}" "$run/$name.sh" >"$out.log" 2>&1
	sed -n 's/^PASS //p' "$out/results.txt" | grep -xFf "$list" >"$list.new"
	mv "$list.new" "$list"
}

# What a test has said: its output, and the files that it left.
said_by() {
	local name=$1 out=$2 test=$3
	find "$out/logs/$(printf %s "$test" | tr -c '[:alnum:]_.+=-' _).log" "$SUITES_DIR/scratch/$name/$test" \
		-type f -size -1024k -exec cat {} + 2>/dev/null
}

# Does tests/suites/explained name this test for these surroundings, and does the test say what stands there?
is_explained() {
	local name=$1 out=$2 test=$3 suite pattern where words
	while IFS=$'\t' read -r suite pattern where words; do
		# shellcheck disable=SC2053 # these are patterns
		[[ $suite = "$name" && $test = $pattern && $surroundings = $where ]] || continue
		! said_by "$name" "$out" "$test" | grep -qaF -- "$words" || return 0
	done <tests/suites/explained
	return 1
}

explain() {
	local name=$1 out=$2 test
	sed -n 's/^REGRESSION [^ ]* //p' "$out/compare" >"$out/differ"
	while read -r test; do
		is_explained "$name" "$out" "$test" || continue
		awk -v test="$test" '$1 == "REGRESSION" && $3 == test { $1 = "EXPLAINED" } { print }' "$out/compare" >"$out/compare.new"
		mv "$out/compare.new" "$out/compare"
	done <"$out/differ"
}

# Exit status 1: something fails each time it is played, and passes on the kernel.
check_verdicts() {
	local name=$1 out=$2 list=$2/failed try compared=true
	"$run/compare.sh" "$suites/baseline/$name.txt" "$out" >"$out/compare" 2>&1 || compared=false
	explain "$name" "$out"
	tail -n 30 "$out/compare"
	sed -n 's/^REGRESSION [^ ]* //p' "$out/compare" >"$list"
	if [ ! -s "$list" ]; then
		$compared || grep -q '^EXPLAINED ' "$out/compare"
		return
	fi
	[ "${TRIES:-1}" -gt 1 ] || return 1
	for ((try = 2; try <= TRIES; try++)); do
		[ ! -s "$list" ] || play_again "$name" "$list" "$out/try-$try"
	done
	[ ! -s "$list" ] || play_on_kernel "$name" "$list" "$out/kernel"
	[ -s "$list" ] || { echo "not so when played again" && return 0; }
	echo "fails each time: $(paste -sd ' ' "$list")"
	return 1
}

# Lines of the table: how many tests, how many of them passed, and how many that pass on the kernel did not at the first try.
print_row() {
	printf '%-12s %-10s %5s %6s %6s %7s %6s\n' "$@"
}

row_of() {
	local name=$1 out=$2 verdicts=$2/results.txt
	[ -f "$verdicts" ] || verdicts=/dev/null
	print_row "$name" "$surroundings" "$round" "$(grep -c . "$verdicts")" "$(grep -c ^PASS "$verdicts")" \
		"$(grep -c ^REGRESSION "$out/compare")" "$share %"
}

one_suite() {
	local name=$1 out=$PWD/build/suites/$1 failed=0
	[ "$surroundings" = usual ] || out+=.$surroundings
	[ "$round" = 1 ] || out+=.$round
	rm -rf "$out" "$out.setup"
	mkdir -p "$out"
	echo "== $name, $surroundings, round $round of $rounds"
	# Choosing no test makes a runner fetch and build only.
	if ! ONLY='^$' UNITS=- OUT=$out.setup timeout 900 "$run/$name.sh" >"$out.setup.log" 2>&1; then
		echo "$name cannot be had here: $(tail -n 1 "$out.setup.log")"
		[ -n "${OPTIONAL:-}" ]
		return
	fi
	"$run/ns.sh" "$0" --inside "$name" "$out" "$surroundings" 2>&1 | tail -n 3
	check_share "$name" "$out" || failed=1
	check_verdicts "$name" "$out" || failed=1
	rows+=("$(row_of "$name" "$out")")
	return $failed
}

case ${1:-} in
--inside)
	surround "$4"
	inside "$2" "$3"
	exit
	;;
--help | -h)
	sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p}' "$0"
	exit
	;;
esac
if [ ! -d "$run" ]; then
	echo "check-suites: no suites at $suites; nothing was run"
	exit 0
fi
if [ -n "${OPTIONAL:-}" ] && ! unshare -n -m mount -t tmpfs none /mnt 2>/dev/null; then
	echo "check-suites: no namespaces can be made here; nothing was run"
	exit 0
fi
if [ "$(id -u)" != 0 ]; then
	echo "check-suites: the suites need root: network namespaces, other users" >&2
	exit 2
fi

# One at a time: their files have fixed places.
mkdir -p "$SUITES_DIR"
chmod 755 "$SUITES_DIR"
[ -n "${SUITES_LOCKED:-}" ] || SUITES_LOCKED=1 exec flock -o "$SUITES_DIR/lock" "$0" "$@"

# The mount point; the mount itself exists inside only.
[ -d /run/pulc ] || { mkdir /run/pulc && trap 'rmdir /run/pulc 2>/dev/null' EXIT; }
rm -rf "$reachable"
mkdir -p "$reachable"
cp -r build/bin build/lib build/tests/suites/eager.so "$reachable/"
chmod -R a+rX "$reachable"

failed=
rows=()
rounds=${ROUNDS:-1}
read -r -a all_surroundings <<<"${SURROUNDINGS:-usual}"
for ((round = 1; round <= rounds; round++)); do
	for surroundings in "${all_surroundings[@]}"; do
		surround "$surroundings"
		for name in ${SUITES:-$(basename -s .txt "$suites"/baseline/*.txt)}; do
			one_suite "$name" || failed+=" $name.$surroundings.$round"
		done
	done
done
print_row suite where round tests passed differ rings
[ ${#rows[@]} = 0 ] || printf '%s\n' "${rows[@]}"
if [ -n "$failed" ]; then
	echo "regressions in:$failed"
	exit 1
fi
echo "no regressions"
