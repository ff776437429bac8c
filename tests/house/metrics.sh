#!/bin/bash
# Metrics of psid over HTTP: what they say, read by the parser of Prometheus' own client, and that nobody who
# connects there keeps psid, or other readers, from anything.
set -u
# The system's, for which the packages of Debian are.
python=/usr/bin/python3
if ! $python -c 'import prometheus_client.openmetrics.parser' 2>/dev/null; then
	echo "skip metrics: no python3-prometheus-client"
	exit
fi
exec timeout 170 $python tests/house/metrics.py
