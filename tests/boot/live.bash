# What is to live on while psid is restarted, replaced or dead: connections on rings and an MPI job, in one machine.
# Sourced by tests of this folder after machines.bash.
# shellcheck shell=bash
seconds_work=1800 # that it takes at most
: "${work:?machines.bash comes first}"

# Where the work is, as a number of each part that only grows.
rounds() { # NAME
	cat "$work/$1/root/srv/rounds" 2>/dev/null || echo 0
}

sums() { # NAME
	wc -l <"$work/$1/root/srv/sums" 2>/dev/null || echo 0
}

# That both go on: three rounds over all connections and three sums more than there were.
has_gone_on_since() { # NAME ROUNDS SUMS
	[ "$(rounds "$1")" -ge $(($2 + 3)) ] && [ "$(sums "$1")" -ge $(($3 + 3)) ]
}

goes_on() { # NAME
	local rounds sums
	rounds=$(rounds "$1") sums=$(sums "$1")
	await has_gone_on_since "$1" "$rounds" "$sums"
}

# Each leaves its exit status in a file of its own.
work_start() { # NAME PULCRUN-OPTION...
	local name=$1
	shift
	(seconds_max=$seconds_work on "$name" sh -c 'pulc python3 /srv/connections.py >/srv/wrong 2>&1; echo $? >/srv/connections.status') &
	(seconds_max=$seconds_work on "$name" sh -c 'pulcrun -q "$@" /srv/reduce >/srv/sums 2>/srv/sums.errors; echo $? >/srv/sums.status' sh "$@") &
}

has_ended() { # NAME
	[ -s "$work/$1/root/srv/connections.status" ] && [ -s "$work/$1/root/srv/sums.status" ]
}

# Lines of the job that are not the number that is due.
sums_lost() { # NAME
	awk '$0 != NR - 1 { n++ } END { print n + 0 }' "$work/$1/root/srv/sums"
}

# The tests of how it all ended; 3 and 7 are what the programs exit with if nothing was wrong.
work_end() { # NAME PREFIX
	local files=$work/$1/root/srv
	on "$1" touch /srv/stop
	comes "$2.all_ends" has_ended "$1"
	is "$2.connections_exit_right" 3 "$(cat "$files/connections.status")"
	is "$2.connections_lose_nothing" 'wrong: 0' "$(tail -n 1 "$files/wrong")"
	is "$2.job_exits_right" 7 "$(cat "$files/sums.status")"
	is "$2.job_says_nothing_else" '' "$(tail -n 1 "$files/sums.errors")"
	is "$2.output_of_job_is_whole" 0 "$(sums_lost "$1")"
	on "$1" sh -c 'rm -f /srv/stop /srv/rounds /srv/*.status'
}
