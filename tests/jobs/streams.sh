#!/bin/bash
# Standard streams: complete, in order, whole lines, labels, files, input, slow readers.
# shellcheck disable=SC2016
# timeout: 300
suite=jobs.streams
# shellcheck source=tests/jobs/common.sh
. "$(dirname "$0")/common.sh"

lines='import os,sys
r=os.environ["PULC_RANK"]
for i in range(int(sys.argv[1])): print(f"{r} {i} " + "x" * (i % 97), flush=(i % 3 == 0))'

# Each rank complete and in order, no line torn: prints the number of lines, or the first wrong one.
check_lines='import sys
seen, n = {}, 0
for line in sys.stdin.buffer:
    try:
        r, i, x = line.rstrip(b"\n").split(b" ")
        ok = int(i) == seen.get(r, 0) and x == b"x" * (int(i) % 97)
    except ValueError:
        ok = False
    if not ok:
        print("wrong:", line[:80]); break
    seen[r] = int(i) + 1; n += 1
else:
    print(n)'

is plain 100000 "$(run -n 4 --oversubscribe python3 -c "$lines" 25000 | python3 -c "$check_lines")"
is labelled 40000 "$(run -n 4 --oversubscribe --label python3 -c "$lines" 10000 | sed 's/^\[[0-3]\] //' | python3 -c "$check_lines")"
is tagged '[job,0]<stderr>e
[job,0]<stdout>o' "$(run --tag-output sh -c 'echo o; echo e >&2' 2>&1 | sed 's/^\[[^,]*/[job/' | sort)"
is label_of_a_line_without_end '[0] a
[1] a' "$(run -n 2 --label printf a | sort)"
is streams_stay_apart 'out
err' "$(run sh -c 'echo out; echo err >&2' 2>err; cat err)"
is bytes_pass_unchanged "$(head -c 3000000 /dev/zero | tr '\0' '\377' | md5sum)" "$(run sh -c 'head -c 3000000 /dev/zero | tr "\0" "\377"' | md5sum)"
is long_lines_stay_whole '2 ok' "$(run -n 2 python3 -c 'import os; print(os.environ["PULC_RANK"] * 1000000)' |
	python3 -c 'import sys; l = sys.stdin.read().split("\n"); print(len(l) - 1, "ok" if all(len(x) == 1000000 and len(set(x)) == 1 for x in l[:-1]) else "torn")')"
is everything_is_drained 20000000 "$(run -n 2 sh -c 'head -c 10000000 /dev/zero' | wc -c)"
is files '0:o0 1:o1' "$(run -n 2 --output 'd/{rank}' sh -c 'echo o$PULC_RANK'; echo "0:$(cat d/0) 1:$(cat d/1)")"
is files_for_each_stream 'o1 e1' "$(run -n 2 --output 'e/{rank}.{stream}' sh -c 'echo o$PULC_RANK; echo e$PULC_RANK >&2'; echo "$(cat e/1.stdout) $(cat e/1.stderr)")"
is one_file_for_all '8 o0 o1 o2 o3' "$(run -n 4 --oversubscribe --output all sh -c 'echo o$PULC_RANK; printf e$PULC_RANK >&2; echo >&2'; wc -l <all) $(sort all | grep o | xargs)"
is one_file_keeps_lines 100000 "$(run -n 4 --oversubscribe --output one python3 -c "$lines" 25000; python3 -c "$check_lines" <one)"

# A FIFO: what has ended is closed, so that its reader sees the end; one that nobody reads holds nobody up.
mkfifo fifo.0 nobody
cat fifo.0 >fifo.read &
reader=$!
timeout 20 "$bin/pulcrun" -n 2 --output 'fifo.{rank}' sh -c '[ $PULC_RANK = 0 ] && seq 100000 || until [ -e fifo.end ]; do sleep 0.05; done' &
runner=$!
timeout 10 tail --pid=$reader -f /dev/null
is fifo_is_closed "gone 100000" "$(kill -0 $reader 2>/dev/null && echo there || echo gone) $(wc -l <fifo.read)"
touch fifo.end
wait $runner
is fifo_status 0 $?
# Of two pulcruns with one file the second empties it, and neither overwrites the other.
await_file() { # FILE: as a task does
	echo "until [ -e $1 ]; do sleep 0.05; done"
}
run --output shared sh -c "echo a; $(await_file shared.go); echo last" &
await grep -q a shared
run --output shared sh -c "echo bbbbbbbb; touch shared.b; $(await_file shared.go)" &
await grep -q b shared
touch shared.go
wait
is file_of_two_pulcruns 'bbbbbbbb last' "$(xargs <shared)"
is input_that_cannot_be_read 'pulcrun: standard input: Is a directory
status 0' "$(said cat </)"

# The reader of a FIFO may come late, or when the job is over. Until then the tasks of much output wait; who waits can be told.
run --output nobody sh -c 'echo x; touch said; until [ -e nobody.read ]; do sleep 0.05; done; seq 3' &
runner=$!
await test -e said
(cat nobody >nobody.read.new; mv nobody.read.new nobody.got) &
reader=$!
touch nobody.read
wait $runner
is fifo_with_a_late_reader "0 x 1 2 3" "$? $(wait $reader; await test -e nobody.got; xargs <nobody.got)"
run --output nobody sh -c 'touch said.much; exec seq 1000000' &
runner=$!
await test -e said.much
is fifo_with_a_late_reader_of_much 1000000 "$(wc -l <nobody)"
wait $runner
is fifo_with_a_late_reader_of_much_status 0 $?
mkfifo two.0 two.1
run -n 2 --oversubscribe --output 'two.{rank}' sh -c '[ $PULC_RANK = 0 ] || echo x; touch two.said.$PULC_RANK' &
runner=$!
await test -e two.said.0 -a -e two.said.1
await are_jobs 0
is fifo_after_the_end "0 1 x" "$(wc -c <two.0) $(tee two.got <two.1 | wc -l) $(cat two.got)"
wait $runner
is fifo_after_the_end_status 0 $?
for signal in INT HUP; do
	run --output nobody sh -c "echo x; touch said.$signal" 2>err &
	runner=$!
	await test -e said.$signal
	await are_jobs 0
	kill -$signal "$(pgrep -P $runner)"
	wait $runner
	status=$?
	is fifo_without_reader.$signal "$((128 + $(kill -l $signal))) pulcrun: nobody: nobody reads it" "$status $(cat err)"
done
is fifo_without_reader.timeout "124 pulcrun: time is up: nobody takes the output of the job pulcrun: nobody: nobody reads it" "$(timeout 10 "$bin/pulcrun" --timeout 0.5 --output nobody echo x 2>err; echo "$? $(xargs <err)")"
is device 0 "$(status_of -n 2 --output /dev/null seq 1000)"
is full_disk_is_told 125 "$(run --output /dev/full sh -c 'echo x' >/dev/null 2>&1; echo $?)"

# More files than a program may have open: pulcrun may have more, its tasks may not, and what has ended is closed.
is many_files '0 100 of 64' "$(ulimit -S -n 64; run -n 100 --oversubscribe --output 'many/{rank}' sh -c ': >many.$PULC_RANK; until [ -e many.99 ]; do sleep 0.1; done; ulimit -S -n'
	echo "$? $(cat many/* | sort | uniq -c | awk '{ print $1, "of", $2 }')")"
