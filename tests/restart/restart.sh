#!/bin/sh
# Connections that outlive a psid, and come back to the next one.
# timeout: 900
exec "$(dirname "$0")/run-restart" "$@"
