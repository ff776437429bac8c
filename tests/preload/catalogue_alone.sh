#!/bin/sh
# A part of the catalogue, always the same, with only one of two processes under the shim: what the other one sees is the kernel's.
# All of it: run-catalogue --variants alone.
# timeout: 300
exec "$(dirname "$0")/run-catalogue" --variants alone --part 8 --seed 8 "$@"
