#!/bin/bash
# The part of the benchmarks that chooses which rounds count.
exec timeout 60 python3 -B tests/house/bench.py
