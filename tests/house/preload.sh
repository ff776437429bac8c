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

# What the linker knows of it: two segments, of which the writable one has in its file the small variables alone, those that begin as zero on the last page
# of the others.
two_segments() {
	readelf -lSW "$PULC_BUILD/lib/libpulc-preload.so" | sed 's/\[ *\([0-9]*\)\]/\1/' | awk '
		$1 == "LOAD" { at = $3; in_file = $5; n++ }
		$2 == ".bss" { bss = "0x" $4 }
		END { print n, at, in_file, bss }' | {
		read -r n at in_file bss
		[ "$n" -eq 2 ] && [ $((in_file)) -lt 120000 ] && [ $(((at + in_file - 1) / 4096)) -eq $((bss / 4096)) ]
	}
}

# A process with a connection that it has accepted has in its writable part of the shim a few pages of the file, and not also what lies
# around them: all that is there is copied by each fork, and taken apart by each end.
forks_find_little() {
	LD_PRELOAD=$PULC_BUILD/lib/libpulc-preload.so python3 -c '
import re, socket
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
parts = re.split(r"^(?=[0-9a-f]+-)", open("/proc/self/smaps").read(), flags=re.M)
data = [p for p in parts if "/libpulc-preload.so" in p and " rw-p " in p]
assert len(data) == 1, data
resident = int(re.search(r"Rss: +(\d+)", data[0])[1])
assert resident <= 20, data'
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
verdict two_segments two_segments
verdict forks_find_little forks_find_little
verdict libpulc_is_there_once libpulc_is_there_once
