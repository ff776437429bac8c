#!/bin/bash
# The checks of tools/lint.sh that need nothing but the source, the build and mandoc.
exec tools/lint.sh columns man links public essays layers sizes exports across
