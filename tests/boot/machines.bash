# Machines that boot systemd, made of containers: sourced by the tests of this folder.
#
# A machine is a systemd-nspawn container on an overlay over a tree that debootstrap has made once: Debian's minimal
# system with what the packages of `make deb` depend on, but without these; a test installs them as a user would.
#
# A test runs itself again in namespaces of its own (processes, mounts, network), and all that it makes is within these
# or in files of a tmpfs that ends with them: whoever kills it, nothing is left but a few empty cgroups, which the next
# one removes. The machines hang on a bridge that leads nowhere; nothing is asked of the network but by debootstrap.
#
# Where systemd-nspawn, debootstrap, root or the mirror is not to be had, a test says so and is skipped.
# shellcheck shell=bash
set -u
suite=boot.$(basename "$0" .sh)
debs=$PWD/build/boot/debs debs_next=$PWD/build/boot/debs-next
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
work=$TMPDIR/machines
mirror=${DEBIAN_MIRROR:-} # empty: what debootstrap takes by itself
seconds_debootstrap=2400
seconds_max=90 # for one command in a machine, and for what is waited for
# Beside what the packages depend on: the boot, the network, MPI and what the test's programs are run by.
machine_packages=systemd,systemd-sysv,dbus,iproute2,procps,python3-minimal,libmpich12

is() { # NAME EXPECTED ACTUAL
	if [ "$2" = "$3" ]; then
		echo "ok $suite.$1"
	else
		echo "not ok $suite.$1: expected '$2', got '$3'"
	fi
}

skip() {
	echo "skip $suite: $1"
	exit 0
}

give_up() {
	echo "not ok $suite: $1"
	exit 1
}

await() { # COMMAND...: until it succeeds
	local end=$((SECONDS + seconds_max))
	while [ $SECONDS -lt $end ]; do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	return 1
}

comes() { # NAME COMMAND...: a test that something becomes true
	if await "${@:2}"; then
		echo "ok $suite.$1"
	else
		echo "not ok $suite.$1: not within $seconds_max s: ${*:2}"
	fi
}

msec_of() { # COMMAND...: how long it takes
	local start=${EPOCHREALTIME/./}
	"$@" || return
	echo $(((${EPOCHREALTIME/./} - start) / 1000))
}

# The folders of cgroups where a process may be given one of its own: version 2, and version 1's of systemd.
cgroup_roots() {
	awk '$3 == "cgroup2" || ($3 == "cgroup" && $4 ~ /name=systemd/) { print $2 }' /proc/mounts
}

# Our cgroups that are empty; those of another test that runs are not. Fails while there are some.
remove_cgroups() {
	local root left=0
	for root in $(cgroup_roots); do
		find "$root" -mindepth 1 -depth -type d -path "$root/pulc-boot.*" -exec rmdir {} + 2>/dev/null
		[ -z "$(find "$root" -maxdepth 1 -name 'pulc-boot.*')" ] || left=1
	done
	return $left
}

why_not() {
	local program
	[ "$(id -u)" = 0 ] || { echo "needs root"; return; }
	for program in systemd-nspawn debootstrap; do
		command -v $program >/dev/null || { echo "$program is missing"; return; }
	done
	[ -e "/usr/share/debootstrap/scripts/${codename:-none}" ] ||
		{ echo "debootstrap does not know this system (${codename:-no name})"; return; }
	unshare --mount --net --pid --fork mount -t tmpfs none /mnt 2>/dev/null || { echo "no namespaces or no mounts here"; return; }
	[ -e build/tests/boot/reduce ] || { echo "no MPICH to build a job with"; return; }
	[ -e "$debs" ] && [ -e "$debs_next" ] || echo "no packages: make check-boot makes them"
}

# The packages that ours depend on.
dependencies() {
	local deb
	for deb in "$debs"/*.deb; do
		dpkg-deb -f "$deb" Depends | tr ',' '\n' | sed 's/[(|].*//; s/ //g'
	done | grep -vE '^(|libpulc0|systemd)$' | sort -u | paste -sd,
}

