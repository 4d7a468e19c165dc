CREATE TABLE schedules (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT    NOT NULL UNIQUE,
  owner    TEXT    NOT NULL,
  next_run INTEGER NOT NULL,
  settled  INTEGER NOT NULL,
  runs     INTEGER NOT NULL,
  body     TEXT    NOT NULL
) STRICT;

CREATE INDEX schedules_owner ON schedules (owner);
CREATE INDEX schedules_due ON schedules (next_run) WHERE next_run <> 0;
