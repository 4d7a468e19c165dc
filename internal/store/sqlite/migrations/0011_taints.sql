CREATE TABLE taints (
  owner   TEXT    NOT NULL,
  session TEXT    NOT NULL,
  label   TEXT    NOT NULL,
  tool    TEXT    NOT NULL,
  read_at INTEGER NOT NULL,
  PRIMARY KEY (owner, session, label, tool)
) STRICT, WITHOUT ROWID;
