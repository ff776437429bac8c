#!/bin/sh
# Makes the shim's export map from symbols.def: what the rows name, and nothing else.
set -eu
echo '{ global:'
awk -F'[(,] *' '
	/^PRE_(FD|ALL|PLAIN|LATE|VARIADIC)\(/ { print $4 ";" }
	/^PRE_CHECKED\(/ { print $3 ";" }
	/^PRE_SAME\(/ { print $2 ";" }
' "$1" | LC_ALL=C sort
echo 'local: *; };'
