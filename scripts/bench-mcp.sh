#!/usr/bin/env bash
# What a call over MCP costs on its way through Toolroom, in one run on one
# machine: the upstream alone, a plain reverse proxy, the smallest proxy of the
# go-sdk, and Toolroom with everything on (policy, receipts, limits).
set -euo pipefail
cd "$(dirname "$0")/.."
echo "== MCP of 2026-07-28 over HTTP: CPU of the middle process per call, latency (goal: 1.5 times the CPU of the plain proxy)"
go run ./test/bench "$@"
