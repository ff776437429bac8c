#!/bin/bash
# Builds the Debian packages into build/: pulc (daemon and commands), pulc-preload, libpulc0, libpulc-dev.
#
#	tools/deb.sh OUTPUT STAGE
#
# STAGE is what `make install DESTDIR=STAGE` made. Each file goes to exactly one package: lists below say which,
# and what no list names belongs to pulc.
set -eu

output=${1:?the folder for the packages} stage=${2:?the staged installation}
: "${VERSION:?}" "${PREFIX:?}"
work=$(mktemp -d "${TMPDIR:-/tmp}/pulc-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
arch=$(dpkg --print-architecture)
version=$VERSION-1
maintainer=${MAINTAINER:-The PULC developers <pulc@example.org>}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

# Patterns of paths in STAGE, and what the package is for.
declare -A files=(
	[libpulc0]='usr/lib/libpulc.so.0'
	[libpulc-dev]='usr/include/* usr/share/doc/pulc/examples/* usr/share/man/man3/* usr/lib/libpulc.so usr/lib/pkgconfig/*'
	[pulc-preload]='usr/lib/libpulc-preload.so usr/bin/pulc usr/share/man/man1/pulc.1 usr/share/man/man7/*
		usr/share/bash-completion/completions/pulc usr/share/zsh/*/_pulc
		usr/share/fish/*/pulc.fish'
)
declare -A about=(
	[libpulc0]='communication of local processes through shared memory: library'
	[libpulc-dev]='communication of local processes through shared memory: headers'
	[pulc-preload]='unmodified socket programs through shared memory'
	[pulc]='daemon and commands for local connections and jobs in shared memory'
)
declare -A relations=(
	[libpulc0]='Section: libs'
	[libpulc-dev]="Section: libdevel
Depends: libpulc0 (= $version)"
	[pulc-preload]='Section: net
Recommends: pulc'
	[pulc]='Section: net
Recommends: pulc-preload'
)
# Libraries whose code is inside, as the packages are called that it was linked from. Their licences want to be told with it.
declare -A inside=(
	[libpulc0]='libprotobuf-c-dev liburing-dev'
	[pulc-preload]='libprotobuf-c-dev liburing-dev'
)

# Where a file of the installation lies in a package of Debian's.
place_of() {
	case $1 in
	usr/lib/systemd/system/*) echo "lib/systemd/system/${1##*/}" ;;
	usr/share/zsh/site-functions/*) echo "usr/share/zsh/vendor-completions/${1##*/}" ;;
	*) echo "$1" ;;
	esac
}

# As if it had been installed below /usr.
relocate() {
	mkdir -p "$work/stage$(dirname "$PREFIX")"
	cp -a "$1/." "$work/stage"
	if [ "$PREFIX" != /usr ]; then
		mkdir -p "$work/stage/usr"
		cp -a "$work/stage$PREFIX/." "$work/stage/usr"
		rm -rf "${work:?}/stage$PREFIX"
	fi
	find "$work/stage" -type f \( -name '*.service' -o -name '*.pc' \) -exec sed -i "s|$PREFIX|/usr|g" {} +
}

belongs_to() { # PACKAGE PATH
	local pattern
	local -a patterns
	read -r -d '' -a patterns <<<"${files[$1]}" || true
	for pattern in "${patterns[@]}"; do
		# shellcheck disable=SC2053 # a pattern
		[[ $2 != $pattern ]] || return 0
	done
	return 1
}

package_of() {
	local package
	for package in libpulc0 libpulc-dev pulc-preload; do
		! belongs_to "$package" "$1" || { echo "$package"; return; }
	done
	echo pulc
}

