#!/bin/bash
# Ports, tags, blocks and a protocol between nodes: the same program over memory and over TCP, by plain calls and by io_uring, processes that look
# for each other at once, what is not there, peers that are killed, psids that end, a node that is cut off while a long message is on its way, and
# who tries to get in between.
# timeout: 300
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
lab_check cluster.ports
lab_up 2
far=$PULC_BUILD/tests/native/far
for i in 1 2; do lab_start $i; done
comes ports.nodes_are_there lab_all_alive 2 1 2

# One process of the lab's, with its own number: no shell in between.
way=plain preload=
far_on() { # I ARGUMENT...
	local i=$1
	shift
	exec ip netns exec "$lab_id-$i" env PULC_RUNTIME_DIR="$lab/$i" XDG_RUNTIME_DIR="$lab/$i" PULC_TCP="$way" LD_PRELOAD="$preload" timeout -k 1 120 "$far" "$@"
}
column() { # I NAME COLUMN: of pulcctl ports
	lab_ctl "$1" --json ports | python3 -c 'import json, sys
print(*[p[sys.argv[2]] for p in json.load(sys.stdin) if p["name"] == sys.argv[1]])' "$2" "$3" 2>/dev/null
}
has() { # I NAME COLUMN VALUE
	[ "$(column "$1" "$2" "$3")" = "$4" ]
}
many() { # BYTES: of 2,000 frames or more
	[ "$1" -ge 32000 ] && echo many || echo "$1"
}
said() { # FILE TEXT
	grep -qxF -- "$2" "$1"
}

# The same program within a node and between two.
(far_on 1 serve) >"$lab/serve.shm" &
server=$!
(far_on 1 play) >"$lab/shm"
is ports.over_memory 0 $?
wait "$server"
is ports.server_ends 0 $?
for direction in "2 1 plain plain" "1 2 plain plain" "2 1 io_uring io_uring" "1 2 io_uring plain" "1 2 plain io_uring"; do
	# shellcheck disable=SC2086 # two numbers and two ways
	set -- $direction
	name=$2_to_$1_${4}_to_$3
	(way=$3 far_on "$1" serve) >"$lab/serve.tcp" &
	server=$!
	(way=$4 far_on "$2" play "n$1") >"$lab/tcp"
	is "ports.over_tcp_$name" 0 $?
	wait "$server"
	is "ports.server_ends_$name" 0 $?
	is "ports.as_over_memory_$name" "$(cat "$lab/shm")" "$(cat "$lab/tcp")"
done

# Both at once: they are joined once. Each side's bytes move its own way. One is under the shim, which would not let it have a ring if it took that for the
# program's: there is no liburing in the program.
left=([1]=plain plain io_uring io_uring) right=([1]=plain plain plain io_uring)
shim=([1]="" "" "" "$PULC_BUILD/lib/libpulc-preload.so")
# Where the kernel allows no ring, plain calls are made.
ring="tcp (io_uring)"
"$PULC_BUILD/tests/unit/hal_tcp_kept" rings | grep -q '^ok' || ring=tcp
path_of() { # WAY NODE
	[ "$1" = plain ] && echo "tcp $2" || echo "$ring $2"
}
for i in 1 2 3 4; do
	(way=${left[i]} preload=${shim[i]} far_on 1 cross "left$i" "right$i@n2") >"$lab/left$i" &
	crossing[2 * i]=$!
	(way=${right[i]} far_on 2 cross "right$i" "left$i@n1") >"$lab/right$i" &
	crossing[2 * i + 1]=$!
