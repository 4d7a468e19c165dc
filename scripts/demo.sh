#!/usr/bin/env bash
# Demonstrates Toolroom on this repository. It needs only Go and git.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/bin demo=$PWD/.demo
rm -rf "$demo" && mkdir -p "$demo"
export TOOLROOM_HOME=$demo/home TOOLROOM_CONFIG=$demo/toolroom.yaml
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ toolroom %s\n' "$*"; "$bin/toolroom" "$@"; }

say "1. Add sources: this repository's git, and a folder behind an MCP server"
run init
run sources add git --cli "$(command -v git)"
run sources add docs -- "$PWD/bin/mcp-folder" "$PWD/docs"

say "2. Find tools by what you want to do"
run search "show commit log" --limit 2
run search "look for text in files" --limit 2

say "3. Call them"
run call git:log oneline=true max_count=3
run call docs:list

say "4. Chain them: list the docs, and read the first page"
run chain -f scripts/demo-chain.yaml

say "5. Write a tool, test it, release it, and call it"
pushd "$demo" >/dev/null
run tool new greet -l ts
cat greet.ts
run tool push greet.ts
run tool test greet
run tool release greet
run call greet who=Ada times=2
popd >/dev/null

say "6. Every call left a receipt"
run calls
run calls verify

say "7. Serve them all at one address"
bin/toolroom serve --listen 127.0.0.1:0 >"$demo/serve.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do grep -q ready "$demo/serve.log" && break; sleep 0.1; done
cat "$demo/serve.log"
address=$(grep -o 'http://[0-9.:]*' "$demo/serve.log" | head -1)
if command -v curl >/dev/null; then
  printf '$ curl %s/api/v1/tools/docs:list/call\n' "$address"
  curl -sS --fail-with-body -H 'Content-Type: application/json' -d '{"arguments": {}}' "$address/api/v1/tools/docs:list/call"
  echo
fi

say "Done. To go on with these sources:"
cat <<END
  export TOOLROOM_HOME=$TOOLROOM_HOME TOOLROOM_CONFIG=$TOOLROOM_CONFIG PATH=$PWD/bin:\$PATH
  toolroom serve          # then point an MCP client at http://127.0.0.1:7070/mcp
END
