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

verdict exports sh preload/check-symbols.sh "$PULC_BUILD/lib/libpulc-preload.so" "$PULC_BUILD/gen/preload.map" \
	"$PULC_BUILD"/obj/preload/*.o
verdict coverage coverage_is_current
