#!/bin/bash
# Terminals: ours, with its shell, and the one that --pty gives to rank 0.
# shellcheck disable=SC2016
# timeout: 240
suite=jobs.terminal
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/jobs/common.sh
. "$here/common.sh"

run true # there is a psid from now on
python3 "$here/terminal.py" "$bin/pulcrun"

# The end of input is the end of a terminal's input: once, and also in the middle of a line.
pty() { # SCRIPT: what it says into its file; the terminal shows what it is given
	rm -f said
	timeout 20 "$bin/pulcrun" --pty sh -c "{ $1; } >said" >/dev/null
	xargs <said
}
for text in '' $'a\n' $'ab\ncd' $'abcde\r' "$(seq 20000)"; do
	is "pty_ends_after_${#text}" "${#text}" "$(printf %s "$text" | pty 'wc -c')"
done
is pty_ends_once 'a 124' "$(echo a | pty 'cat; timeout 1 cat; echo $?')"
is pty_ends_once_in_a_line 'a124' "$(printf a | pty 'cat; timeout 1 cat; echo $?')"
is pty_ends_as_it_is_told a "$({ await test -e told; echo a; } | pty 'stty eof x; touch told; cat')"
is pty_ends_when_it_has_room 200000 "$({ yes | head -n 100000; } | pty 'sleep 0.5; wc -c')"