# Binaries lose their debug information, manual pages are compressed, as in all packages of Debian's.
finish() {
	local file
	while read -r file; do
		case $file in
		*.so* | */bin/* | */libexec/*)
			[ -L "$file" ] || strip --strip-unneeded --remove-section=.comment --remove-section=.note "$file"
			;;
		*/man/*) gzip -9n "$file" ;;
		esac
		case $file in
		*.so*) chmod 644 "$file" ;;
		esac
	done < <(find "$1" -type f -path "$1/*" ! -path '*/systemd/*' ! -path '*/doc/*')
	while read -r file; do
		ln -s "$(readlink "$file").gz" "$file.gz"
		rm "$file"
	done < <(find "$1" -type l -path '*/man/*')
}

document() { # PACKAGE ROOT
	local doc=$2/usr/share/doc/$1 library
	local -a libraries
	mkdir -p "$doc"
	read -r -a libraries <<<"${inside[$1]:-}"
	for library in "${libraries[@]}"; do
		cp "/usr/share/doc/$library/copyright" "$doc/copyright.${library%-dev}"
	done
	{
		echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
		echo
		echo 'Files: *'
		sed -n 's/^Copyright (c)/Copyright:/p' LICENSE
		echo 'License: Expat'
		sed '1,/^Copyright/d; /^$/d; s/^/ /' LICENSE
	} >"$doc/copyright"
	printf 'pulc (%s) unstable; urgency=medium\n\n  * See README.md.\n\n -- %s  %s\n' "$version" "$maintainer" \
		"$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.Debian.gz"
}

# What the programs of a package need of others, as their libraries' packages say.
depends_of() { # PACKAGE ROOT
	local -a binaries
	mapfile -t binaries < <(find "$2" -type f -exec sh -c 'readelf -h "$1" >/dev/null 2>&1' _ {} \; -print)
	[ ${#binaries[@]} -gt 0 ] || return 0
	mkdir -p "$work/deps/debian"
	printf 'Source: pulc\n\nPackage: %s\nArchitecture: any\n' "$1" >"$work/deps/debian/control"
	echo "libpulc 0 libpulc0 (= $version)" >"$work/deps/debian/shlibs.local"
	(cd "$work/deps" && dpkg-shlibdeps -O -l"$work/libpulc0/usr/lib" "${binaries[@]}" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

control() { # PACKAGE ROOT
	local depends
	depends=$(depends_of "$1" "$2")
	echo "Package: $1"
	echo "Source: pulc"
	echo "Version: $version"
	echo "Architecture: $arch"
	echo "Maintainer: $maintainer"
	echo "Installed-Size: $(du -sk "$2" | cut -f1)"
	# Libraries loaded when a job binds its tasks, when metrics are asked for, when a psid wants a scope; and what makes the group of operators.
	[ "$1" != pulc ] || depends+=", libhwloc15, libmicrohttpd12, libsystemd0, systemd | systemd-standalone-sysusers | systemd-sysusers"
	# The shim names itself as libpulc (SONAME): beside no libpulc ldconfig would put it in that one's place.
	[ "$1" != pulc-preload ] || depends+=", libpulc0 (= $version)"
	[ -z "$depends" ] || echo "Depends: $depends"
	echo "${relations[$1]}"
	echo "Priority: optional"
	[[ $1 = lib* || $1 = pulc-preload ]] || echo "Multi-Arch: foreign"
	echo "Description: ${about[$1]}"
	echo " PULC makes the programs of one machine talk to each other without the"
	echo " kernel in the data path. Connections are made and ended by the kernel as"
	echo " ever; their bytes travel through shared memory."
}

# The group of operators stays when the package is purged, as Debian wants it: files may be its own. The services are enabled by
# the administrator; a running one is restarted after an upgrade, which no connection notices.
scripts() { # ROOT
	cat >"$1/DEBIAN/postinst" <<-'END'
		#!/bin/sh
		set -e
		[ "$1" != configure ] || systemd-sysusers ${DPKG_ROOT:+--root="$DPKG_ROOT"} pulc.conf
		if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
			systemd-tmpfiles --create pulc.conf || true
			journalctl --update-catalog || true
			systemctl --system daemon-reload || true
			[ -z "$2" ] || systemctl try-restart psid-starter.service psid.service || true
		fi
	END
	cat >"$1/DEBIAN/prerm" <<-'END'
		#!/bin/sh
		set -e
		if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
			systemctl --no-reload disable --now psid.socket psid.service psid-starter.socket psid-starter.service || true
		fi
	END
	cat >"$1/DEBIAN/postrm" <<-'END'
		#!/bin/sh
		set -e
		[ "$1" != purge ] || rm -rf /run/pulc /var/lib/pulc
		if [ -d /run/systemd/system ]; then
			systemctl --system daemon-reload || true
		fi
	END
	chmod 755 "$1"/DEBIAN/p*
	(cd "$1" && find etc -type f -printf '/%p\n') >"$1/DEBIAN/conffiles"
}

override() { # PACKAGE ROOT TAG...: what lintian finds and is meant
	mkdir -p "$2/usr/share/lintian/overrides"
	printf "$1: %s\n" "${@:3}" >"$2/usr/share/lintian/overrides/$1"
}

special() { # PACKAGE ROOT
	case $1 in
	pulc)
		scripts "$2"
		# Where Debian keeps libpmix, says its own pkg-config file.
		override "$1" "$2" custom-library-search-path
		;;
	pulc-preload)
		# It names itself as libpulc to stand in for it where it is preloaded; nobody links with it.
		override "$1" "$2" lacks-versioned-link-to-shared-library no-shlibs
		;;
	libpulc0)
		echo "libpulc 0 libpulc0 (>= $version)" >"$2/DEBIAN/shlibs"
		;;
	esac
	[[ $1 != libpulc0 && $1 != pulc-preload ]] || echo 'activate-noawait ldconfig' >"$2/DEBIAN/triggers"
	(cd "$2" && find usr lib -type f -exec md5sum {} + 2>/dev/null) | sort -k2 >"$2/DEBIAN/md5sums"
}

build() { # PACKAGE
	local root=$work/$1
	mkdir -p "$root/DEBIAN"
	finish "$root"
	document "$1" "$root"
	control "$1" "$root" >"$work/$1.control"
	mv "$work/$1.control" "$root/DEBIAN/control"
	special "$1" "$root"
	find "$root" -type d -exec chmod 755 {} +
	dpkg-deb --root-owner-group -Zxz --build "$root" "$output/$1_${version}_$arch.deb"
}

relocate "$stage"
while read -r path; do
	package=$(package_of "$path")
	to=$work/$package/$(place_of "$path")
	mkdir -p "$(dirname "$to")"
	cp -a "$work/stage/$path" "$to"
done < <(cd "$work/stage" && find . \( -type f -o -type l \) -printf '%P\n' | sort)
mkdir -p "$output"
for package in libpulc0 libpulc-dev pulc-preload pulc; do
	build "$package"
done
