#!/bin/sh
# A part of the catalogue, drawn anew each time, with upgrades at random moments. The first line of the log is the
# seed; --seed draws the same again, and all of it is played by run-catalogue --variants random.
# timeout: 600
exec "$(dirname "$0")/run-catalogue" --variants random --part 4 "$@"
