CREATE TABLE lessons (
  team   TEXT    NOT NULL,
  tool   TEXT    NOT NULL,
  caller TEXT    NOT NULL,
  at     INTEGER NOT NULL,
  terms  TEXT    NOT NULL,
  PRIMARY KEY (team, tool, caller)
) STRICT, WITHOUT ROWID;

CREATE INDEX lessons_at ON lessons (at);
