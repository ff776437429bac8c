#!/bin/bash
# A job whose PMIx server hangs has no tasks yet: its end waits for nothing, and is no success.
# timeout: 120
suite=jobs.hung
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

mkdir bin libexec
cp "$bin/psid" "$bin/pulcrun" "$bin/pulcctl" bin
cp -r "$PULC_BUILD/libexec/pulc" libexec
printf '#!/bin/sh\n: >"%s/hangs"\nexec sleep 1000\n' "$PWD" >libexec/pulc/keeper-pmix
bin=$PWD/bin
"$bin/psid" --daemonize

start() { # ARGUMENT...
	rm -f hangs
	PULC_TEST_MARK=$TMPDIR/hung timeout 60 "$bin/pulcrun" --mpi pmix "$@" sleep 1000 2>err &
	runner=$!
	await test -e hangs
}

job() {
	"$bin/pulcctl" jobs --json | json 'j[0]["job"]'
}

start -n 2
began=$SECONDS
"$bin/pulcctl" kill "$(job)"
wait $runner
is killed "137 at once" "$? $([ $((SECONDS - began)) -lt 5 ] && echo at once)"
gone killed_leaves_nothing hung

start -n 2 --timeout 1
wait $runner
is time_is_up "124" $?
gone time_is_up_leaves_nothing hung

start
pid=$(pgrep -P $runner -x pulcrun)
kill -KILL "$pid"
wait $runner
gone death_of_pulcrun_leaves_nothing hung
is nothing_is_left 0 "$(await eval '[ "$("'"$bin"'/pulcctl" jobs --json | json "len(j)")" = 0 ]'; "$bin/pulcctl" jobs --json | json 'len(j)')"
