#!/bin/sh
# Random sequences of socket calls on the kernel and under the shim: the same each time. `make check-random` plays others.
# timeout: 300
exec "$(dirname "$0")/run-random" --seeds 1-11,13-70 --in-turn "$@"
