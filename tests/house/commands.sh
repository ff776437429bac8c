#!/bin/bash
# What every command owes its user: help and version, errors with the right exit status, and a
# manual page and completions that name the same options as the help.
set -u
bin=$PULC_BUILD/bin

is() { # NAME EXPECTED ACTUAL
	if [ "$2" = "$3" ]; then
		echo "ok commands.$1"
	else
		echo "not ok commands.$1: expected '$2', got '$3'"
	fi
}

status_of() {
	"$@" >"$TMPDIR/out" 2>"$TMPDIR/err"
	echo $?
}

options_of() {
	grep -oE -- '--[a-z][a-z-]+' | sort -u | tr '\n' ' '
}

for command in pulc pulcctl pulcrun psid; do
	is "$command.help" 0 "$(status_of "$bin/$command" --help)"
	is "$command.short_help" "$("$bin/$command" --help)" "$("$bin/$command" -h)"
	is "$command.version" "$command" "$("$bin/$command" --version | awk 'NR == 1 { print $1 }')"
	is "$command.unknown_option_is_said" "1" "$("$bin/$command" --nonsense 2>&1 >/dev/null | grep -c nonsense)"
	page=$(echo docs/man/"$command".[18])
	is "$command.page_has_all_options" "$("$bin/$command" --help | options_of)" \
		"$(sed -n 's/^\.It Fl -\([a-z-]*\).*/--\1/p' "$page" | options_of)"
	is "$command.bash_completes_all_options" "$("$bin/$command" --help | options_of)" \
		"$(grep -v '^#' tools/completions/bash/$command | options_of)"
	is "$command.zsh_completes_all_options" "$("$bin/$command" --help | options_of)" \
		"$(grep -v '^#' tools/completions/zsh/_$command | options_of)"
	is "$command.fish_completes_all_options" "$("$bin/$command" --help | options_of)" \
		"$(sed -nE "s/^complete -c $command .*-l ([a-z-]+).*/--\1/p" tools/completions/fish/$command.fish | options_of)"
done

# Each command of pulcctl's help that has no line of its own in the page, or is not completed.
commands_missing() {
	local word
	for word in $("$bin/pulcctl" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort -u) undrain; do
		grep -qE "^\.(It )?Cm .*\b$word\b" docs/man/pulcctl.1 || echo "page: $word"
		grep -qw -- "$word" <(sed -n '/words="status/,/"/p' tools/completions/bash/pulcctl) || echo "bash: $word"
		grep -qF "$word\:" tools/completions/zsh/_pulcctl || echo "zsh: $word"
		grep -q -- "-a $word " tools/completions/fish/pulcctl.fish || echo "fish: $word"
	done
}
is pulcctl.commands_are_in_page_and_completions '' "$(commands_missing | xargs)"

# Each error that a public header names and its manual page does not.
errors_missing() {
	local pair code
	for pair in pulc.h:pulc.3 tag.h:pulc_tag.3 block.h:pulc_block.3 sem.h:pulc_sem.3 job.h:pulc_spawn.3; do
		while read -r code; do
			grep -qE -- "^\.(It )?Er .*$code\b" "docs/man/${pair#*:}" || echo "${pair#*:}: $code"
		done < <(grep -oE -- '-E[A-Z]{3,}' "include/pulc/${pair%:*}" | sort -u)
	done
}
is errors_are_in_manual_pages '' "$(errors_missing | xargs)"

