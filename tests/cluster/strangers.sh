#!/bin/bash
# Who does not belong to the cluster stays out, and both sides say why: other keys, other names, other
# versions, garbage, names that are taken, nodes that are not listed, certificates of others.
# timeout: 300
set -u
# shellcheck source=tests/cluster/lab.bash
. "$(dirname "$0")/lab.bash"
lab_check cluster.strangers
lab_up 5
stranger() {
	lab_node 3 python3 "$(dirname "$0")/stranger.py" "$@"
}

lab_start 1
lab_start 2
comes strangers.two_are_there lab_all_alive 2 1 2

# Garbage, and a crowd that says nothing.
is strangers.garbage_is_taken "done" "$(stranger garbage 10.77.0.1)"
is strangers.crowd_stands_in_nobodys_way "200 200 52" "$(stranger crowd 10.77.0.1 200)"
is strangers.both_live "n1 alive, n2 alive" "$(lab_states 1)"
comes strangers.garbage_is_said lab_said 1 "10.77.0.3"
is strangers.but_not_often yes "$([ "$(lab_log 1 | grep -cF 10.77.0.3)" -lt 12 ] && echo yes)"
ours=3 # PSID_PEER_VERSION_MIN and _MAX
is strangers.they_greet_other_versions "PULC $ours $ours 0" "$(stranger version 10.77.0.2 7)"
comes strangers.versions_are_said lab_said 2 "they speak versions 7 to 7 of the protocol between psids, we $ours to $ours"
is strangers.they_greet_former_versions "PULC $ours $ours 0" "$(stranger version 10.77.0.2 1)"
comes strangers.former_versions_are_said lab_said 2 "they speak versions 1 to 1 of the protocol between psids, we $ours to $ours"
comes strangers.versions_of_datagrams lab_said 2 "another version of the cluster's protocol"

# Another key.
"$bin/pulcctl" keygen "$lab/other" >/dev/null
lab_start 3 PULC_CLUSTER_KEY_FILE="$lab/other"
key_of() {
	"$bin/pulcctl" keygen --list "$1" | awk '{ print $1 }'
}
comes strangers.another_key_here lab_said 3 "they use the key $(key_of "$lab/key"), we have only $(key_of "$lab/other") (ClusterKeyFile)"
comes strangers.another_key_there lab_said 1 "they use the key $(key_of "$lab/other"), we have only $(key_of "$lab/key") (ClusterKeyFile)"
is strangers.another_key_stays_out "n1 alive, n2 alive" "$(lab_states 1)"
lab_kill 3

# Another cluster.
lab_start 3 PULC_CLUSTER_NAME=elsewhere
comes strangers.another_cluster_here lab_said 3 'they belong to the cluster "lab", we to "elsewhere"'
is strangers.another_cluster_stays_out "n1 alive, n2 alive" "$(lab_states 1)"
lab_kill 3

# Another one's name.
lab_start 3 PULC_NODE_NAME=n2
comes strangers.a_taken_name lab_said 3 'the name "n2" belongs to the node at 10.77.0.2:7852'
is strangers.a_taken_name_stays_out 10.77.0.2:7852 "$(lab_ctl 1 nodes --no-headers n2 | awk '{ print $(NF - 1) }')"
lab_kill 3

# Keys that are none.
chmod 644 "$lab/other"
lab_start 3 PULC_CLUSTER_KEY_FILE="$lab/other"
wait "${lab_pid[3]}"
is strangers.readable_key 1 $?
is strangers.readable_key_is_said 1 "$(lab_log 3 | grep -c "others than its owner can read it")"
echo nonsense >"$lab/nonsense" && chmod 600 "$lab/nonsense"
lab_start 3 PULC_CLUSTER_KEY_FILE="$lab/nonsense"
wait "${lab_pid[3]}"
is strangers.no_key_is_said 1 "$(lab_log 3 | grep -c "ClusterKeyFile: $lab/nonsense:1: no key of a cluster")"
lab_start 3 PULC_CLUSTER_KEY_FILE=
wait "${lab_pid[3]}"
is strangers.key_is_missing 1 "$(lab_log 3 | grep -c "PULC_CLUSTER_NAME: ClusterName needs ClusterKeyFile")"
lab_start 3 PULC_CLUSTER_ADDRESS=10.77.9.9
wait "${lab_pid[3]}"
is strangers.not_our_address 1 "$(lab_log 3 | grep -c "ClusterAddress 10.77.9.9:7852, UDP: Cannot assign")"
for i in 1 2; do lab_kill $i; done

