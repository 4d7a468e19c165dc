#!/usr/bin/env bash
# doc-table.sh NAME [--write] <TABLE: what a suite has just shown is what
# docs/mcp.md says between <!-- NAME --> and <!-- end -->; --write makes it so.
set -euo pipefail
cd "$(dirname "$0")/.."
doc=docs/mcp.md name=$1 table=$(cat)
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
  { echo "$doc does not say what the suite shows (run the script again with --write)" >&2; exit 1; }
