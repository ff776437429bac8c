#!/bin/sh
# What the shim exports in libc's place, from symbols.def: what the rows name, one a line.
set -eu
awk -F'[(,] *' '
	/^PRE_(FD|ALL|PLAIN|LATE|VARIADIC)\(/ { print $4 }
	/^PRE_CHECKED\(/ { print $3 }
	/^PRE_SAME\(/ { print $2 }
' "$1" | LC_ALL=C sort
