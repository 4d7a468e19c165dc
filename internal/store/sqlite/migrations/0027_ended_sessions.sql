-- Sessions of the page that have ended before their time.
CREATE TABLE ended_sessions (
  id      TEXT    NOT NULL PRIMARY KEY,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ended_sessions_expires ON ended_sessions (expires);
