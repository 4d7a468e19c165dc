#!/usr/bin/env bash
# What a call over MCP costs on its way through Toolroom, in one run on one
# machine: the upstream alone, a plain reverse proxy, the smallest proxy of the
# go-sdk, and Toolroom with everything on (policy, receipts, limits); then what
# idle sessions and many servers cost. Loopback only. Needs wrk (apt) for its
# figures; vegeta is built from tools/go.mod.
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
