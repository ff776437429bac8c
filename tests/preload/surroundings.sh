#!/bin/bash
# A part of the catalogue in company: other memory allocators, other libraries that stand in libc's place before and behind
# the shim, as many descriptors as may be, rings that soon cannot grow any more.
# timeout: 300
set -u
cd "$(dirname "$0")" || exit 2
build=${PULC_BUILD:-$PWD/../../build}
shim=$build/lib/libpulc-preload.so
chain=$build/tests/preload/chain.so
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# The cases under a name of their own.
play() { # NAME LIBRARIES CASE...
	local name=$1 libraries=$2
	shift 2
	if ./run-catalogue --jobs 2 --variants rings --env LD_PRELOAD="$libraries" "$@" >"$work/out" 2>&1 &&
		! grep -qv '^ok ' "$work/out"; then
		echo "ok surroundings_$name"
	else
		grep -qE '^(not ok|skip)' "$work/out" || tail -n 5 "$work/out"
		grep -v '^ok ' "$work/out" | sed "s/^not ok /not ok surroundings_${name}_/; s/^skip /skip surroundings_${name}_/"
	fi
}

library() { # NAME
	ldconfig -p | sed -n "s/.*[[:space:]]$1 .*=> //p" | head -n 1
}

# A program that links nothing but libc: what it lacks is looked up in vain, while the allocator begins.
starts() { # NAME LIBRARIES
	if [ "$(timeout -k 5 60 env LD_PRELOAD="$2" PULC_RUNTIME_DIR="$work/none" bash -c 'echo started' 2>&1)" = started ]; then
		echo "ok surroundings_$1_starts"
	else
		echo "not ok surroundings_$1_starts: it does not"
	fi
}

# With a memory allocator, which has threads, forks and descriptors of its own to care for, and which the shim's first calls meet.
with() { # NAME LIBRARY
	local path
	path=$(library "$2")
	if [ -z "$path" ]; then
		echo "skip surroundings_$1: no $2 here"
		return
	fi
	starts "$1_before" "$path:$shim"
	starts "$1_behind" "$shim:$path"
	play "$1_before" "$path:$shim" 'threads_*' 'fork_child_*' 'exec_echo_*' 'stdio_fdopen_*' 'stream_hello'
	play "$1_behind" "$shim:$path" 'threads_*' 'fork_chain' 'exec_echo_*' 'confined_*' 'stream_hello'
}

chain_is_called() {
	timeout -k 5 60 env CHAIN_REPORT=1 LD_PRELOAD="$1" PULC_RUNTIME_DIR="$work/none" bash -c 'read -r line' </dev/null 2>&1 |
		grep -q '^chain: called'
}

if chain_is_called "$chain:$shim" && chain_is_called "$shim:$chain"; then
	echo "ok surroundings_chain_is_called"
else
	echo "not ok surroundings_chain_is_called: it is not in the chain"
fi
with jemalloc libjemalloc.so.2
with tcmalloc libtcmalloc_minimal.so.4
play chain_before "$chain:$shim" 'stream_*' 'epoll_level_*' 'select_*' 'vectors_*' 'inside_*'
play chain_behind "$shim:$chain" 'stream_*' 'epoll_level_*' 'select_*' 'vectors_*' 'inside_*'
(ulimit -n "$(ulimit -Hn)" && play many_descriptors "$shim" 'users_*' 'stream_hello' 'epoll_level_fresh' 'fork_child_*')
play tiny_rings "$shim" --tiny-rings 'exec_*' 'process_passed_*' 'stream_hello'
