#!/bin/bash
# make deb: four packages, each file in one of them, that depend on what they need; unpacked together they work.
# timeout: 600
set -u
debs=$TMPDIR/debs
root=$TMPDIR/root

check() {
	local name=$1 why
	shift
	if why=$("$@" 2>&1); then
		echo "ok deb.$name"
	else
		echo "not ok deb.$name: $(tail -n 1 <<<"${why:-failed: $*}")"
	fi
}

field() { # PACKAGE FIELD
	dpkg-deb -f "$debs/$1"_*.deb "$2"
}

depends() { # PACKAGE ON
	field "$1" Depends | tr ',' '\n' | grep -q "^ *$2\( \|$\)" || { echo "depends on: $(field "$1" Depends)"; return 1; }
}

unpack_all() {
	local deb
	for deb in "$debs"/*.deb; do
		dpkg-deb -x "$deb" "$root" || return 1
	done
}

files_are_there() {
	local file
	for file in usr/bin/psid usr/bin/pulc usr/bin/pulcrun usr/libexec/pulc/keeper lib/systemd/system/psid.service \
		lib/systemd/system/psid-starter.socket usr/lib/systemd/user/psid.socket usr/lib/libpulc-preload.so \
		etc/pulc/psid.conf usr/share/man/man8/psid.8.gz usr/share/man/man3/pulc_tag_send.3.gz usr/share/zsh/vendor-completions/_pulcctl \
		usr/share/fish/vendor_completions.d/pulcctl.fish; do
		[ -e "$root/$file" ] || { echo "missing: $file"; return 1; }
	done
}

no_file_twice() {
	local twice
	twice=$(for deb in "$debs"/*.deb; do dpkg-deb -c "$deb"; done | awk '$1 !~ /^d/ { print $6 }' | sort | uniq -d)
	[ -z "$twice" ] || { echo "in two packages: $twice"; return 1; }
}

# The folder that the programs were built for is not the packages'.
units_name_usr() {
	! grep -rn "/usr/local" "$root/lib/systemd" "$root/usr/lib/systemd" "$root/usr/lib/pkgconfig" || return 1
	grep -qx 'ExecStart=/usr/bin/psid --system' "$root/lib/systemd/system/psid.service"
}

works_from_there() {
	[ "$("$root/usr/bin/pulc" --no-psid printenv LD_PRELOAD)" = "$root/usr/lib/libpulc-preload.so" ] &&
		"$root/usr/bin/psid" --check-config --config "$root/etc/pulc/psid.conf"
}

# What a library of ours has of others' inside, it says.
others_are_named() {
	local package library
	for package in libpulc0 pulc-preload; do
		for library in liburing libprotobuf-c; do
			grep -q '^Copyright' "$root/usr/share/doc/$package/copyright.$library" || return 1
		done
	done
}

scripts_are_sound() {
	local script
	dpkg-deb -e "$debs"/pulc_*.deb "$TMPDIR/control" || return 1
	for script in postinst prerm postrm; do
		sh -n "$TMPDIR/control/$script" || return 1
	done
	grep -qx /etc/pulc/psid.conf "$TMPDIR/control/conffiles"
}

if ! command -v dpkg-shlibdeps >/dev/null; then
	echo "skip deb: no dpkg-shlibdeps here"
	exit
fi
check builds make -s deb DEB="$debs"
check is_four [ "$(find "$debs" -name '*.deb' | wc -l)" = 4 ]
check pulc_needs_libraries depends pulc libuv1
check preload_needs_libc depends pulc-preload libc6
check preload_needs_library depends pulc-preload libpulc0
check dev_needs_library depends libpulc-dev libpulc0
check unpacks unpack_all
check files_are_there files_are_there
check no_file_twice no_file_twice
check units_name_usr units_name_usr
check works_from_there works_from_there
check others_are_named others_are_named
check scripts_are_sound scripts_are_sound
