#!/bin/bash
# What the programs of one node move is known at another one: how much, that it is nothing of the other's own, and when it is over.
# timeout: 300
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
lab_check traffic
lab_up 2
for i in 1 2; do lab_start $i; done
comes traffic.nodes_are_there lab_all_alive 2 1 2

# Two processes, 32 KiB a hundred times a second at most, until the one that reads is killed. It answers: both sleep over
# the connection, so both notice at once when psid is gone.
mover='
import os, socket, time
s = socket.create_server(("127.0.0.1", 0))
if os.fork():
    c = s.accept()[0]
    while c.recv(1 << 15, socket.MSG_WAITALL):
        c.sendall(b"x")
else:
    c = socket.create_connection(s.getsockname())
    try:
        while c.sendall(bytes(1 << 15)) is None and c.recv(1):
            time.sleep(0.01)
    except OSError:
        pass
'

# Of all nodes and of the cluster, as node I knows them; a Python expression about n1, n2 and total.
true_at() { # I EXPRESSION
	lab_ctl "$1" --json top | python3 -c 'import json, sys
j = json.load(sys.stdin)
n1, n2 = (next(n for n in j["nodes"] if n["name"] == name) for name in ("n1", "n2"))
total = j["bytes_per_second"]
sys.exit(not eval(sys.argv[1]))' "$2"
}
moves="n1['bytes_per_second'] > 0 and not n1['stale'] and n2['bytes_per_second'] == 0 and total == n1['bytes_per_second']"
nothing="n1['bytes_per_second'] == n2['bytes_per_second'] == total == 0"
in_picture() { # I PATTERN of the cluster's line
	lab_ctl "$1" top | grep -qE "^lab: 2 of 2 nodes, 0 tasks on [0-9]+ cores, load [0-9.]+, $2/s\$"
}
column() { # of n1, as n2 prints it
	lab_ctl 2 nodes --no-headers n1 | awk '{ print $6 }' | grep -qxE "$1"
}

comes traffic.none_at_first true_at 2 "$nothing"
comes traffic.none_in_the_picture in_picture 2 0
(exec ip netns exec "$lab_id-1" env PULC_RUNTIME_DIR="$lab/1" XDG_RUNTIME_DIR="$lab/1" "$bin/pulc" --no-psid python3 -c "$mover") &
mover=$!
comes traffic.is_known_afar true_at 2 "$moves"
comes traffic.is_known_at_home true_at 1 "$moves"
comes traffic.is_in_the_picture in_picture 2 '[1-9][0-9.]*[KMG]?'
comes traffic.is_in_the_table column '[1-9][0-9.]*[KMG]?'

# Who is not there moves nothing; a psid that comes again goes on counting.
lab_kill 1
comes traffic.the_dead_move_nothing true_at 2 "n1['state'] == 'dead' and $nothing"
comes traffic.nor_in_the_table column -
lab_start 1
comes traffic.goes_on_with_a_new_psid true_at 2 "n1['state'] == 'alive' and $moves"

kill "$mover"
wait "$mover" 2>/dev/null
comes traffic.is_over_afar true_at 2 "$nothing"
comes traffic.is_over_at_home true_at 1 "$nothing"
comes traffic.none_in_the_end in_picture 2 0
