#!/bin/sh
# Makes docs/coverage.md from symbols.def: which socket-related functions of libc the shim serves, and how.
set -eu
cat <<'END'
# Which functions the shim serves

Made from `preload/symbols.def` by `make preload/coverage`; do not edit.

*rings*: the bytes, or the readiness, of an upgraded connection come from its rings; before the upgrade it is the
kernel's own call. *noted*: the kernel does it, the shim takes note. *kept*: the connection stays on the kernel
from then on, or goes back to it. *kernel*: libc's own, not interposed. Raw system calls made with `syscall()`
are served like the function of the same name.

| function | served | remark |
| --- | --- | --- |
END
LC_ALL=C awk -F'[(,)] *' '
	/^PRE_(FD|ALL|PLAIN|LATE|VARIADIC)\(/ { print "| `" $4 "` | " tolower($2) " | |" }
	/^PRE_CHECKED\(/ { print "| `" $3 "` | as `" $4 "` | checks the size of the buffer first |" }
	/^PRE_SAME\(/ { print "| `" $2 "` | as `" $3 "` | |" }
	/^PRE_KERNEL\(/ { print "| `" $2 "` | kernel | " $3 " |" }
' "$1" | LC_ALL=C sort
