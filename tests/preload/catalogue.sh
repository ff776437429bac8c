#!/bin/sh
# The catalogue of behaviours, on the kernel and under the shim.
# timeout: 400
# The random variant (upgrades in mid-case) still finds differences: run it by hand.
exec "$(dirname "$0")/run-catalogue" --variants rings,never,disabled,nopsid "$@"
