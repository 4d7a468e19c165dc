CREATE TABLE spendings (
  call     TEXT    NOT NULL PRIMARY KEY,
  owner    TEXT    NOT NULL,
  tool     TEXT    NOT NULL,
  unit     TEXT    NOT NULL,
  micros   INTEGER NOT NULL,
  spent_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX spendings_time ON spendings (unit, spent_at);