done
for i in 1 2 3 4; do
	comes "ports.crossing_left_$i" said "$lab/left$i" "2000 each way"
	comes "ports.crossing_right_$i" said "$lab/right$i" "2000 each way"
	is "ports.joined_once_$i" "1 1" "$(column 1 "left$i" n_links) $(column 2 "right$i" n_links)"
	is "ports.path_$i" "$(path_of "${left[i]}" n2), $(path_of "${right[i]}" n1)" "$(column 1 "left$i" path), $(column 2 "right$i" path)"
	is "ports.bytes_$i" "many many 0" "$(many "$(column 1 "left$i" size_tcp_sent)") $(many "$(column 1 "left$i" size_tcp_received)") $(column 1 "left$i" size_unsent)"
	is "ports.peer_$i" "['right$i', '$(path_of "${left[i]}" n2)', True, True, True]" "$(lab_ctl 1 --json ports --peers | python3 -c 'import json, sys
i = sys.argv[1]
for p in json.load(sys.stdin):
    if p["name"] == "left" + i: print(["right" + i, p["path"] + " " + p["peer_node"], p["sends"] and p["receives"], p["size_sent"] > 32000, p["size_credit"] > 0])' "$i")"
done
kill "${crossing[@]}"
wait "${crossing[@]}"

# A port that a parent and its child pass to each other, within streams of messages from its own node and from the other one.
pass=$PULC_BUILD/tests/native/pass
pass_on() { # I ARGUMENT...
	local far=$pass
	far_on "$@"
}
(pass_on 1 own 3) >"$lab/own" &
owner=$!
feeders=()
for i in 1 2 2; do
	(pass_on "$i" feed "${#feeders[@]}" passed@n1) >"$lab/feed${#feeders[@]}" &
	feeders+=($!)
done
for i in 0 1 2; do
	wait "${feeders[i]}"
	is "ports.feeder_$i" "400 sent, all received" "$(cat "$lab/feed$i")"
done
wait "$owner"
is ports.passed_within_streams "child
parent" "$(cat "$lab/own")"