few_files() { # NAME SCRIPT: whose tasks wait until pulcrun has been limited to 40 files
	timeout 60 "$bin/pulcrun" -n 60 --oversubscribe --output "$1/{rank}" sh -c "until [ -e $1.go ]; do sleep 0.05; done; $2" 2>"$1.err" &
	await are_tasks 60
	prlimit --nofile=40:40 --pid "$(pgrep -P $! -x pulcrun)"
	touch "$1.go"
	wait $!
}
is files_are_closed '0 60' "$(few_files closed 'until [ $PULC_RANK = 0 ] || [ -s closed/$((PULC_RANK - 1)) ]; do sleep 0.02; done; echo x'; echo "$? $(cat closed/* | wc -l)")"
is too_many_files_are_told '125 8 1' "$(few_files open 'echo x; until [ -s open.err ]; do sleep 0.05; done'; echo "$? $(grep -c 'Too many open files' open.err) $(grep -c 'further files' open.err)")"

# A disk that is full in the middle of rank 1's file, and one that all ranks share. Both are this script's alone.
if unshare -m mount -t tmpfs -o size=64k none "$TMPDIR" 2>/dev/null; then
	lines_of() { run -n 3 --oversubscribe --output "$1" sh -c 'seq $((100000 + PULC_RANK)) 1 $((150000 + PULC_RANK))' 2>&1; }
	export -f run lines_of
	export bin
	mkdir -p disk/1 disk/all
	unshare -m bash -c 'mount -t tmpfs -o size=64k none disk/1 && lines_of "disk/{rank}/out"; echo status $?; cp disk/1/out rest
		mount -t tmpfs -o size=64k none disk/all && lines_of "disk/all/{rank}"; echo status $?' >full
	is full_disk_names_the_file 'pulcrun: disk/1/out: No space left on device status 125' "$(head -n 2 full | xargs)"
	is full_disk_keeps_the_others 'whole whole' "$(for i in 0 2; do seq $((100000 + i)) $((150000 + i)) | cmp -s - disk/$i/out && echo whole; done | xargs)"
	is full_disk_keeps_what_went_there 'beginning 65536' "$(seq 100001 150001 | cmp -s -n 65536 - rest && echo beginning) $(stat -c %s rest)"
	is full_disk_names_all_files '0 1 2 status 125' "$(tail -n +3 full | sed -n 's/^pulcrun: disk.all.\([0-2]\): No space left on device$/\1/p' | sort | xargs) $(tail -n 1 full)"
else
	echo "skip jobs.full_disk: no mount namespace or tmpfs here"
fi

is input_goes_to_rank_0 '[0] a
[0] b' "$(printf 'a\nb\n' | run -n 2 --label cat)"
is input_to_a_rank '[1] a' "$(echo a | run -n 2 --stdin 1 --label cat)"
is input_to_all '[0] a
[1] a' "$(echo a | run -n 2 --stdin all --label cat | sort)"
is no_input '' "$(echo a | run --stdin none cat)"
is much_input "$(seq 400000 | md5sum)" "$(seq 400000 | run cat | md5sum)"
is much_input_to_all "800000" "$(seq 400000 | run -n 2 --stdin all cat | wc -l)"
is input_of_a_file "$(md5sum <"$bin/psid")" "$(run md5sum <"$bin/psid")"
is input_nobody_reads 0 "$(yes | status_of true)"
is input_that_never_ends_is_no_obstacle 0 "$({ sleep 1000 & echo $! >sleeper; } | status_of true)"
kill "$(cat sleeper)"
is closed_streams_are_no_obstacle 0 "$(run true <&- >&- 2>&-; echo $?)"
is output_into_a_closed_stream '125 pulcrun: cannot write output: Bad file descriptor' "$(run sh -c 'echo x' 2>err >&-; echo "$? $(cat err)")"
is errors_into_a_closed_stream 0 "$(run sh -c 'echo x >&2' 2>&-; echo $?)"
is folder_is_no_program 'pulcrun: /tmp: Is a directory
status 126' "$(said /tmp)"
is our_input_stays_blocking ok "$(run cat <<<x >/dev/null; python3 -c 'import os; print("ok" if os.get_blocking(0) else "not")' </dev/null)"

# A reader that takes nothing stops the tasks and fills no memory.
mkfifo slow
exec {hold}<>slow
run -n 2 sh -c 'yes $PULC_RANK' >slow &
runner=$!
sleep 1.5
keeper=$(keeper_pid)
is slow_reader_costs_no_memory yes "$(awk '/VmHWM/ { print $2 < 60000 ? "yes" : $2 }' "/proc/$keeper/status")"
is slow_reader_costs_pulcrun_no_memory yes "$(awk '/VmHWM/ { print $2 < 60000 ? "yes" : $2 }' "/proc/$(pgrep -P $runner)/status")"
kill -TERM "$(pgrep -P $runner)"
cat <slow >/dev/null &
reader=$!
wait $runner
is signal_arrives_past_a_slow_reader 143 $?
kill $reader
exec {hold}>&-

# A reader that never comes back can be given up.
mkfifo stuck
exec {hold}<>stuck
run sh -c 'head -c 300000 /dev/zero; touch ended' >stuck &
runner=$!
await test -e ended
sleep 0.3
kill -INT "$(pgrep -P $runner)"
wait $runner
is interrupt_gives_up_what_nobody_reads 130 $?
exec {hold}>&-

# A grandchild that holds the streams does not keep the job alive.
is grandchild_with_the_pipe 'x
status 0' "$(said sh -c 'sleep 100 & echo x')"
is terminal 'yes
status 0' "$(script -qec "$bin/pulcrun --pty sh -c 'test -t 0 && test -t 1 && echo yes'; echo status \$?" /dev/null | tr -d '\r\0' | sed 's/\^[@D]//g')"

# When nobody can get what tasks say the job ends, all of it, and pulcrun as by SIGPIPE; errors of pulcrun are not said.
is reader_that_leaves 'y
141' "$(run yes 2>left.err | head -n 1; echo "${PIPESTATUS[0]}")"
is reader_that_leaves_hears_nothing '' "$(cat left.err)"
is reader_that_leaves_many '[0] y
141' "$(run -n 4 --oversubscribe --keep-going --label sh -c '[ $PULC_RANK = 0 ] || exec sleep 1000; yes' | head -n 1; echo "${PIPESTATUS[0]}")"
is reader_of_errors_that_leaves 'y
141' "$({ run sh -c 'yes >&2' 2>&1 >&3 | head -n 1; echo "${PIPESTATUS[0]}"; } 3>/dev/null)"
mkfifo left
exec {hold}<>left
exec {nobody}>left {hold}>&-
is reader_that_never_was 141 "$(PULC_TEST_MARK=$TMPDIR/left run -n 2 --oversubscribe sh -c 'setsid sleep 1000 & echo x; wait' 1>&$nobody; echo $?)"
gone reader_that_never_was_ends_all left
is reader_of_nothing_may_leave 0 "$(run true 1>&$nobody 2>&$nobody; echo $?)"
is files_need_no_reader '0 2000' "$(run -n 2 --oversubscribe --output 'left.{rank}' seq 1000 1>&$nobody 2>&$nobody; echo "$? $(cat left.0 left.1 | wc -l)")"
is first_failure_counts_without_reader 3 "$(run -n 2 --oversubscribe --keep-going sh -c 'if [ $PULC_RANK = 0 ]; then echo $$ >first.new; mv first.new first; exit 3; fi
	until [ -e first ]; do sleep 0.01; done; while kill -0 $(cat first); do sleep 0.01; done; echo x' 1>&$nobody 2>/dev/null; echo $?)"
exec {nobody}>&-
