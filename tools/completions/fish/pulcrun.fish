# Completion of pulcrun(1) for fish: its own options first, then whatever the program to be run completes.
set -g __pulcrun_with -n --tasks --strategy --nodes --hostfile --partition --per-node --cpus-per-task --directory --scheduler --mpi \
    --output --stdin --timeout

function __pulcrun_is_own
    set -l words (commandline -cop)
    set -e words[1]
    while set -q words[1]
        if contains -- $words[1] $__pulcrun_with
            set -e words[1]
        else if not string match -q -- '-*' $words[1]
            return 1
        end
        set -e words[1]
    end
end

# The names that a list of pulcctl begins with.
function __pulcrun_names
    pulcctl --no-headers $argv[1] 2>/dev/null | string match -r '^\S+'
end

complete -c pulcrun -x -a '(__fish_complete_subcommand $__pulcrun_with)'
complete -c pulcrun -n __pulcrun_is_own -s n -l tasks -x -d 'so many tasks'
complete -c pulcrun -n __pulcrun_is_own -l strategy -x -a 'least-loaded next node' -d 'how nodes are chosen'
complete -c pulcrun -n __pulcrun_is_own -l nodes -x -a '(__fish_append , (__pulcrun_names nodes))' -d 'only on these nodes'
complete -c pulcrun -n __pulcrun_is_own -l hostfile -r -F -d 'only on the nodes of a file'
complete -c pulcrun -n __pulcrun_is_own -l partition -x -a '(__pulcrun_names partition)' -d 'only on the nodes of this partition'
complete -c pulcrun -n __pulcrun_is_own -l reserve -d 'hold the room for a command or shell'
complete -c pulcrun -n __pulcrun_is_own -l wait -d 'until there is room in the partition'
complete -c pulcrun -n __pulcrun_is_own -l per-node -x -d 'at most so many tasks on a node'
complete -c pulcrun -n __pulcrun_is_own -l cpus-per-task -x -d 'so many cores for each task'
complete -c pulcrun -n __pulcrun_is_own -l oversubscribe -d 'more tasks than cores are fine'
complete -c pulcrun -n __pulcrun_is_own -l directory -x -a '(__fish_complete_directories)' -d 'run there'
complete -c pulcrun -n __pulcrun_is_own -l scheduler -x -a 'auto slurm none' -d 'whose allocation this is'
complete -c pulcrun -n __pulcrun_is_own -l mpi -x -a 'auto pmi1 pmix none' -d 'start-up service'
complete -c pulcrun -n __pulcrun_is_own -l label -d 'each line with its rank'
complete -c pulcrun -n __pulcrun_is_own -l tag-output -d 'each line with job, rank and stream'
complete -c pulcrun -n __pulcrun_is_own -l output -r -F -d 'into files'
complete -c pulcrun -n __pulcrun_is_own -l stdin -x -a '0 all none' -d 'who gets the input'
complete -c pulcrun -n __pulcrun_is_own -l pty -d 'rank 0 has a terminal'
complete -c pulcrun -n __pulcrun_is_own -l keep-going -d 'a failed task does not end the others'
complete -c pulcrun -n __pulcrun_is_own -l timeout -x -d 'end the job after so many seconds'
complete -c pulcrun -n __pulcrun_is_own -l json -d 'report what became of each task'
complete -c pulcrun -n __pulcrun_is_own -s q -l quiet -d 'say nothing about failed tasks'
complete -c pulcrun -n __pulcrun_is_own -s v -l verbose -d 'say where the tasks run'
complete -c pulcrun -n __pulcrun_is_own -s h -l help -d 'show help'
complete -c pulcrun -n __pulcrun_is_own -l version -d 'show the version'
