CREATE TABLE tool_versions (
  tool    TEXT    NOT NULL,
  number  INTEGER NOT NULL,
  digest  TEXT    NOT NULL,
  status  TEXT    NOT NULL,
  reason  TEXT    NOT NULL DEFAULT '',
  message TEXT    NOT NULL,
  author  TEXT    NOT NULL,
  created INTEGER NOT NULL,
  spec    TEXT    NOT NULL,
  PRIMARY KEY (tool, number)
) STRICT;

CREATE UNIQUE INDEX tool_versions_active ON tool_versions (tool) WHERE status = 'active';

CREATE TABLE tool_releases (
  tool        TEXT    NOT NULL,
  environment TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  canary      INTEGER NOT NULL DEFAULT 0,
  weight      INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tool, environment),
  FOREIGN KEY (tool, version) REFERENCES tool_versions (tool, number)
) STRICT;

CREATE TABLE release_log (
  seq  INTEGER PRIMARY KEY AUTOINCREMENT,
  tool TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE INDEX release_log_tool ON release_log (tool, seq);

CREATE TABLE tool_cases (
  tool TEXT NOT NULL,
  name TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tool, name)
) STRICT;