# Each variable of the environment that is read or set, and is in no manual page. Settings of psid.conf(5) are there by
# their names; PULC_STEPS is for tests, in builds for them.
variables_missing() {
	local settings variable
	settings=$(sed -n 's/^\.It Cm \([A-Za-z]*\).*/\1/p' docs/man/psid.conf.5 | sed -E 's/([a-z])([A-Z])/\1_\2/g; s/^/PULC_/' | tr '[:lower:]' '[:upper:]')
	grep -rhoE --include='*.[ch]' --exclude=variables.c '"PULC_[A-Z][A-Z_]*["=]' base shm hal protocols libpulc preload psid keeper tools | tr -d '"=' | sort -u |
		while read -r variable; do
			grep -q "\"$variable\"" psid/wire/variables.c || [ "$variable" = PULC_UID ] || # of the journal
				echo "list: $variable"
			[ "$variable" = PULC_STEPS ] || grep -qx "$variable" <<<"$settings" ||
				grep -qE "^\.(It )?(Pq )?(Ev|Li) .*\b$variable\b" docs/man/* || echo "$variable"
		done
}
is variables_are_in_manual_pages '' "$(variables_missing | xargs)"

is pulcctl.no_command 2 "$(status_of "$bin/pulcctl")"
is pulcctl.unknown_command 2 "$(status_of "$bin/pulcctl" nonsense)"
is pulcctl.filter_without_meaning 2 "$(status_of "$bin/pulcctl" --port 1 clients)"
# The lists that an option chooses from are those that help names.
named() { # OPTION
	"$bin/pulcctl" --help | sed -nE "s/^  --$1( [A-Z]+)? +([a-z, ]+): .*/\2/p" | tr -d ',' | tr ' ' '\n' | sort | xargs
}
served() { # OPTION VALUE
	local list
	for list in status sockets clients ports jobs queue tasks nodes areas top; do
		[ "$(PULC_SOCKET=$TMPDIR/none status_of "$bin/pulcctl" $list "--$1${2:+=$2}")" = 2 ] || echo $list
	done | sort | xargs
}
for pair in pid:3 port:3 path:rings here: peers: user:root; do
	is "pulcctl.help_says_what_${pair%:*}_is_for" "$(served "${pair%:*}" "${pair#*:}")" "$(named "${pair%:*}")"
done
is pulcctl.bad_number 2 "$(status_of "$bin/pulcctl" --pid 0 clients)"
is pulcctl.bad_path 2 "$(status_of "$bin/pulcctl" --path wire sockets)"
if "$(dirname "$0")/../another-psid"; then
	echo "skip commands.pulcctl.no_psid: a psid runs here"
else
	is pulcctl.no_psid 3 "$(XDG_RUNTIME_DIR=$TMPDIR PULC_SOCKET=$TMPDIR/none status_of "$bin/pulcctl" status)"
	is pulcctl.no_psid_says_how_to_start 1 "$(grep -c 'psid --daemonize' "$TMPDIR/err")"
fi
# A psid of another version: both are named, with what to do.
cat >"$TMPDIR/other.py" <<'E2'
import os, socket
text = b"psid 0.9 speaks protocol 9 with memory layout 9, the client 1: psid is older"
refuse = bytes([8, 8, 18, len(text)]) + text
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(os.environ["PULC_SOCKET"])
s.listen()
while True:
    c, _ = s.accept()
    if not c.recv(65536):  # who only looked whether anybody is there
        continue
    c.send(bytes([18, len(refuse)]) + refuse)
    c.shutdown(socket.SHUT_WR)
    while c.recv(65536):
        pass
E2
export PULC_SOCKET=$TMPDIR/other.sock
python3 "$TMPDIR/other.py" &
other=$!
until [ -S "$PULC_SOCKET" ]; do sleep 0.02; done
version=$("$bin/pulcctl" --version)
is other_version.pulcctl "1 pulcctl: psid at $PULC_SOCKET refused $version: psid 0.9 speaks protocol 9 with memory layout 9, the client 1: psid is older (version)" \
	"$(status_of "$bin/pulcctl" status) $(cat "$TMPDIR/err")"
is other_version.version "1 $version psid 0.9" "$(status_of "$bin/pulcctl" version) $(cat "$TMPDIR/out") $(grep -o 'psid 0[.]9' "$TMPDIR/err")"
is other_version.version_json "{\"pulcctl\":\"${version#* }\",\"psid\":null}" "$("$bin/pulcctl" --json version 2>/dev/null)"
is other_version.pulcrun "125 pulcrun: psid 0.9 speaks protocol 9 with memory layout 9, the client 1: psid is older (this is pulcrun ${version#* })" \
	"$(status_of "$bin/pulcrun" true) $(cat "$TMPDIR/err")"
is other_version.pulc "3 pulc: warning: all connections stay on the kernel: psid 0.9 speaks protocol 9 with memory layout 9, the client 1: psid is older" \
	"$(status_of "$bin/pulc" sh -c 'exit 3') $(cat "$TMPDIR/err")"
kill $other
wait $other 2>/dev/null
unset PULC_SOCKET

# A place that can be none is not passed over: the psid that is found instead would be another one.
places() { # VALUE WORDS: what each command makes of it, and whether it says so
	local c v
	for c in "pulc true" "pulcctl status" "pulcrun true" psid; do
		for v in PULC_SOCKET PULC_RUNTIME_DIR; do
			# shellcheck disable=SC2086 # a command and its arguments
			echo "${c%% *} $(status_of env "$v=$1" "$bin/"$c) $(grep -c "$v=$1.*: .*$2" "$TMPDIR/err")"
		done
	done | uniq | xargs
}
is places.relative 'pulc 125 1 pulcctl 2 1 pulcrun 125 1 psid 1 1' "$(places some/where 'expected an absolute path')"
is places.too_long 'pulc 125 1 pulcctl 2 1 pulcrun 125 1' "$(places "/$(printf '%050d/%060d' 0 0)" 'too long' | sed 's/ psid.*//')"
is places.help_is_given_all_the_same 0 "$(PULC_RUNTIME_DIR=some/where status_of "$bin/pulcctl" --help)"
is places.the_library_is_silent "" "$(PULC_RUNTIME_DIR=some/where LD_PRELOAD=$PULC_BUILD/lib/libpulc-preload.so sh -c : 2>&1)"
is pulcctl.version_without_psid 0 "$(status_of "$bin/pulcctl" --json version)"
is pulcctl.full_disk 1 "$("$bin/pulcctl" version >/dev/full 2>/dev/null; echo $?)"
is full_disk.help '1 1 pulc: 125 1 pulcrun: 125 1 psid: 1 1' "$(for c in pulcctl pulc pulcrun psid; do
	[ $c = pulcctl ] || printf '%s: ' $c
	for what in --help --version; do "$bin/$c" $what >/dev/full 2>"$TMPDIR/err"; echo $?; done | sort -u
	grep -c "^$c: cannot write to standard output: No space left" "$TMPDIR/err"
done | xargs)"
is full_disk.check_config '1' "$("$bin/psid" --check-config --config /dev/null >/dev/full 2>/dev/null; echo $?)"

