#!/bin/bash
# Completions as shells have them that people use.
set -u
for shell in bash plain-bash zsh fish; do
	if ! command -v ${shell#plain-} >/dev/null; then
		echo "skip completions.$shell: no $shell here"
	else
		timeout 120 python3 tests/house/completions.py $shell || echo "not ok completions.$shell: ended with $?"
	fi
done
