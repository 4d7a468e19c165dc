-- Times are nanoseconds since 1970 in UTC; 0 stands for none.

-- The columns after body repeat what it says, for queries.
CREATE TABLE receipts (
  seq     INTEGER PRIMARY KEY,
  hash    TEXT    NOT NULL,
  body    TEXT    NOT NULL,
  call    TEXT    NOT NULL,
  parent  TEXT    NOT NULL,
  tool    TEXT    NOT NULL,
  subject TEXT    NOT NULL,
  surface TEXT    NOT NULL,
  status  TEXT    NOT NULL,
  started INTEGER NOT NULL
) STRICT;
CREATE INDEX receipts_call    ON receipts (call);
CREATE INDEX receipts_parent  ON receipts (parent) WHERE parent <> '';
CREATE INDEX receipts_tool    ON receipts (tool);
CREATE INDEX receipts_subject ON receipts (subject);
CREATE INDEX receipts_surface ON receipts (surface);
CREATE INDEX receipts_status  ON receipts (status);
CREATE INDEX receipts_started ON receipts (started);

-- The end of the chain, so that receipts cut off at the end are missed.
CREATE TABLE receipt_chain (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  seq  INTEGER NOT NULL,
  hash TEXT    NOT NULL
) STRICT;
INSERT INTO receipt_chain VALUES (1, 0, '');

CREATE TABLE approvals (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  call        TEXT    NOT NULL,
  digest      TEXT    NOT NULL,
  tool        TEXT    NOT NULL,
  arguments   TEXT    NOT NULL,
  identity    TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  state       TEXT    NOT NULL,
  created     INTEGER NOT NULL,
  expires     INTEGER NOT NULL,
  answered    INTEGER NOT NULL,
  answered_by TEXT    NOT NULL,
  comment     TEXT    NOT NULL,
  used        INTEGER NOT NULL
) STRICT;
CREATE INDEX approvals_digest ON approvals (digest);
CREATE INDEX approvals_state  ON approvals (state);

CREATE TABLE keys (
  identity       TEXT    NOT NULL,
  key            TEXT    NOT NULL,
  tool           TEXT    NOT NULL,
  arguments_hash TEXT    NOT NULL,
  call           TEXT    NOT NULL,
  owner          TEXT    NOT NULL,
  created        INTEGER NOT NULL,
  expires        INTEGER NOT NULL,
  result         TEXT    NOT NULL,
  PRIMARY KEY (identity, key)
) STRICT;
CREATE INDEX keys_expires ON keys (expires);

CREATE TABLE jobs (
  seq      INTEGER PRIMARY KEY,
  id       TEXT    NOT NULL UNIQUE,
  identity TEXT    NOT NULL,
  call     TEXT    NOT NULL,
  state    TEXT    NOT NULL,
  created  INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  result   TEXT    NOT NULL,
  fence    INTEGER NOT NULL,
  lease    INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_open ON jobs (created, seq) WHERE state <> 'done';

CREATE TABLE tokens (
  seq       INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,
  name      TEXT    NOT NULL,
  hash      BLOB    NOT NULL,
  subject   TEXT    NOT NULL,
  groups    TEXT    NOT NULL,
  agent     TEXT    NOT NULL,
  created   INTEGER NOT NULL,
  expires   INTEGER NOT NULL,
  last_used INTEGER NOT NULL,
  revoked   INTEGER NOT NULL
) STRICT;

CREATE TABLE artifacts (
  seq     INTEGER PRIMARY KEY,
  handle  TEXT    NOT NULL UNIQUE,
  owner   TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  mime    TEXT    NOT NULL,
  size    INTEGER NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL
) STRICT;
CREATE INDEX artifacts_owner   ON artifacts (owner, kind);
CREATE INDEX artifacts_expires ON artifacts (expires);
