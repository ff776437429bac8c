#!/bin/bash
# Installs or removes what the rules.mk files list in INSTALL.
#
#	tools/install.sh install|uninstall SOURCE:DESTINATION:MODE...
#
# DESTINATION is relative to PREFIX unless absolute; DESTDIR goes before both. MODE is that of chmod,
# or "link": SOURCE is then the text of a symbolic link, or "config": a file that the administrator may
# have changed, which is neither overwritten nor removed then. Uninstalling removes these files, and
# those of their folders that are PULC's own.
set -eu

: "${PREFIX:=/usr/local}" "${DESTDIR:=}"
action=${1:?install or uninstall}
shift

destination_of() {
	case $1 in
	/*) echo "$DESTDIR$1" ;;
	*) echo "$DESTDIR$PREFIX/$1" ;;
	esac
}

install_one() {
	local source=$1 to=$2 mode=$3
	mkdir -p "$(dirname "$to")"
	case $mode in
	link) ln -sfn "$source" "$to" ;;
	config) [ -e "$to" ] || install -m 644 "$source" "$to" ;;
	*) install -m "$mode" "$source" "$to" ;;
	esac
}

uninstall_one() {
	local source=$1 to=$2 mode=$3 folder
	if [ "$mode" = config ] && [ -e "$to" ] && ! cmp -s "$source" "$to"; then
		echo "kept, because it was changed: $to"
		return
	fi
	rm -f "$to"
	folder=$(dirname "$to")
	while [[ ${folder#"$DESTDIR$PREFIX"}/ == */pulc/* ]] && rmdir "$folder" 2>/dev/null; do
		folder=$(dirname "$folder")
	done
}

# In a staging folder, which is nobody's, no empty folder is left either.
remove_empty_folders() {
	[ -z "$DESTDIR" ] || [ ! -d "$DESTDIR" ] || find "$DESTDIR" -mindepth 1 -depth -type d -empty -delete
}

for item in "$@"; do
	IFS=: read -r source to mode <<<"$item"
	"${action}_one" "$source" "$(destination_of "$to")" "$mode"
done
[ "$action" = install ] || remove_empty_folders
# The loader finds libraries in the usual folders through its cache.
[ -n "$DESTDIR" ] || [ "$(id -u)" != 0 ] || ldconfig
