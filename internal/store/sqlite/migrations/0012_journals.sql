-- Programs that wait for a person, and what they had done by then.
ALTER TABLE jobs ADD COLUMN approvals TEXT NOT NULL DEFAULT '';

CREATE TABLE journals (
  call TEXT PRIMARY KEY,
  head TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE journal_entries (
  call  TEXT    NOT NULL,
  place INTEGER NOT NULL,
  entry TEXT    NOT NULL,
  PRIMARY KEY (call, place)
) STRICT, WITHOUT ROWID;
