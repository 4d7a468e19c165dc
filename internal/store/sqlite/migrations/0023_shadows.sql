-- Who gets a canary, and whether it only runs as a shadow, as JSON.
ALTER TABLE tool_releases ADD COLUMN canary_rule TEXT NOT NULL DEFAULT '{}';

-- Runs of a version beside the one that answered.
CREATE TABLE shadow_runs (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  tool        TEXT    NOT NULL,
  environment TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  body        TEXT    NOT NULL
) STRICT;
CREATE INDEX shadow_runs_tool ON shadow_runs (tool, environment, version, seq);