# Lists in place of seeds.
list="n1=10.77.0.1 n2=10.77.0.2 n4=10.77.0.4"
for i in 1 2; do lab_start $i PULC_CLUSTER_SEEDS= PULC_CLUSTER_NODES="$list"; done
comes strangers.listed_nodes_meet lab_all_alive 2 1 2
is strangers.listed_and_never_seen "n1 alive, n2 alive, n4 unknown" "$(lab_states 1)"
lab_start 5
comes strangers.not_listed_there lab_said 1 "10.77.0.5:7852 is not one of the nodes that ClusterNodes lists"
is strangers.not_listed_stays_out "n1 alive, n2 alive, n4 unknown" "$(lab_states 1)"
lab_start 4 PULC_CLUSTER_NAME=other PULC_CLUSTER_SEEDS= PULC_CLUSTER_NODES="$list"
why() { # I NODE: why the psid of node I does not understand it
	lab_ctl "$1" nodes --json "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["why"])'
}
is_why() { # I NODE TEXT: that begins so
	[[ "$(why "$1" "$2")" == "$3"* ]]
}
comes strangers.why_is_shown is_why 1 n4 "its datagrams can't be read"
is strangers.why_in_the_table 1 "$(lab_ctl 1 nodes --no-headers n4 | grep -c " its datagrams can't be read")"
lab_kill 4
lab_start 4 PULC_CLUSTER_SEEDS= PULC_CLUSTER_NODES="$list"
comes strangers.listed_comes_late lab_all_alive 3 1 2 4
is strangers.why_is_over "" "$(why 1 n4)"
lab_start 3 PULC_CLUSTER_SEEDS= PULC_CLUSTER_NODES="$list"
wait "${lab_pid[3]}"
is strangers.itself_not_listed 1 "$(lab_log 3 | grep -c 'this node, "n3", is not one of those that ClusterNodes lists')"
for i in 1 2 4 5; do lab_kill $i; done

# Certificates: 1 and 2 have their own, 3 has that of 2, 4 one of an authority that is not ours.
authority() { # NAME
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
		-keyout "$lab/$1.key" -out "$lab/$1.crt" 2>/dev/null
}
certificate() { # NAME AUTHORITY
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
		-keyout "$lab/$1.key" -out "$lab/$1.csr" 2>/dev/null
	openssl x509 -req -in "$lab/$1.csr" -CA "$lab/$2.crt" -CAkey "$lab/$2.key" -CAcreateserial -days 2 \
		-out "$lab/$1.crt" 2>/dev/null
}
authority ours
authority theirs
for i in 1 2; do certificate n$i ours; done
certificate n4 theirs
certified() { # I NAME
	lab_start "$1" PULC_CLUSTER_CERTIFICATE="$lab/$2.crt" PULC_CLUSTER_CERTIFICATE_KEY="$lab/$2.key" \
		PULC_CLUSTER_AUTHORITY="$lab/ours.crt"
}
certified 1 n1
certified 2 n2
certified 3 n2
certified 4 n4
lab_start 5
comes strangers.certified_nodes_meet lab_all_alive 5 1 2
lab_ctl 1 drain n2
comes strangers.certified_messages_arrive lab_knows 1 "n2 drained"
lab_ctl 3 drain n1
comes strangers.certificate_of_another lab_said 1 'n3 has the certificate of "n2"'
lab_ctl 4 drain n1
comes strangers.certificate_of_nobody lab_said 1 "TLS: certificate verify failed"
comes strangers.why_is_the_certificate is_why 1 n4 "TLS: certificate verify failed"
is strangers.why_is_the_name 'n3 has the certificate of "n2"' "$(why 1 n3)"
is strangers.why_of_nobody_else "" "$(why 1 n2)"
lab_ctl 5 drain n1
comes strangers.certificate_or_key lab_said 5 "they use certificates, we the key"
is strangers.none_of_them_was_heard "n1 alive" "$(lab_ctl 1 nodes --no-headers n1 | awk '{ print $1, $2 }')"

# Another authority, and certificates of it: read again, without a restart. A file that is wrong changes nothing.
authority newer
certificate n2 newer
cat "$lab/newer.crt" >>"$lab/ours.crt"
lab_kill 2
certified 2 n2
comes strangers.with_a_new_certificate lab_all_alive 5 1 2
: >"$lab/1/log"
lab_ctl 2 drain n1
comes strangers.a_new_authority_is_not_known lab_said 1 "TLS: certificate verify failed"
mv "$lab/n1.crt" "$lab/n1.old"
lab_ctl 1 reload 2>"$lab/err"
is strangers.a_missing_certificate 1 $?
is strangers.a_missing_certificate_is_named 1 "$(grep -c "^pulcctl: $lab/n1.crt: " "$lab/err")"
lab_ctl 2 drain n1
is strangers.nothing_has_changed "n1 alive" "$(lab_ctl 1 nodes --no-headers n1 | awk '{ print $1, $2 }')"
certificate n1 newer
is strangers.certificates_are_read_again '{"error":"","waiting":""}' "$(lab_ctl 1 --json reload)"
lab_ctl 2 drain n1
comes strangers.the_new_authority_is_known lab_knows 2 "n1 drained"
