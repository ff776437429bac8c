# Completion of pulcctl(1) for fish.

# The words of the line that are neither options nor their values: the command, and what it is about.
function __pulcctl_words
    set -l words (commandline -cop)
    set -e words[1]
    while set -q words[1]
        if contains -- $words[1] --pid --port --path --signal --user --owner --limit --use
            set -e words[1]
        else if not string match -q -- '-*' $words[1]
            echo $words[1]
        end
        set -e words[1]
    end
end

# Does this come next? A pattern for each word before.
function __pulcctl_after
    set -l words (__pulcctl_words)
    test (count $words) -eq (count $argv); or return
    for i in (seq (count $argv))
        string match -qr -- "^($argv[$i])\$" $words[$i]; or return
    end
end

# The names that a list of pulcctl begins with.
function __pulcctl_names
    pulcctl --no-headers $argv[1] 2>/dev/null | string match -r '^\S+'
end

function __pulcctl_ports
    __pulcctl_names ports
    pulcctl --no-headers sockets 2>/dev/null | awk '{ sub(/.*:/, "", $4); print $4 }'
end

complete -c pulcctl -f
complete -c pulcctl -n __pulcctl_after -a status -d 'psid itself'
complete -c pulcctl -n __pulcctl_after -a sockets -d 'every connection'
complete -c pulcctl -n __pulcctl_after -a clients -d 'every process'
complete -c pulcctl -n __pulcctl_after -a ports -d 'every port'
complete -c pulcctl -n __pulcctl_after -a jobs -d 'every job'
complete -c pulcctl -n __pulcctl_after -a queue -d 'what waits'
complete -c pulcctl -n __pulcctl_after -a tasks -d 'every task'
complete -c pulcctl -n __pulcctl_after -a kill -d 'end a job'
complete -c pulcctl -n __pulcctl_after -a nodes -d 'every node'
complete -c pulcctl -n __pulcctl_after -a areas -d 'every area of memory'
complete -c pulcctl -n __pulcctl_after -a top -d 'the cluster at a glance'
complete -c pulcctl -n __pulcctl_after -a drain -d 'no new tasks there'
complete -c pulcctl -n __pulcctl_after -a undrain -d 'new tasks again'
complete -c pulcctl -n __pulcctl_after -a partition -d 'sets of nodes'
complete -c pulcctl -n __pulcctl_after -a keygen -d 'a key for a cluster'
complete -c pulcctl -n __pulcctl_after -a reload -d 'read the settings again'
complete -c pulcctl -n __pulcctl_after -a loglevel -d 'what psid logs'
complete -c pulcctl -n __pulcctl_after -a stop -d 'end psid'
complete -c pulcctl -n __pulcctl_after -a version -d versions

complete -c pulcctl -n '__pulcctl_words | string match -q kill; or __pulcctl_after tasks' -a '(__pulcctl_names jobs)'
complete -c pulcctl -n '__pulcctl_after "nodes|drain|undrain"' -a '(__pulcctl_names nodes)'
complete -c pulcctl -n '__pulcctl_after partition' -a 'list create set delete'
complete -c pulcctl -n '__pulcctl_after partition "list|set|delete"' -a '(__pulcctl_names partition)'
complete -c pulcctl -n '__pulcctl_after partition "create|set" ".*"' -a '(__fish_append , (__pulcctl_names nodes))'
complete -c pulcctl -n '__pulcctl_after loglevel' -a 'error warning info debug'
complete -c pulcctl -n '__pulcctl_after keygen' -F

complete -c pulcctl -l json -d 'JSON instead of a table'
complete -c pulcctl -l watch -d 'show it again and again'
complete -c pulcctl -l no-headers -d 'no line of column titles'
complete -c pulcctl -l pid -x -a '(pulcctl --no-headers clients 2>/dev/null | awk \'{ print $2 }\')' -d 'only of this process'
complete -c pulcctl -l port -x -a '(__pulcctl_ports)' -d 'only with this port, at either end'
complete -c pulcctl -l peers -d 'a line for each peer of each port'
complete -c pulcctl -l path -x -a 'rings kernel switching mixed' -d 'only on this path'
complete -c pulcctl -l here -d 'only what is on this node'
complete -c pulcctl -l signal -x -a 'HUP INT QUIT KILL USR1 USR2 TERM CONT STOP' -d 'send this signal instead'
complete -c pulcctl -l user -x -a '(__fish_complete_users)' -d 'only of this user, or who may use the partition'
complete -c pulcctl -l all-users -d 'everybody may use the partition'
complete -c pulcctl -l owner -x -a '(__fish_complete_users)' -d 'whose the partition is'
complete -c pulcctl -l exclusive -d 'its nodes run no other jobs'
complete -c pulcctl -l shared -d 'its nodes run other jobs too'
complete -c pulcctl -l default -d 'for jobs that name no partition'
complete -c pulcctl -l no-default -d 'not for jobs that name no partition'
complete -c pulcctl -l limit -x -a 'cores= nodes= jobs= queued= time=' -d 'what each user may have in it'
complete -c pulcctl -l add -d 'add a new key to the file'
complete -c pulcctl -l use -x -a '(pulcctl --list keygen 2>/dev/null | string match -r \'^\S+\')' -d 'make this key the one that is used'
complete -c pulcctl -l drop-old -d 'drop all keys but the one that is used'
complete -c pulcctl -l list -d 'the keys of the file'
complete -c pulcctl -s h -l help -d 'show help'
complete -c pulcctl -l version -d 'show the version'
