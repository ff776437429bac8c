#!/bin/sh
# The catalogue of behaviours, on the kernel and under the shim.
# timeout: 900
# The random variant (upgrades in mid-case) is catalogue_random.sh's.
exec "$(dirname "$0")/run-catalogue" --variants rings,never,disabled,nopsid "$@"
