#!/usr/bin/env bash
# Plays a newcomer's first day on an empty machine: the package of dist/, three real sources,
# a client, an approval that the client cannot ask for, a restart, an update, a backup, and
# its restoration elsewhere. It fails at the first thing that is not as the documentation
# says, and prints how long each part took. It needs dist/ (make dist), test/node (make
# peers), git, npm and python3.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }
last=$(date +%s%N) part=
timed() { # ends a part and begins the next
  local now; now=$(date +%s%N)
  [ -z "$part" ] || printf '  %5d ms  %s\n' $(((now - last) / 1000000)) "$part"
  last=$now part=$1
}
# has TEXT COMMAND…: the command works, and its output has TEXT.
has() {
  local want=$1 out; shift
  out=$("$@" 2>&1) || fail "$* ended with $?: $out"
  grep -qF -- "$want" <<<"$out" || fail "$*: no $(printf %q "$want") in: $out"
}
# exits CODE TEXT COMMAND…: the command ends with a code, and its output has TEXT.
exits() {
  local code=$1 want=$2 out got=0; shift 2
  out=$("$@" 2>&1) || got=$?
  [ "$got" = "$code" ] || fail "$* ended with $got, not $code: $out"
  grep -qF -- "$want" <<<"$out" || fail "$*: no $(printf %q "$want") in: $out"
}
# until_has TEXT COMMAND…: waits until the output has TEXT.
until_has() {
  local want=$1 n=0; shift
  until "$@" 2>&1 | grep -qF -- "$want"; do
    n=$((n + 1)); [ $n -lt 200 ] || fail "$*: $want did not come"
    sleep 0.1
  done
}
helper() { python3 "$root/test/firstday/helper.py" "$@"; }
node_modules=$root/test/node/node_modules
[ -d "$node_modules/@octokit/openapi" ] || fail "test/node is not installed: make peers"

# An empty machine: no home, no variables of ours.
export HOME=$work/home PATH=$work/toolroom/bin:$node_modules/.bin:$PATH
unset TOOLROOM_HOME TOOLROOM_CONFIG TOOLROOM_TRUST_CONFIG XDG_STATE_HOME XDG_CONFIG_HOME
mkdir -p "$HOME/project" && cd "$HOME/project"
echo "Buy milk" >notes.txt

timed "install the package"
package=$(ls "$root"/dist/toolroom-*-linux-"$(dpkg --print-architecture)".tar.gz) || fail "there is no package: make dist"
mkdir "$work/toolroom" && tar -xzf "$package" -C "$work/toolroom" --strip-components 1
[ -x "$work/toolroom/bin/toolroom" ] || PATH=$work/toolroom:$PATH
has toolroom toolroom version
has "no server runs" toolroom status

timed "the packages of npm and PyPI"
case $(uname -m) in
  x86_64) npm=x64 ;;
  aarch64) npm=arm64 ;;
  *) fail "there are no packages for $(uname -m)" ;;
esac
mkdir "$work/npm" && (cd "$work/npm" && echo '{"private": true}' >package.json &&
  npm install --offline --ignore-scripts --no-audit --no-fund --loglevel=error "$root"/dist/toolroom-npm-linux-"$npm"-*.tgz "$(ls "$root"/dist/toolroom-npm-[0-9]*.tgz)" >/dev/null)
has "no server runs" "$work/npm/node_modules/.bin/toolroom" status
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$root"/dist/toolroom-*manylinux*_"$(uname -m)"*.whl
has "no server runs" "$work/venv/bin/toolroom" status

timed "three sources: an MCP server, a program, GitHub's API"
# Not by the function, which would make the process a child of a shell that is ended alone.
python3 "$root/test/firstday/helper.py" api >"$work/port" & pids+=($!)
until [ -s "$work/port" ]; do sleep 0.05; done
api=http://127.0.0.1:$(cat "$work/port")
git init -q . && git -c user.name=n -c user.email=n@example.com commit -q --allow-empty -m "the first commit"
toolroom init >/dev/null 2>&1
has "tools" toolroom sources add files -- mcp-server-filesystem .
has "tools" toolroom sources add git --cli git
cp "$node_modules/@octokit/openapi/generated/api.github.com.json" github.json
has "tools" toolroom sources add gh --openapi github.json --base-url "$api"
has "is valid" toolroom config check
has "gh" toolroom sources list -o yaml

timed "find and call"
has "gh:issues_create" toolroom search "create an issue in a repository"
has "git:log" toolroom search "commit history"
has "Buy milk" toolroom call files:read_text_file path=notes.txt
has "the first commit" toolroom call git:log oneline=true
has '"title": "Broken"' toolroom call gh:issues_create owner=o repo=r title=Broken
has "replayed: true" sh -c 'toolroom call git:log max_count=1 --key k1 >/dev/null && toolroom call git:log max_count=1 --key k1 -o yaml'
exits 5 "try:" toolroom call files:read_text_file pth=notes.txt
exits 4 "did you mean" toolroom call files:read_text_fil path=notes.txt
has "What to do" toolroom explain invalid_arguments

