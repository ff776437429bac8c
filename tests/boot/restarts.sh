#!/bin/bash
# psid restarted, stopped until the watchdog comes, and replaced by a later version, while 1,050 connections on rings and an MPI
# job go on in its machine: nothing is lost, exit codes are right, no connection leaves its rings. How long each restart took
# is printed, not judged.
# timeout: 3600
# shellcheck source=tests/boot/machines.bash
. "$(dirname "$0")/machines.bash"
# shellcheck source=tests/boot/live.bash
. "$(dirname "$0")/live.bash"
boot_begin
n_connections=1050 # all of connections.py
n_restarts=10

# At least so many connections are on rings; psid may not answer.
on_rings() { # N
	local n
	n=$(status_of m1 n_connections)
	[ "${n:-0}" -ge "$1" ]
}

psid_is_another_than() { # PID
	psid_is_active m1 && [ "$(psid_of m1)" != "$1" ]
}

work_starts() { # PREFIX
	work_start m1 --oversubscribe -n 2
	comes "$1.connections_get_on_rings" on_rings $n_connections
	comes "$1.all_goes_on" goes_on m1
}

# One restart: another psid, which knows all connections, and both go on.
restart() { # I
	local before n_before msec
	before=$(psid_of m1) n_before=$(status_of m1 n_connections)
	msec=$(msec_of on m1 systemctl restart psid)
	is "restart_$1.done" 0 $?
	times+=" $msec"
	is "restart_$1.is_another_psid" yes "$([ "$(psid_of m1)" != "$before" ] && echo yes)"
	comes "restart_$1.connections_stay_on_rings" on_rings "$n_before"
	comes "restart_$1.all_goes_on" goes_on m1
}

machine_make m1 1
machine_start m1
machine_install m1 && on m1 systemctl enable -q --now psid
is psid_runs 0 $?

work_starts before
times=
for ((i = 1; i <= n_restarts; i++)); do
	restart $i
done
echo "# systemctl restart psid with $(status_of m1 n_connections) connections and an MPI job, ms:$times"

before=$(psid_of m1) n_before=$(status_of m1 n_connections)
on m1 kill -STOP "$before"
started=$SECONDS
comes watchdog.all_goes_on_without_psid goes_on m1
comes watchdog.restarts_psid psid_is_another_than "$before"
echo "# watchdog: another psid after $((SECONDS - started)) s (WatchdogSec: 30 s)"
comes watchdog.connections_stay_on_rings on_rings "$n_before"
comes watchdog.all_goes_on goes_on m1
work_end m1 restarts

work_starts upgrade
before=$(psid_of m1) n_before=$(status_of m1 n_connections)
is upgrade.version_before "$(dpkg-deb -f "$debs"/pulc_*.deb Version)" "$(status_of m1 version)-1"
on m1 sh -c 'dpkg -i /mnt/debs-next/*.deb' >"$TMPDIR/upgrade" 2>&1
is upgrade.done 0 $?
comes upgrade.is_another_psid psid_is_another_than "$before"
is upgrade.version_after "$(dpkg-deb -f "$debs_next"/pulc_*.deb Version)" "$(status_of m1 version)-1"
comes upgrade.connections_stay_on_rings on_rings "$n_before"
comes upgrade.all_goes_on goes_on m1
work_end m1 upgrade
is upgrade.new_jobs_run 5 "$(on m1 pulcrun -n 1 sh -c 'exit 5' >/dev/null 2>&1; echo $?)"
