#!/bin/bash
# The packages in a machine that boots systemd: what lintian says, installation, boot, upgrade, removal.
# timeout: 3600
# shellcheck source=tests/boot/machines.bash
. "$(dirname "$0")/machines.bash"

lintian_says() {
	if command -v lintian >/dev/null; then
		is lintian_finds_no_error '' "$(lintian --no-tag-display-limit --fail-on none "$debs"/*.deb 2>&1 | grep -E '^E:' | head -n 3)"
	else
		echo "skip $suite.lintian_finds_no_error: no lintian"
	fi
}

next_is_newer() {
	dpkg --compare-versions "$(dpkg-deb -f "$debs"/pulc_*.deb Version)" lt "$(dpkg-deb -f "$debs_next"/pulc_*.deb Version)"
}

# What needs no machine.
if [ -z "${BOOT_INSIDE:-}" ]; then
	lintian_says
	next_is_newer
	is next_version_is_newer 0 $?
fi
boot_begin

monotonic() { # UNIT PROPERTY: microseconds since the machine's kernel began
	on m1 systemctl show ${1:+"$1"} -p "$2" --value
}

# Since systemd has begun to start psid: its sandbox, its program, and psid itself.
start_msec() {
	echo $((($(monotonic psid.service ActiveEnterTimestampMonotonic) - $(monotonic psid.service InactiveExitTimestampMonotonic)) / 1000))
}

# How long the boot took until psid was ready, how much of that its unit, and the same for starts afterwards.
boot_times() {
	local ready times=
	ready=$(monotonic psid.service ActiveEnterTimestampMonotonic)
	echo "# boot to psid ready: $(((ready - $(monotonic '' UserspaceTimestampMonotonic)) / 1000)) ms," \
		"of these from the start of its unit to READY: $(start_msec) ms"
	on m1 systemd-analyze critical-chain --no-pager psid.service | sed 's/^/# /'
	for _ in 1 2 3 4 5; do
		on m1 systemctl restart psid.service
		times+=" $(start_msec)"
	done
	echo "# from the start of psid's unit to READY, ms:$times (load of this machine: $(cut -d' ' -f1 /proc/loadavg))"
}

exposure() {
	on m1 systemd-analyze security --no-pager psid.service | sed -n 's/.*Overall exposure level for psid.service: \([0-9.]*\).*/\1/p'
}

# Whatever of a machine bears our name; its log of packages may.
ours() {
	on m1 find / /run /dev/shm /tmp /sys/fs/cgroup -xdev \( -name '*pulc*' -o -name '*psid*' \) ! -path '/var/log/*' \
		! -path '/var/lib/systemd/*' 2>/dev/null | sort | xargs
}

processes() {
	on m1 ps -e -o comm= | grep -E '^(psid|keeper|pulc)' | sort | xargs
}

no_process() {
	[ -z "$(processes)" ]
}

units() {
	on m1 systemctl list-units --all --no-legend --plain 'psid*' | awk '{ print $1 }' | sort | xargs
}

run_status() {
	on m1 pulcrun "$@" >/dev/null 2>&1
	echo $?
}

machine_make m1 1
machine_start m1
is machine_is_without_us '' "$(ours)"
machine_install m1
is installed 0 $?
is installation_starts_nothing '' "$(processes)"
on m1 systemctl enable -q --now psid
is enabled_and_started 0 $?
comes ready psid_is_active m1
is serves_the_system true "$(status_of m1 system)"
is runs_jobs 5 "$(run_status -n 1 sh -c 'exit 5')"

# The group of operators, without a user of that kind in this machine.
group=$(on m1 getent group pulc | cut -d: -f3)
is group_is_made yes "$([ -n "$group" ] && echo yes)"
steer() { # GROUP: as somebody who is of it, but not root
	on m1 setpriv --reuid 4321 --regid 4321 --groups "$1" pulcctl loglevel info >/dev/null 2>&1
	echo $?
}
is group_may_steer 0 "$(steer "${group:-4321}")"
is others_may_not_steer 1 "$(steer 4321)"

before=$(boot_of m1)
on m1 systemctl reboot
comes boots_again has_booted_after m1 "$before"
comes ready_at_boot psid_is_active m1
boot_times
is runs_jobs_at_boot 6 "$(run_status -n 1 sh -c 'exit 6')"
is exposure_is_at_most_3.5 yes "$(awk -v x="$(exposure)" 'BEGIN { print (x != "" && x <= 3.5) ? "yes" : x }')"
echo "# systemd-analyze security: $(exposure)"
is no_unit_has_failed '' "$(on m1 systemctl list-units --failed --no-legend --plain 'psid*')"

on m1 dpkg --remove pulc pulc-preload libpulc-dev libpulc0 >"$TMPDIR/remove" 2>&1
is removed 0 $?
comes removal_ends_psid no_process
is removal_keeps_the_settings /etc/pulc/psid.conf "$(on m1 find /etc/pulc -type f | xargs)"
is removal_leaves_no_enablement '' "$(on m1 find /etc/systemd -name '*psid*' | xargs)"
on m1 dpkg --purge pulc pulc-preload libpulc-dev libpulc0 >"$TMPDIR/purge" 2>&1
is purged 0 $?
is purge_leaves_no_process '' "$(processes)"
is purge_leaves_no_file '' "$(ours)"
is purge_leaves_no_unit '' "$(units)"
is purge_keeps_the_group "$group" "$(on m1 getent group pulc | cut -d: -f3)"
machine_install m1
is installed_again 0 $?
