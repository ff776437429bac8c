#!/bin/bash
# pulc/job.h: jobs spawned by a program, found and ended by their names; ports of parent and child.
suite="jobs"
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

"$bin/psid" --daemonize 2>/dev/null
timeout 170 "$PULC_BUILD/tests/jobs/spawn" && timeout 170 "$PULC_BUILD/tests/jobs/family"

# Jobs of a program in a reservation are in it.
in_reservation() { # TASKS
	run --reserve --oversubscribe -q -n 2 "$PULC_BUILD/tests/jobs/family" room "$1" 2>&1
}
is spawned_in_a_reservation "ended 0" "$(in_reservation 2)"
is and_no_more_than_its_room "the reservation has room for 2 tasks of this kind" "$(in_reservation 3)"