# Many processes of the other node, and some of the own one, towards one that waits, looks, or has a loop of its own; some are silent for as long as others ask.
crowd_on() { # I ARGUMENT...
	local far=$PULC_BUILD/tests/native/crowd
	far_on "$@"
}
for how in "wait plain" "look plain" "loop plain" "wait io_uring" "loop io_uring"; do
	name=${how/ /_by_}
	(way=${how#* } crowd_on 1 gather crowd 10 "${how% *}") >"$lab/gathered" &
	gatherer=$!
	crowd=()
	for i in 2 2 2 2 2 2 2 2 1 1; do
		(crowd_on "$i" join crowd n1) >"$lab/crowd${#crowd[@]}" &
		crowd+=($!)
	done
	wait "$gatherer"
	is "ports.crowd_is_gathered_$name" "0: 10 are done" "$?: $(cat "$lab/gathered")"
	for i in "${!crowd[@]}"; do
		wait "${crowd[i]}"
		is "ports.crowd_${name}_$i" "0: 150 bursts" "$?: $(cat "$lab/crowd$i")"
	done
done

# What is not there.
(far_on 2 hold held) >"$lab/held" &
holder=$!
comes ports.holder_begins has 2 held n_links 0
is ports.absent "name: No such file or directory
node: No route to host
port: Connection refused
number: No route to host
names: 1 1 1" "$( (far_on 1 absent n2) )"

# A peer that is killed.
(far_on 1 lose held@n2) >"$lab/lost" &
loser=$!
comes ports.loser_has_sent said "$lab/lost" sent
comes ports.they_are_joined has 2 held n_links 1
kill -KILL "$(column 2 held pid)"
wait "$loser" "$holder" 2>/dev/null
is ports.the_killed_are_missed "sent
Connection reset by peer" "$(cat "$lab/lost")"
comes ports.and_forgotten has 2 held n_links ""

# A node that is cut off: its link ends, and there is a new one when it is back.
(far_on 2 serve) >"$lab/serve" &
server=$!
mkfifo "$lab/questions"
(far_on 1 ask n2) <"$lab/questions" >"$lab/answers" &
asker=$!
exec 3>"$lab/questions"
comes ports.asker_is_ready said "$lab/answers" ready
echo first >&3
comes ports.asker_is_answered said "$lab/answers" first
echo long >&3
comes ports.asker_is_answered_at_length said "$lab/answers" long
again() {
	echo "$1" >&3
	sleep 0.1
	said "$lab/answers" "$1"
}
# Their connection is lost, and nothing else: one end is reset, the other one hears it from its psid. They are joined anew, whichever it was.
link_of() { # I [PROGRAM]: the ports of the one connection that such a process of this node has
	ip netns exec "$lab_id-$1" ss -Htnp state established | awk -v program="\"${2:-far}\"" 'index($0, program) { sub(/.*:/, "", $3); sub(/.*:/, "", $4); print $3, $4 }'
}
reset_end() { # I OWN OTHER
	lab_node "$1" nft -f - <<-RULES
		table inet lost {
			chain out {
				type filter hook output priority 0;
				tcp sport $2 tcp dport $3 reject with tcp reset;
			}
			chain in {
				type filter hook input priority 0;
				tcp sport $3 tcp dport $2 drop;
			}
		}
	RULES
}
n_resets() {
	grep -cxF "Connection reset by peer" "$lab/answers"
}
missed() {
	[ "$(n_resets)" -gt "$1" ]
}
for i in 1 2 2 1; do
	# shellcheck disable=SC2046 # two numbers
	set -- $(link_of $i)
	is "ports.one_connection_$i" 2 $#
	before=$(n_resets)
	reset_end $i "$1" "$2"
	echo lost >&3
	comes "ports.a_lost_connection_is_missed_$i" missed "$before"
	comes "ports.they_are_joined_anew_$i" again "anew $i $1"
	lab_node $i nft delete table inet lost
done
# More than its credit: a part of it is on its way, and the rest waits for an answer.
before=$(n_resets)
lab_cut 2
echo long >&3
comes ports.the_cut_off_are_missed missed "$before"
lab_join 2
comes ports.they_are_back lab_all_alive 2 1 2
comes ports.they_answer_again again third

# What was sent before a port was closed is on its way for longer than psid's word of that: not a packet of the two's connection arrives meanwhile.
late_is_over() { # WAY
	local listener speaker
	(far=$PULC_BUILD/tests/native/last way=$1 far_on 1 hear "late_$1") >"$lab/heard" &
	listener=$!
	mkfifo "$lab/speak_$1"
	(far=$PULC_BUILD/tests/native/last way=$1 far_on 2 say "late_$1@n1") <"$lab/speak_$1" >"$lab/spoken" &
	speaker=$!
	exec 5>"$lab/speak_$1"
	comes "ports.first_is_heard_$1" said "$lab/heard" first
	# shellcheck disable=SC2046 # two numbers
	set -- "$1" $(link_of 2 last)
	lab_node 1 nft -f - <<-RULES
		table inet lost {
			chain in {
				type filter hook input priority 0;
				tcp sport $2 tcp dport $3 drop;
			}
		}
	RULES
	echo last >&5
	comes "ports.a_port_is_closed_$1" said "$lab/spoken" closed
	sleep 0.3
	is "ports.nothing_is_heard_meanwhile_$1" first "$(cat "$lab/heard")"
	lab_node 1 nft delete table inet lost
	wait "$listener"
	is "ports.listener_ends_$1" 0 $?
	is "ports.last_is_heard_before_the_end_$1" "$(printf 'first\nlast\nclosed')" "$(cat "$lab/heard")"
	exec 5>&-
	wait "$speaker"
}
for way in plain io_uring; do late_is_over $way; done
way=plain

# Links need no psid.
for i in 1 2; do lab_kill $i; done
echo fourth >&3
comes ports.links_outlive_psids said "$lab/answers" fourth
exec 3>&-
wait "$asker"
is ports.asker_ends 0 $?
kill "$server"
wait "$server"

# With new ones all begins anew.
for i in 1 2; do lab_start $i; done
comes ports.psids_are_back lab_all_alive 2 1 2
(far_on 2 serve) >"$lab/serve" &
server=$!
(far_on 1 play n2) >"$lab/tcp"
is ports.with_new_psids 0 $?
wait "$server"
