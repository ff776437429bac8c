#!/bin/sh
# Random sequences of socket calls on the kernel and under the shim: the same each time. `make check-random` plays others.
# timeout: 300
play="$(dirname "$0")/run-random"
status=0
"$play" --kinds streams,datagrams,mixed --seeds 1-70 --in-turn "$@" || status=1
# The seventh passes a connection with a reset that nobody was told of to a program outside (docs/differences.md).
"$play" --kinds wide --seeds 1-6,8-70 --in-turn "$@" || status=1
# Each has differed once.
"$play" --kinds streams,datagrams,mixed --seeds 1,3,13,41,55,78,194,303,324,341,367,370,381,383,410,436,460,466,467,1336 --variants rings "$@" || status=1
"$play" --kinds streams --seeds 1097,1157 --variants random "$@" || status=1
"$play" --kinds streams --seeds 2091,2278,2286,2385,7066,31149,32002,41042,70992 --variants rings "$@" || status=1
"$play" --kinds streams --seeds 44417 --variants alone "$@" || status=1
"$play" --kinds datagrams --seeds 333,380,494,2043,2063,2155,2162,2189,2198,2209,2221,2309,2432,31048,32053,33027 --variants rings "$@" || status=1
exit $status
