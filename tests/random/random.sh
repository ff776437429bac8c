#!/bin/sh
# Random sequences of socket calls on the kernel and under the shim: the same each time. `make check-random` plays others.
# timeout: 300
play="$(dirname "$0")/run-random"
status=0
"$play" --seeds 1-70 --in-turn "$@" || status=1
# Each has differed once.
"$play" --seeds 41,55,303,324,367,370,381,383 --variants rings "$@" || status=1
exit $status
