ALTER TABLE approvals ADD COLUMN session   TEXT    NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN effects   TEXT    NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN diff      TEXT    NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN people    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN approvers TEXT    NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN scopes    TEXT    NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN votes     TEXT    NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN scope     TEXT    NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN notified  TEXT    NOT NULL DEFAULT '';
CREATE INDEX approvals_expires ON approvals (expires);

-- Standing permissions. caller is the digest of identity.
CREATE TABLE grants (
  seq      INTEGER PRIMARY KEY,
  id       TEXT    NOT NULL UNIQUE,
  approval TEXT    NOT NULL,
  scope    TEXT    NOT NULL,
  tool     TEXT    NOT NULL,
  caller   TEXT    NOT NULL,
  identity TEXT    NOT NULL,
  session  TEXT    NOT NULL,
  digest   TEXT    NOT NULL,
  given_by TEXT    NOT NULL,
  created  INTEGER NOT NULL,
  expires  INTEGER NOT NULL
) STRICT;
CREATE INDEX grants_tool ON grants (tool, caller);
