#!/bin/sh
# Integrity and endurance of connections on rings. STRESS_SECONDS=600 for a long run.
# timeout: 3000
exec "$(dirname "$0")/run-stress" "$@"
