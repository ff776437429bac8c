#!/bin/bash
# The examples of the manual pages, played as they stand there.
exec python3 "$(dirname "$0")/examples.py"
