#!/bin/bash
# Installs the Debian packages that are missing, and says nothing if none is.
#
#	tools/deps.sh [GROUP...]     (build demo bench bench-apps check apps boot deb lint; default: all but those with apps and boot)
#
# Needs root or sudo only if something is missing. Services that come with the packages (Redis,
# nginx, memcached, sshd) are not started by their installation.
set -u

declare -A packages=(
	[build]="gcc libc6-dev binutils protobuf-compiler protobuf-c-compiler libprotobuf-c-dev libuv1-dev libsystemd-dev libpmix-dev libhwloc-dev pkg-config
		libssl-dev libmicrohttpd-dev liburing-dev"
	[demo]="iperf3 redis-server redis-tools"
	[bench]="iperf3 redis-server redis-tools python3"
	[bench-apps]="memcached nginx-light wrk postgresql mpich libmpich-dev openmpi-bin libopenmpi-dev util-linux
		ucx-utils libfabric-bin"
	[check]="libcunit1-dev clang libclang-rt-dev memcached nginx-light wrk curl socat
		openssh-server openssh-client openssl python3 python3-prometheus-client iproute2 util-linux netcat-openbsd mandoc
		mpich libmpich-dev openmpi-bin libopenmpi-dev procps dbus-daemon nftables dpkg-dev libjemalloc2 libgoogle-perftools-dev slurm-wlm munge
		bash-completion zsh fish"
	[apps]="postgresql haproxy nginx-light curl rsync openssh-server openssh-client default-jdk-headless nodejs
		redis-server redis-tools memcached python3 python3-grpcio mpich libmpich-dev openmpi-bin libopenmpi-dev util-linux"
	[boot]="systemd-container debootstrap lintian libmpich-dev procps util-linux iproute2"
	[deb]="dpkg-dev"
	[lint]="clang-format clang-tidy cppcheck shellcheck mandoc man-db pkg-config"
)

fail() {
	echo "deps: $1" >&2
	exit 1
}

[ $# -gt 0 ] || set -- build demo bench check deb lint
wanted=()
for group in "$@"; do
	[ -n "${packages[$group]:-}" ] || fail "no such group: $group (there are: ${!packages[*]})"
	read -r -d '' -a words <<<"${packages[$group]}"
	wanted+=("${words[@]}")
done

if ! command -v dpkg-query >/dev/null; then
	command -v cc >/dev/null && command -v protoc-gen-c >/dev/null && exit 0
	fail "not a Debian system; please install what corresponds to: ${wanted[*]}"
fi

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p')
missing=()
for package in "${wanted[@]}"; do
	grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null ||
		fail "missing packages, and neither root nor sudo here. As root: apt-get install ${missing[*]}"
	as_root=(sudo)
fi

# Debian's way to install a service without starting it; left alone if the machine has one already.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap '"${as_root[@]}" rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
	"${as_root[@]}" chmod 755 $policy
fi

echo "deps: installing ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}")
log=$(mktemp)
if ! "${install[@]}" >"$log" 2>&1; then
	# The package lists may be missing or old.
	"${as_root[@]}" apt-get -q update >"$log" 2>&1 || true
	if ! "${install[@]}" >>"$log" 2>&1; then
		tail -n 15 "$log" >&2
		rm -f "$log"
		fail "could not install: ${missing[*]}"
	fi
fi
rm -f "$log"
