#!/usr/bin/env bash
# Measures the cost of a call over MCP through Toolroom, in one run on one machine: the
# upstream alone, a plain reverse proxy, a minimal proxy with the go-sdk, and Toolroom
# with policy, receipts and limits; then the cost of idle sessions and of many servers.
# Uses loopback only. Some figures need wrk (apt); vegeta is built from tools/go.mod.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
wrk=$(command -v wrk || echo)
[ -n "$wrk" ] || echo "wrk is not installed: its figures are left out" >&2
go build -modfile=tools/go.mod -o "$out/vegeta" github.com/tsenart/vegeta/v12
go build -o "$out/bench" ./test/bench
echo "== MCP: CPU of the middle process per call, latency (goals: 1.5 times the CPU of the plain proxy, p50 +0.15 ms and p99 +0.5 ms at 1,000 calls a second)"
"$out/bench" -wrk "$wrk" -vegeta "$out/vegeta" "$@"
