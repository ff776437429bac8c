#!/bin/bash
# Checks of the source that need no run of it.
#
#	tools/lint.sh [CHECK...]        (default: all; tools/lint.sh --list names them)
#
# Prints what each check found, and a line "ok lint.CHECK" or "not ok lint.CHECK: why". Those without
# a tool that Debian must provide are part of `make check` too (tests/house/source.sh).
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2

checks=(format columns tidy cppcheck shell man links public essays layers sizes exports across)
lines_max=600
columns_comment=100
columns_page=120
libraries=(base shm hal protocols libpulc preload psid/wire include)
folders=("${libraries[@]}" keeper psid tools tests bench)
defines=(-DPULC_VERSION='"0"' -DPULC_LIBDIR='"/lib"')

sources() {
	find "${folders[@]}" -name '*.[ch]' | sort -u
}

scripts() {
	grep -rlE -m1 '^#!.*(/bin/(ba)?sh|env bash)' "${folders[@]}" .ci --exclude='*.[ch]' | sort -u
}

lint_format() {
	local file bad=0
	while read -r file; do
		clang-format "$file" | cmp -s - "$file" || { echo "$file: clang-format -i would change it"; bad=1; }
	done < <(sources)
	return "$bad"
}

# What clang-format leaves alone: comments, and the paragraphs of pages.
# shellcheck disable=SC2016 # these are awk's
lint_columns() {
	local bad=0
	sources | xargs awk -v max="$columns_comment" '
		/^[ \t]*(\/\*|\*)/ && !/\\$/ {
			line = $0
			while (sub(/^ *\t/, "&        ", line)) sub(/\t/, "", line)
			if (length(line) > max) { print FILENAME ":" FNR ": a comment of " length(line) " columns, more than " max; bad = 1 }
		}
		END { exit bad }' || bad=1
	find . -name '*.md' -not -path './build*' | sort | xargs awk -v max="$columns_page" '
		FNR == 1 { code = 0 }
		/^ *```/ { code = !code }
		!code && !/^(\||    )/ && length($0) > max { print FILENAME ":" FNR ": " length($0) " columns, more than " max; bad = 1 }
		END { exit bad }' || bad=1
	return "$bad"
}

# One file, with the compiler flags of its folder as the Makefile has them.
tidy_one() {
	local folder=${1%%/*}
	local -a flags
	[[ $1 != psid/wire/* ]] || folder=wire
	read -r -a flags < <(sed -n "s|^$folder: ||p" build/flags)
	if [[ $1 = keeper/pmix/* ]] || grep -q "^#include <pmix" "$1"; then
		read -r -a flags < <(echo "${flags[*]} $(pkg-config --cflags-only-I pmix)")
	fi
	[[ $1 != tests/unit/preload_* ]] || flags=(-iquotepreload "${flags[@]}")
	! grep -q "^#include <mpi.h>" "$1" || read -r -a flags < <(echo "${flags[*]} $(pkg-config --cflags-only-I mpich)")
	clang-tidy --quiet "$1" -- "${flags[@]}" "${defines[@]}" 2>&1
}

lint_tidy() {
	sources | grep '\.c$' | xargs -P "$(nproc)" -n 1 tools/lint.sh --tidy | grep -E '(warning|error):' | sort -u
	test "${PIPESTATUS[3]}" != 0
}

lint_cppcheck() {
	local lists
	local -a include
	lists=$(cpp -M - <<<'#include <sys/queue.h>' | grep -o '/[^ ]*sys/queue\.h')
	read -r -a include <<<"$(tr ' ' '\n' <build/flags | sed -n 's/^-\(I\|iquote\)/-I/p' | sort -u | tr '\n' ' ')"
	sources | grep '\.c$' >build/cppcheck.files
	cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,performance,portability --inline-suppr \
		--suppress=missingIncludeSystem --suppressions-list=tools/cppcheck.suppress --max-configs=4 \
		-D__x86_64__ -D_GNU_SOURCE "${defines[@]}" "${include[@]}" --include="$lists" \
		--file-list=build/cppcheck.files --error-exitcode=1 2>&1
}

lint_shell() {
	scripts | xargs shellcheck -x &&
		find tools/completions/bash -type f -print0 | xargs -0 shellcheck -s bash
}

lint_man() {
	local page bad=0
	for page in docs/man/*.[1-8]; do
		mandoc -Tlint -W warning "$page" || bad=1
	done
	return "$bad"
}

# Pages that a document names are there.
lint_links() {
	local page link bad=0
	while IFS=: read -r page link; do
		link=${link#](}
		link=${link%%#*}
		[ -e "$(dirname "$page")/${link%)}" ] || { echo "$page: no such file: ${link%)}"; bad=1; }
	done < <(grep -oE '\]\([^)#][^):]*\)' README.md docs/*.md)
	return "$bad"
}

# Every public function stands under a comment, or directly below a function that does.
lint_public() {
	awk '
		FNR == 1 { covered = 0; depth = 0 }
		/^[ \t]*$/ { if (!inside) covered = 0 }
		/\/\*/ { inside = 1 }
		/\*\// { inside = 0; covered = 1; next }
		!inside && /^[a-z].*[ *]pulc_[a-z0-9_]+\(/ && !/typedef/ && !covered {
			print FILENAME ":" FNR ": no comment: " $0; bad = 1
		}
		END { exit bad }' include/pulc/*.h
}

lint_essays() {
	sources | grep '\.c$' | xargs awk '
		FNR == 1 && !/^\/\*/ { print FILENAME ": does not open with what it is for"; bad = 1 }
		END { exit bad }'
}

# What include paths cannot forbid. forbid WHY PATTERN PLACE...
forbid() {
	local why=$1 pattern=$2 found
	shift 2
	found=$(grep -rnE --include='*.[ch]' "$pattern" "$@" 2>/dev/null | grep -vE ':[0-9]+:[[:space:]]*(/?\*|//)')
	[ -n "$found" ] || return 0
	printf '%s\n    ^ %s\n' "$found" "$why"
	return 1
}

lint_layers() {
	local bad=0
	forbid "an include leaves its folder" '#include "(\.\./|[a-z]+/\.\.)' "${folders[@]}" || bad=1
	forbid "libraries know neither libuv nor libsystemd" '#include <(uv\.h|systemd/)' "${libraries[@]}" || bad=1
	forbid "only main exits" '(^|[^_a-z])(exit|_exit|abort|_Exit)\(' base shm hal protocols libpulc psid/wire || bad=1
	forbid "libraries are silent" '(^|[^a-z_])(printf|fprintf|puts|perror|syslog)\(' "${libraries[@]}" || bad=1
	forbid "preload uses libpulc's public headers only" '#include "(stream|ring|layout|slab|board|tcp|wire|channel|client|base)\.h"' preload || bad=1
	return "$bad"
}

lint_sizes() {
	{ sources; scripts; find bench -name '*.py'; } | xargs wc -l | sort -rn | awk -v max="$lines_max" '
		$2 != "total" && $1 > max { print $2 ": " $1 " lines, more than " max; bad = 1 }
		$2 != "total" && n++ < 3 { largest = largest " " $2 " (" $1 ")" }
		END { print "largest:" largest; exit bad }'
}

# What the library exports is what its headers declare, and nothing else.
lint_exports() {
	local exported declared
	[ -e build/lib/libpulc.so.0 ] || { echo "build/lib/libpulc.so.0 is not built (make)"; return 1; }
	exported=$(nm -D --defined-only build/lib/libpulc.so.0 | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
	declared=$(grep -ohE '^[a-z].*[ *](pulc_[a-z0-9_]+)\(' include/pulc/*.h | grep -v typedef |
		grep -oE 'pulc_[a-z0-9_]+\($' | tr -d '(' | sort -u)
	diff <(echo "$declared") <(echo "$exported") | sed -n 's/^</declared, not exported:/p; s/^>/exported, not declared:/p'
	[ "$exported" = "$declared" ]
}

# The libraries are optimised across files, if the Makefile asks for it: gcc leaves its mark on names that several files have.
lint_across() {
	local library
	make -pn all 2>/dev/null | grep -q '^LTO := .*-flto' || return 0
	for library in build/lib/libpulc.so.0 build/lib/libpulc-preload.so; do
		nm "$library" | grep '\.lto_priv' >/dev/null || { echo "$library: linked file by file"; return 1; }
	done
}

run_check() {
	case $1 in
	format) lint_format ;;
	columns) lint_columns ;;
	tidy) lint_tidy ;;
	cppcheck) lint_cppcheck ;;
	shell) lint_shell ;;
	man) lint_man ;;
	links) lint_links ;;
	public) lint_public ;;
	essays) lint_essays ;;
	layers) lint_layers ;;
	sizes) lint_sizes ;;
	exports) lint_exports ;;
	across) lint_across ;;
	*) echo "no such check; there are: ${checks[*]}" && false ;;
	esac
}

case ${1:-} in
--list)
	echo "${checks[*]}"
	exit
	;;
--tidy)
	tidy_one "$2"
	exit
	;;
esac
[ $# -gt 0 ] || set -- "${checks[@]}"
make --no-print-directory -s build/flags || exit 2

failed=0
for check in "$@"; do
	if found=$(run_check "$check"); then
		verdict="ok lint.$check"
	else
		verdict="not ok lint.$check: $(wc -l <<<"$found") lines of findings"
		failed=1
	fi
	[ -z "$found" ] || printf '    %s\n' "${found//$'\n'/$'\n'    }"
	echo "$verdict"
done
exit $failed
