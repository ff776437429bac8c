#!/bin/bash
# make install puts a working PULC into a staging folder, make uninstall takes all of it back.
set -u
root=$TMPDIR/stage
prefix=$root/usr/local

check() {
	local name=$1 why
	shift
	if why=$("$@" 2>&1); then
		echo "ok install.$name"
	else
		echo "not ok install.$name: $(tail -n 1 <<<"${why:-failed: $*}")"
	fi
}

files_are_there() {
	local file
	for file in bin/psid bin/pulc bin/pulcctl lib/libpulc.so.0 lib/libpulc.so lib/libpulc-preload.so \
		include/pulc/stream.h lib/pkgconfig/pulc.pc lib/systemd/system/psid.service \
		lib/systemd/system/psid.socket lib/systemd/system/psid-starter.service lib/systemd/system/psid-starter.socket \
		lib/systemd/user/psid.service lib/systemd/user/psid.socket lib/systemd/catalog/pulc.catalog \
		lib/tmpfiles.d/pulc.conf lib/sysusers.d/pulc.conf libexec/pulc/keeper libexec/pulc/psid-starter \
		share/man/man1/pulc.1 share/man/man1/pulcctl.1 share/man/man3/pulc_tag_send.3 share/man/man7/pulc-preload.7 \
		share/bash-completion/completions/pulcctl share/zsh/site-functions/_pulc \
		share/fish/vendor_completions.d/pulcctl.fish; do
		[ -e "$prefix/$file" ] || { echo "missing: $file"; return 1; }
	done
	[ -e "$root/etc/pulc/psid.conf" ] || { echo "missing: psid.conf"; return 1; }
}

# The library is found beside the program, wherever the tree was moved to.
runs_from_there() {
	[ "$("$prefix/bin/pulc" --no-psid printenv LD_PRELOAD)" = "$prefix/lib/libpulc-preload.so" ]
}

# The folder of the staging tree is known: nothing outside it may be touched by uninstall.
changed_settings_are_kept() {
	local conf=$root/etc/pulc/psid.conf
	echo "# mine" >>"$conf"
	make -s install DESTDIR="$root" && grep -q '# mine' "$conf" || return 1
	make -s uninstall DESTDIR="$root" && grep -q '# mine' "$conf"
}

nothing_is_left() {
	make -s install DESTDIR="$root" && make -s uninstall DESTDIR="$root" || return 1
	[ ! -d "$root" ] || [ -z "$(find "$root" -mindepth 1)" ] || { find "$root"; return 1; }
}

# Where it is in use: folders of PULC's own go, whatever is in them by then stays, and so do folders of others.
own_folders_go() {
	local place=$TMPDIR/place items="README.md:bin/psid:644 README.md:share/doc/pulc/examples/a.c:644 README.md:share/doc/pulc/b:644
		README.md:$TMPDIR/place/etc/pulc/psid.conf:config README.md:libexec/pulc/keeper:644"
	# shellcheck disable=SC2086 # a list of items
	PREFIX=$place DESTDIR='' tools/install.sh install $items && touch "$place/libexec/pulc/other" &&
		PREFIX=$place DESTDIR='' tools/install.sh uninstall $items || return 1
	(cd "$place" && find . -mindepth 1 | sort | xargs | grep -x './bin ./etc ./libexec ./libexec/pulc ./libexec/pulc/other ./share ./share/doc') ||
		{ echo "left: $(cd "$place" && echo ./*/*)"; return 1; }
}

compiles_against_it() {
	local flags
	flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags --libs pulc) || return 1
	echo '#include <pulc/stream.h>
		int main(void) { pulc_stream_unref(0); return 0; }' >"$TMPDIR/user.c"
	# shellcheck disable=SC2086 # a list of flags
	cc -o "$TMPDIR/user" "$TMPDIR/user.c" $flags && LD_LIBRARY_PATH=$prefix/lib "$TMPDIR/user"
}

check installs make -s install DESTDIR="$root"
check files_are_there files_are_there
check runs_from_there runs_from_there
check compiles_against_it compiles_against_it
check changed_settings_are_kept changed_settings_are_kept
rm -rf "$root"
check nothing_is_left nothing_is_left
check own_folders_go own_folders_go
