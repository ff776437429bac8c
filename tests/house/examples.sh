#!/bin/bash
# The examples of the manual pages, and of the guide to native programs, as they stand there.
exec python3 "$(dirname "$0")/examples.py"