timed "connect a client, and take it back"
has "mcpServers" toolroom connect claude-code --yes
has "toolroom" cat "$HOME/.claude.json"
command=$(python3 -c 'import json, sys; s = json.load(open(sys.argv[1]))["mcpServers"]["toolroom"]; print("\n".join([s["command"], *s["args"]]))' "$HOME/.claude.json")
mapfile -t words <<<"$command"
has "search_tools" helper stdio "${words[@]}" <<<"list"
has "claude" toolroom connect claude-code --undo --yes

for client in claude-desktop codex cursor vscode windsurf zed gemini opencode goose copilot; do
  out=$(toolroom connect "$client" --yes 2>&1) || fail "connect $client: $out"
  file=$(toolroom connect "$client" --undo --dry-run 2>&1 | sed -n 's/^would restore //p')
  grep -q "serve" "$file" || fail "connect $client wrote nothing into ${file:-a file}"
  has "as it was" toolroom connect "$client" --undo --yes
  if grep -q "serve" "$file" 2>/dev/null; then fail "connect $client --undo left Toolroom in $file"; fi
done

timed "a server, and an approval that the client cannot ask for"
sed -i 's/^  listen: .*/  listen: 127.0.0.1:0/; s/^  confirm: .*/  confirm: ["files:write_file"]/' toolroom.yaml
echo 'approvals: {mcp_wait: 1s}' >>toolroom.yaml
toolroom trust --yes >/dev/null
serve() {
  : >"$work/serve.log"
  toolroom serve >>"$work/serve.log" 2>&1 & server=$!
  pids+=("$server")
  until_has "ready at" cat "$work/serve.log"
  url=$(sed -n 's/.*ready at \(http[^ ]*\) .*/\1/p' "$work/serve.log")
}
serve
has "server at $url" toolroom status
write='call call_tool {"tool": "files:write_file", "arguments": {"path": "new.txt", "content": "hello"}}'
answer=$(helper http "$url/mcp" <<<"$write")
grep -qF "toolroom approve apr_" <<<"$answer" || fail "the client does not read how to go on: $answer"
[ ! -e new.txt ] || fail "the call ran without approval"
has "1 approval" toolroom status
id=$(toolroom approve -o json | sed -n 's/.*"id": "\(apr_[a-z0-9]*\)".*/\1/p' | head -1)
has "can destroy something" toolroom approve show "${id:0:10}"
has approved toolroom approve "${id:0:10}" --yes

timed "a restart: the answer is still there, and serves one call"
kill "$server" && wait "$server" 2>/dev/null || true
serve
answer=$(helper http "$url/mcp" <<<"$write")
[ "$(cat new.txt)" = hello ] || fail "the approved call did not run after the restart: $answer"
answer=$(helper http "$url/mcp" <<<"$write")
grep -qF "toolroom approve apr_" <<<"$answer" || fail "one approval served twice: $answer"

timed "a change without a restart, an update"
cat >>toolroom.yaml <<'END'
limits: {timeout: 20s}
results: {entries: 10}
END
toolroom trust --yes >/dev/null
has "after a restart of the server: results.entries" toolroom reload
has "results.entries" toolroom config check
has "v999.0.0" toolroom update --check --url "$api/releases/latest"

timed "a page and an API for other people"
token=$(toolroom token create ann --groups operators 2>/dev/null)
has "Sign in to Toolroom" curl -sS -H "X-Forwarded-For: 192.0.2.1" -H "Accept: text/html" "$url/"
has '"type":"https://' curl -sS -H "X-Forwarded-For: 192.0.2.1" "$url/api/v1/sources"
has '"name":"gh"' curl -sS -H "X-Forwarded-For: 192.0.2.1" -H "Authorization: Bearer $token" "$url/api/v1/sources"

timed "a backup, and its restoration elsewhere"
calls=$(toolroom calls --limit 1000 -o json | grep -c '"id": "call_')
toolroom backup "$work/backup.tar.gz" >/dev/null
kill "$server" && wait "$server" 2>/dev/null || true
mkdir "$work/elsewhere" && cp notes.txt "$work/elsewhere" && cd "$work/elsewhere"
export HOME=$work/elsewhere/home
toolroom restore "$work/backup.tar.gz" --config "$work/elsewhere/toolroom.yaml" >/dev/null
toolroom trust --yes >/dev/null
has "hash chain intact" toolroom calls verify
[ "$(toolroom calls --limit 1000 -o json | grep -c '"id": "call_')" -ge "$calls" ] || fail "receipts are missing after the restoration"
has "ann" toolroom token list
has "Buy milk" toolroom call files:read_text_file path=notes.txt
timed ""
echo "the first day works, in $SECONDS s"
[ "$SECONDS" -lt 180 ] || fail "it took more than 3 minutes"