# Values in the environment that the library would pass over in silence.
warns() { # VARIABLE=VALUE
	echo "$(status_of env "$1" "$bin/pulc" --no-psid true) $(cat "$TMPDIR/err")"
}
is pulc.bad_spin '0 pulc: warning: PULC_SPIN_USEC=5x: expected a number: passed over' "$(warns PULC_SPIN_USEC=5x)"
is pulc.bad_hint_after '0 pulc: warning: PULC_HINT_AFTER=-1: expected a number: passed over' "$(warns PULC_HINT_AFTER=-1)"
is pulc.disabled '0 pulc: warning: PULC_DISABLE=1: PULC has no effect' "$(warns PULC_DISABLE=1)"
is pulc.bad_log '0 pulc: warning: PULC_LOG=/no/such: No such file or directory' "$(warns PULC_LOG=/no/such)"
is pulc.good_environment '0 ' "$(PULC_SPIN_USEC=0 PULC_HINT_AFTER=4294967295 PULC_DISABLE=0 warns PULC_LOG=/dev/null)"
is pulc.library_logs_it 1 "$(PULC_HINT_AFTER=x "$bin/pulc" --no-psid --log stderr python3 -c '
import socket
a, b = socket.socket(), socket.socket()
a.bind(("127.0.0.1", 0)); a.listen(); b.connect(a.getsockname()); b.send(b"x")' 2>&1 | grep -m 1 -c 'PULC_HINT_AFTER=x: expected a number: passed over$')"
is pulcrun.bad_reservation '125 pulcrun: PULC_RESERVATION=17: expected a reservation, as 17@n1 (or unset it)' \
	"$(status_of env PULC_RESERVATION=17 "$bin/pulcrun" true) $(cat "$TMPDIR/err")"
# Names that are near to one which is read; others may be somebody's own.
misspelt() { # VARIABLE=VALUE: what each command says of it
	local c
	for c in "pulc --no-psid true" "pulcctl version" psid\ --check-config; do
		# shellcheck disable=SC2086 # a command and its arguments
		env "$1" "$bin/"$c 2>&1 >/dev/null | grep -oE "^[a-z]*: warning: ${1%%=*}: .*"
	done | xargs
}
export PULC_NO_SUCH=1 PULC_RANK=1
is misspelt.none "" "$(misspelt PULC_SPIN_USEC=1)"
is misspelt.is_said "$(for c in pulc pulcctl psid; do echo "$c: warning: PULC_RING_SIZE: unknown variable (PULC_RING_SIZES?): passed over"; done | xargs)" \
	"$(misspelt PULC_RING_SIZE=64)"
is misspelt.two_letters_the_wrong_way_round 3 "$(misspelt PULC_SOKCET=/x | grep -o '(PULC_SOCKET?)' | wc -l)"
is misspelt.nobody_means_what_tasks_are_given "psid: warning: PULC_NODES: no setting is called so" "$(misspelt PULC_NODES=4)"
is misspelt.is_no_good_setting "1 0" "$(PULC_MAX_BYTE=1G status_of "$bin/psid" --check-config --config /dev/null) $(wc -l <"$TMPDIR/out")"
is misspelt.somebody_elses "0 psid: warning: PULC_NO_SUCH: no setting is called so" \
	"$(env -u PULC_BUILD -u PULC_TEST_DIR "$bin/psid" --check-config --config /dev/null 2>&1 >/dev/null | xargs -d '\n' echo $?)"
