#!/bin/sh
# The catalogue of behaviours, on the kernel and under the shim.
# timeout: 900
# The random variant (upgrades in mid-case) takes as long again: run it by hand, with --repeat for other seeds.
exec "$(dirname "$0")/run-catalogue" --variants rings,never,disabled,nopsid "$@"