# The tree, from build/boot if it has been made for just these packages.
tree_make() {
	local include log=build/boot/debootstrap.log
	include=$machine_packages,$(dependencies)
	tree=$PWD/build/boot/tree-$codename-$(cksum <<<"$include" | cut -d' ' -f1)
	[ ! -e "$tree" ] || return 0
	rm -rf build/boot/tree-* build/boot/making
	timeout $seconds_debootstrap debootstrap --variant=minbase --include="$include" "$codename" build/boot/making \
		${mirror:+"$mirror"} >$log 2>&1 || return
	rm -f build/boot/making/etc/machine-id
	rm -rf build/boot/making/var/cache/apt/archives/*.deb
	mv build/boot/making "$tree"
}

# The first half of it, which sees to the end of the rest. The status is the test's.
boot_guard() {
	local why status child
	why=$(why_not)
	[ -z "$why" ] || skip "$why"
	remove_cgroups
	BOOT_INSIDE=1 setpriv --pdeathsig KILL unshare --mount --pid --ipc --fork --kill-child --mount-proc "$BASH" "$0" &
	child=$!
	trap 'kill -KILL $child; wait $child; await remove_cgroups; exit 1' TERM INT HUP
	wait $child
	status=$?
	await remove_cgroups
	exit $status
}

# Runs the test's script in its namespaces, that of the network when the tree is there; returns in all of them only.
boot_begin() {
	case ${BOOT_INSIDE:-} in
	'')
		boot_guard
		;;
	1)
		exec 9>build/boot/lock
		flock 9
		tree_make || skip "debootstrap: $(tail -n 1 build/boot/debootstrap.log | cut -c1-150)"
		BOOT_INSIDE=$tree exec unshare --net "$BASH" "$0"
		;;
	esac
	trap 'exit 1' TERM INT HUP
	tree=$BOOT_INSIDE
	mount -t tmpfs -o mode=755 none /run
	mkdir "$work"
	mount -t tmpfs -o mode=755 none "$work"
	ip link set lo up
	ip link add name pulcbr type bridge
	ip link set pulcbr up
}

# What a machine is to have before its first boot: its own files and its address, 10.78.0.I. Its root is $work/NAME/root.
machine_make() { # NAME I
	local root=$work/$1/root
	mkdir -p "$work/$1/upper" "$work/$1/work" "$root"
	mount -t overlay overlay -o "lowerdir=$tree,upperdir=$work/$1/upper,workdir=$work/$1/work" "$root" ||
		skip "no overlays here"
	echo "$1" >"$root/etc/hostname"
	printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$1" >"$root/etc/hosts"
	cp tests/boot/connections.py build/tests/boot/reduce "$root/srv/"
	mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/mnt/debs" "$root/mnt/debs-next"
	cat >"$root/etc/systemd/system/address.service" <<-END
		[Unit]
		Before=network.target
		Wants=network.target
		[Service]
		Type=oneshot
		RemainAfterExit=yes
		ExecStart=/sbin/ip addr add 10.78.0.$2/24 dev host0
		ExecStart=/sbin/ip link set host0 up
	END
	ln -s ../address.service "$root/etc/systemd/system/multi-user.target.wants/"
}

# Runs until the machine is off; status 133 is how systemd-nspawn says that it wants to boot again.
machine_run() { # NAME
	local cgroup status=133
	for cgroup in $(cgroup_roots); do
		mkdir -p "$cgroup/pulc-boot.$1" && echo "$BASHPID" >"$cgroup/pulc-boot.$1/cgroup.procs"
	done
	while [ $status = 133 ]; do
		systemd-nspawn --quiet --directory="$work/$1/root" --machine="$1" --boot --register=no --keep-unit --console=read-only \
			--resolv-conf=off --timezone=off --link-journal=no --network-bridge=pulcbr --bind-ro="$debs:/mnt/debs" \
			--bind-ro="$debs_next:/mnt/debs-next" >>"$TMPDIR/$1.console" 2>&1 </dev/null 9>&-
		status=$?
	done
}

# The process that is the machine's first.
leader_of() { # NAME
	local status
	for status in /proc/[0-9]*/status; do
		grep -qsE '^NSpid:.*\s[0-9]+\s1$' "$status" || continue
		grep -qsE "pulc-boot\.$1(/|\$)" "${status%status}cgroup" || continue
		status=${status%/status}
		echo "${status#/proc/}"
		return 0
	done
	return 1
}

# A command in a machine, as root would give it there; none of our settings reach it.
on() { # NAME COMMAND...
	local leader
	leader=$(leader_of "$1") || return
	timeout "$seconds_max" nsenter -t "$leader" -m -u -i -n -p -C env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		prlimit --nofile="$(ulimit -Hn)" -- "${@:2}" </dev/null
}

is_up() { # NAME
	on "$1" systemctl is-system-running 2>/dev/null | grep -qE '^(running|degraded)$'
}

machine_start() { # NAME
	machine_run "$1" &
	await is_up "$1" || give_up "machine $1 does not come up: $(tail -n 1 "$TMPDIR/$1.console" | cut -c1-200)"
}

# What tells one boot of a machine from another: when its first process began.
boot_of() { # NAME
	cut -d' ' -f22 "/proc/$(leader_of "$1")/stat"
}

has_booted_after() { # NAME BOOT
	is_up "$1" && [ "$(boot_of "$1")" != "$2" ]
}

machine_install() { # NAME
	on "$1" sh -c 'dpkg -i /mnt/debs/*.deb' >"$TMPDIR/$1.install" 2>&1
}

psid_of() { # NAME: its process, as systemd knows it
	on "$1" systemctl show psid.service -p MainPID --value
}

psid_is_active() { # NAME
	on "$1" systemctl is-active -q psid.service
}

# A number of psid's status.
status_of() { # NAME FIELD
	on "$1" pulcctl status --json | sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"]*\).*/\1/p"
}
