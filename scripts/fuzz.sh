#!/usr/bin/env bash
# Runs each fuzz test of the repository for a short while: fuzz.sh [10s]
set -euo pipefail
cd "$(dirname "$0")/.."
for_each=${1:-10s}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# fuzz FOLDER NAME: run a fuzz test. If Go's own deadline passes while an execution starts,
# Go reports a failure without an input (go.dev/issue/75804, fixed in Go 1.27). A real
# failure has an input.
fuzz() {
  for _ in 1 2 3; do
    ${GO:-go} test -run '^$' -fuzz "^$2\$" -fuzztime "$for_each" "./$1" </dev/null 2>&1 | tee "$out" && return
    grep -q 'context deadline exceeded' "$out" && ! grep -q -e 'Failing input' -e 'panic:' "$out" || return 1
    echo "it ended on Go's own deadline: once more"
  done
  return 1
}

grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
  for name in $(grep -o '^func Fuzz[A-Za-z0-9]*' "$file" | cut -d' ' -f2); do
    echo "$(dirname "$file") $name"
    fuzz "$(dirname "$file")" "$name" || exit 1
  done
done
