#!/bin/bash
# What is made from preload/symbols.def agrees with it: the library's exports, and the coverage table.
set -u
cd "$(dirname "$0")/../.." || exit 2

verdict() { # NAME COMMAND...
	local name=$1 why
	shift
	if why=$("$@" 2>&1); then
		echo "ok preload.$name"
	else
		echo "not ok preload.$name: ${why//$'\n'/ }"
	fi
}

coverage_is_current() {
	sh preload/gen-coverage.sh preload/symbols.def | diff - docs/coverage.md
}

# The small variables that begin as zero lie on the last page of the others: no mapping of their own, which every fork would copy.
three_mappings() {
	readelf -lW "$PULC_BUILD/lib/libpulc-preload.so" | awk '
		$1 == "LOAD" { at = $3; in_file = $5; in_memory = $6; n++ }
		END { print n, at, in_file, in_memory }' | {
		read -r n at in_file in_memory
		[ "$n" -eq 2 ] && [ $(((at + in_file) / 4096)) -eq $(((at + in_memory - 1) / 4096)) ]
	}
}

# Who wants libpulc under the shim gets the shim.
libpulc_is_there_once() {
	LD_PRELOAD=$PULC_BUILD/lib/libpulc-preload.so LD_LIBRARY_PATH=$PULC_BUILD/lib python3 -c '
import ctypes
ctypes.CDLL("libpulc.so.0").pulc_process_ends
files = {line.split()[5] for line in open("/proc/self/maps") if "/libpulc" in line}
assert len(files) == 1, files'
}

verdict exports sh preload/check-symbols.sh "$PULC_BUILD/lib/libpulc-preload.so" "$PULC_BUILD/lib/libpulc.so" \
	"$PULC_BUILD/gen/preload.exports" "$PULC_BUILD"/obj/preload/*.o
verdict coverage coverage_is_current
verdict three_mappings three_mappings
verdict libpulc_is_there_once libpulc_is_there_once
