#!/bin/bash
# pulc/job.h: jobs spawned by a program, found and ended by their names; ports of parent and child.
suite="jobs"
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

"$bin/psid" --daemonize 2>/dev/null
timeout 170 "$PULC_BUILD/tests/jobs/spawn" && timeout 170 "$PULC_BUILD/tests/jobs/family"
