#!/bin/sh
# check-symbols.sh SHIM LIBPULC EXPORTS OBJECT...: the shim exports exactly what the list names, and what libpulc exports, for it stands in
# its place too; and the shim's objects reach for nothing but libc, libpulc's public functions and each other: no ring code.
set -eu
shim=$1 libpulc=$2 exports=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

nm -D --defined-only "$libpulc" | awk '{ print $3 }' | sort - "$exports" >"$work/wanted"
nm -D --defined-only "$shim" | awk '{ print $3 }' | sort >"$work/exported"
diff "$work/wanted" "$work/exported" >"$work/diff" || {
	echo "exports differ from symbols.def and libpulc's (<: missing, >: too many):"
	cat "$work/diff"
	exit 1
}

nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u >"$work/own"
nm --undefined-only "$@" | awk '$1 == "U" { print $2 }' | sort -u >"$work/used"
comm -23 "$work/used" "$work/own" | grep -E '^(shm|tcp|proto|hal|wire|psid)_' && {
	echo "the shim's objects reach past libpulc's public functions"
	exit 1
}
strings -a "$@" | grep -qE 'layout\.h' && {
	echo "the shim's objects were compiled with the shared memory layout"
	exit 1
}
echo "$(wc -l <"$work/exported") exports as in symbols.def and libpulc, no ring code"
