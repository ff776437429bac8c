#!/bin/sh
# Servers that are given their sockets by systemd or inetd.
exec "$(dirname "$0")/run-activated"
