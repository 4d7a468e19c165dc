-- Who may call sensitive tools, and until when.
CREATE TABLE elevations (
  seq     INTEGER PRIMARY KEY,
  id      TEXT    NOT NULL UNIQUE,
  subject TEXT    NOT NULL,
  agent   TEXT    NOT NULL,
  tools   TEXT    NOT NULL,
  by      TEXT    NOT NULL,
  reason  TEXT    NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  ended   INTEGER NOT NULL
) STRICT;
CREATE INDEX elevations_expires ON elevations (expires);
