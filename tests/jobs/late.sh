#!/bin/bash
# What happens to a job whose keeper has not called yet.
# timeout: 120
suite=jobs.late
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

# A psid whose first keeper begins when the file `go` is there.
mkdir bin libexec
cp "$bin/psid" "$bin/pulcrun" "$bin/pulcctl" bin
cp -r "$PULC_BUILD/libexec/pulc" libexec
mv libexec/pulc/keeper libexec/pulc/real
cat >libexec/pulc/keeper <<E2
#!/bin/sh
until [ -e "$PWD/go" ]; do sleep 0.02; done
exec "$PWD/libexec/pulc/real" "\$@"
E2
chmod +x libexec/pulc/keeper
bin=$PWD/bin

start() { # COMMAND...: a job whose keeper is late, $job its name
	rm -f go
	"$bin/psid" --daemonize
	timeout 60 "$bin/pulcrun" "$@" >out 2>err &
	runner=$!
	await are_jobs 1
	job=$("$bin/pulcctl" jobs --json | json 'j[0]["job"]')
}

send() { # SIGNAL...
	for signal in "$@"; do "$bin/pulcctl" kill --signal "$signal" "$job"; done
}

finish() { # NAME STATUS
	touch go
	wait $runner
	is "$1" "$2" $?
	"$bin/pulcctl" stop >/dev/null
}

start sleep 1000
send USR1 CONT WINCH
finish no_signal_is_lost 138

start sleep 1000
send STOP CONT TERM
finish they_come_in_order 143

# As the kernel's: one that waits is there once, however often it is sent.
start sleep 1000
# shellcheck disable=SC2046 # a list of signals
send $(printf 'URG %.0s' {1..200}) TERM
finish many_of_one_number 143

start sleep 1000
send URG
"$bin/pulcctl" kill "$job"
finish the_end_is_told_alone 137
