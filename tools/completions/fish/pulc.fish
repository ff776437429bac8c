# Completion of pulc(1) for fish: its own options first, then whatever the program to be run completes.
function __pulc_is_own
    set -l words (commandline -cop)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case --log
                set -e words[1]
            case '-*'
            case '*'
                return 1
        end
        set -e words[1]
    end
end

complete -c pulc -x -a '(__fish_complete_subcommand "" --log)'
complete -c pulc -n __pulc_is_own -l log -r -F -d 'let the library log to a file'
complete -c pulc -n __pulc_is_own -l no-psid -d 'do not start a psid'
complete -c pulc -n __pulc_is_own -s h -l help -d 'show help'
complete -c pulc -n __pulc_is_own -l version -d 'show the version'
