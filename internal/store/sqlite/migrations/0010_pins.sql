CREATE TABLE pins (
  source     TEXT    NOT NULL,
  tool       TEXT    NOT NULL,
  hash       TEXT    NOT NULL,
  definition TEXT    NOT NULL,
  raw        TEXT    NOT NULL,
  pinned     INTEGER NOT NULL,
  PRIMARY KEY (source, tool)
) STRICT;