unset PULC_NO_SUCH PULC_RANK
echo RingSize=64 >"$TMPDIR/misspelt.conf"
is misspelt.in_the_file "1 psid: error: $TMPDIR/misspelt.conf:1: unknown setting \"RingSize\" (RingSizes?)" \
	"$(status_of "$bin/psid" --check-config --config "$TMPDIR/misspelt.conf") $(cat "$TMPDIR/err")"
is few_descriptors.pulcrun '125 pulcrun: Too many open files (ulimit -n): 12 descriptors are needed, 2 are free' \
	"$( (ulimit -n 5; status_of "$bin/pulcrun" true) ) $(cat "$TMPDIR/err")"
is few_descriptors.psid '1 psid: error: the limit of descriptors is 10 (ulimit -Hn): psid needs 48 at least' \
	"$( (ulimit -n 10; status_of "$bin/psid") ) $(cat "$TMPDIR/err")"
is few_descriptors.pulc "0 pulc: psid can't be asked: Too many open files (ulimit -n) pulc: warning: no psid: all connections stay on the kernel" \
	"$( (ulimit -n 4; status_of "$bin/pulc" true) ) $(xargs -d '\n' <"$TMPDIR/err")"
is pulc.folder '126 pulc: /tmp: Is a directory' "$(status_of "$bin/pulc" --no-psid /tmp) $(cat "$TMPDIR/err")"

# Parts of an installation: what is missing is named.
part=$TMPDIR/part/bin
mkdir -p "$part" "$TMPDIR/part/run"
cp "$bin/psid" "$bin/pulcrun" "$bin/pulcctl" "$part"
export PULC_RUNTIME_DIR=$TMPDIR/part/run
is missing.keeper "125 pulcrun: the job can't be started: ../libexec/pulc/keeper is not beside psid's folder (is all of PULC installed?)" \
	"$(status_of "$part/pulcrun" true) $(cat "$TMPDIR/err")"
"$part/pulcctl" stop
is missing.keeper_is_logged 1 "$(grep -c "error: no job can be started: ../libexec/pulc/keeper is not" "$PULC_RUNTIME_DIR/psid.log")"
mkdir "$TMPDIR/part/slurm"
is missing.agent "125 pulcrun: no psids can be started in the allocation: ../libexec/pulc/agent is not beside pulcrun's folder (is all of PULC installed?)" \
	"$(SLURM_JOB_ID=1 SLURM_NNODES=1 SLURM_NODELIST=n1 SLURM_JOB_NODELIST=n1 SLURM_JOB_NUM_NODES=1 SLURM_TASKS_PER_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 status_of "$part/pulcrun" true) $(cat "$TMPDIR/err")"
rm "$part/psid"
is missing.psid "125 pulcrun: psid is neither beside this program nor in PATH (is all of PULC installed?)" \
	"$(PATH=/nonexistent status_of "$part/pulcrun" true) $(cat "$TMPDIR/err")"
export PULC_RUNTIME_DIR=$PULC_TEST_DIR/run

is pulc.no_program 125 "$(status_of "$bin/pulc")"
is pulc.program_not_found 127 "$(status_of "$bin/pulc" --no-psid no-such-program)"
is pulc.program_not_executable 126 "$(status_of "$bin/pulc" --no-psid /etc/passwd)"
is pulc.own_status 42 "$(status_of "$bin/pulc" --no-psid sh -c 'exit 42')"
is pulc.no_library 125 "$(PULC_PRELOAD=/nonexistent status_of "$bin/pulc" --no-psid true)"
is pulc.no_library_is_named 1 "$(grep -c /nonexistent "$TMPDIR/err")"
is pulc.preload_comes_first "$PULC_BUILD/lib/libpulc-preload.so:libc.so.6" \
	"$(LD_PRELOAD=libc.so.6 "$bin/pulc" --no-psid printenv LD_PRELOAD)"
is pulc.log_is_absolute "$TMPDIR/some.log" "$(cd "$TMPDIR" && "$bin/pulc" --no-psid --log some.log printenv PULC_LOG)"

printf 'int main(void) { return 0; }\n' >"$TMPDIR/static.c"
cc -static -o "$TMPDIR/static" "$TMPDIR/static.c"
is pulc.static_program_runs 0 "$(status_of "$bin/pulc" --no-psid "$TMPDIR/static")"
is pulc.static_program_is_told 1 "$(grep -c 'statically linked' "$TMPDIR/err")"
printf '#!%s\n' "$TMPDIR/static" >"$TMPDIR/script"
chmod +x "$TMPDIR/script"
is pulc.static_interpreter_runs 0 "$(status_of "$bin/pulc" --no-psid "$TMPDIR/script")"
is pulc.static_interpreter_is_told 1 "$(grep -c "static is statically linked" "$TMPDIR/err")"
