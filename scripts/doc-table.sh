#!/usr/bin/env bash
# doc-table.sh NAME [--write] <TABLE: check that docs/mcp-relay.md has the results of a
# suite between <!-- NAME --> and <!-- end -->. --write updates them.
set -euo pipefail
cd "$(dirname "$0")/.."
doc=docs/mcp-relay.md name=$1 table=$(cat)
grep -qxF "<!-- $name -->" "$doc" || { echo "$doc has no block $name" >&2; exit 1; }
if [ "${2:-}" = --write ]; then
  new=$(mktemp)
  TABLE=$table awk -v begin="<!-- $name -->" '
    $0 == begin { print; print ENVIRON["TABLE"]; inside = 1; next }
    $0 == "<!-- end -->" { inside = 0 }
    !inside' "$doc" >"$new"
  cat "$new" >"$doc"
  rm "$new"
fi
diff <(awk -v begin="<!-- $name -->" '$0 == "<!-- end -->" { inside = 0 } inside; $0 == begin { inside = 1 }' "$doc") <(echo "$table") >&2 ||
  { echo "$doc differs from the suite's results (run the script again with --write)" >&2; exit 1; }
