# Completion of psid(8) for fish.
complete -c psid -f
complete -c psid -l system -d 'serve all users'
complete -c psid -l config -r -F -d 'read settings from a file'
complete -c psid -l check-config -d 'check the settings and exit'
complete -c psid -l foreground -d 'stay in the foreground'
complete -c psid -l daemonize -d 'go to the background'
complete -c psid -s h -l help -d 'show help'
complete -c psid -l version -d 'show the version'
