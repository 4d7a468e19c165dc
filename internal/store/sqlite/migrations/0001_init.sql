-- Times are nanoseconds since 1970 in UTC; 0 stands for none.

-- The columns after body repeat what it says, for queries.
CREATE TABLE receipts (
  seq         INTEGER PRIMARY KEY,
  hash        TEXT    NOT NULL,
  body        TEXT    NOT NULL,
  call        TEXT    NOT NULL,
  parent      TEXT    NOT NULL,
  tool        TEXT    NOT NULL,
  subject     TEXT    NOT NULL,
  surface     TEXT    NOT NULL,
  status      TEXT    NOT NULL,
  started     INTEGER NOT NULL,
  -- detail is what a redaction takes out; code and labels repeat the body.
  detail      TEXT    NOT NULL DEFAULT '',
  code        TEXT    NOT NULL DEFAULT '',
  labels      TEXT    NOT NULL DEFAULT '',
  -- What metrics and filters need of a receipt, apart from its body.
  environment TEXT    NOT NULL DEFAULT '',
  version     INTEGER NOT NULL DEFAULT 0,
  queued      INTEGER NOT NULL DEFAULT 0,
  ran         INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX receipts_call    ON receipts (call);
CREATE INDEX receipts_parent  ON receipts (parent) WHERE parent <> '';
CREATE INDEX receipts_tool    ON receipts (tool);
CREATE INDEX receipts_subject ON receipts (subject);
CREATE INDEX receipts_surface ON receipts (surface);
CREATE INDEX receipts_status  ON receipts (status);
CREATE INDEX receipts_started ON receipts (started);
CREATE INDEX receipts_code   ON receipts (code)   WHERE code <> '';
CREATE INDEX receipts_labels ON receipts (labels) WHERE labels <> '';
CREATE INDEX receipts_version ON receipts (tool, version) WHERE version <> 0;

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
  environment TEXT    NOT NULL DEFAULT '',
  reason      TEXT    NOT NULL,
  state       TEXT    NOT NULL,
  created     INTEGER NOT NULL,
  expires     INTEGER NOT NULL,
  answered    INTEGER NOT NULL,
  answered_by TEXT    NOT NULL,
  comment     TEXT    NOT NULL,
  used        INTEGER NOT NULL,
  session     TEXT    NOT NULL DEFAULT '',
  effects     TEXT    NOT NULL DEFAULT '',
  diff        TEXT    NOT NULL DEFAULT '',
  people      INTEGER NOT NULL DEFAULT 0,
  approvers   TEXT    NOT NULL DEFAULT '',
  scopes      TEXT    NOT NULL DEFAULT '',
  votes       TEXT    NOT NULL DEFAULT '',
  scope       TEXT    NOT NULL DEFAULT '',
  notified    TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX approvals_digest ON approvals (digest);
CREATE INDEX approvals_state  ON approvals (state);
CREATE INDEX approvals_expires ON approvals (expires);

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
  seq       INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,
  identity  TEXT    NOT NULL,
  call      TEXT    NOT NULL,
  state     TEXT    NOT NULL,
  created   INTEGER NOT NULL,
  finished  INTEGER NOT NULL,
  started   INTEGER NOT NULL,
  result    TEXT    NOT NULL,
  fence     INTEGER NOT NULL,
  lease     INTEGER NOT NULL,
  -- What a job asks of the client that submitted it, and whether it is to end.
  cancelled INTEGER NOT NULL DEFAULT 0,
  answers   TEXT    NOT NULL DEFAULT '',
  -- Programs that wait for a person, and what they had done by then.
  approvals TEXT    NOT NULL DEFAULT '',
  -- What carries a job on that its source has begun, and its result as that sent it.
  resume    TEXT    NOT NULL DEFAULT '',
  raw       TEXT    NOT NULL DEFAULT '',
  -- The id of the caller's token.
  token     TEXT    NOT NULL DEFAULT ''
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
  revoked   INTEGER NOT NULL,
  provider  TEXT    NOT NULL DEFAULT '',
  skill     TEXT    NOT NULL DEFAULT '',
  tool_set  TEXT    NOT NULL DEFAULT '',
  environment TEXT  NOT NULL DEFAULT ''
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
  expires INTEGER NOT NULL,
  -- The taint labels of an artifact's bytes, as JSON; empty means none.
  labels  TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX artifacts_owner   ON artifacts (owner, kind);
CREATE INDEX artifacts_expires ON artifacts (expires);

CREATE TABLE job_questions (
  job    TEXT    NOT NULL,
  key    TEXT    NOT NULL,
  method TEXT    NOT NULL,
  params TEXT    NOT NULL,
  answer TEXT    NOT NULL,
  asked  INTEGER NOT NULL,
  -- A question of a job as an MCP server sent it, where it says more than its method and params.
  sent   TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;

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

-- Standing permissions. caller is the digest of identity.
CREATE TABLE grants (
  seq      INTEGER PRIMARY KEY,
  id       TEXT    NOT NULL UNIQUE,
  approval TEXT    NOT NULL,
  scope    TEXT    NOT NULL,
  tool     TEXT    NOT NULL,
  caller   TEXT    NOT NULL,
  identity TEXT    NOT NULL,
  environment TEXT NOT NULL DEFAULT '',
  session  TEXT    NOT NULL,
  digest   TEXT    NOT NULL,
  given_by TEXT    NOT NULL,
  created  INTEGER NOT NULL,
  expires  INTEGER NOT NULL
) STRICT;
CREATE INDEX grants_tool ON grants (tool, caller);

-- Where the chain begins after older receipts were removed.
CREATE TABLE receipt_checkpoint (
  only      INTEGER PRIMARY KEY CHECK (only = 1),
  seq       INTEGER NOT NULL,
  hash      TEXT    NOT NULL,
  time      INTEGER NOT NULL,
  signature BLOB    NOT NULL
) STRICT;
INSERT INTO receipt_checkpoint VALUES (1, 0, '', 0, x'');

-- Calls that must be recorded and are under way: the receipt of each as far as
-- it is known before the tool runs.
CREATE TABLE intents (
  seq   INTEGER PRIMARY KEY,
  call  TEXT    NOT NULL,
  owner TEXT    NOT NULL,
  body  TEXT    NOT NULL
) STRICT;
CREATE INDEX intents_call ON intents (call);

CREATE TABLE taints (
  owner   TEXT    NOT NULL,
  session TEXT    NOT NULL,
  label   TEXT    NOT NULL,
  tool    TEXT    NOT NULL,
  read_at INTEGER NOT NULL,
  PRIMARY KEY (owner, session, label, tool)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE spendings (
  call     TEXT    NOT NULL PRIMARY KEY,
  owner    TEXT    NOT NULL,
  tool     TEXT    NOT NULL,
  unit     TEXT    NOT NULL,
  micros   INTEGER NOT NULL,
  spent_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spendings_time ON spendings (unit, spent_at);

-- How far the receipts that a process has in its journal are in the chain.
CREATE TABLE receipt_journals (
	journal TEXT PRIMARY KEY,
	entry   INTEGER NOT NULL
) STRICT;

CREATE TABLE tool_versions (
  tool    TEXT    NOT NULL,
  number  INTEGER NOT NULL,
  digest  TEXT    NOT NULL,
  status  TEXT    NOT NULL,
  reason  TEXT    NOT NULL DEFAULT '',
  message TEXT    NOT NULL,
  author  TEXT    NOT NULL,
  created INTEGER NOT NULL,
  spec    TEXT    NOT NULL,
  -- Definitions of tools from outside are versions, too: source is the source that defines
  -- the tool, and empty for a function.
  source  TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (tool, number)
) STRICT;
CREATE UNIQUE INDEX tool_versions_active ON tool_versions (tool) WHERE status = 'active';

CREATE TABLE tool_releases (
  tool        TEXT    NOT NULL,
  environment TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  canary      INTEGER NOT NULL DEFAULT 0,
  weight      INTEGER NOT NULL DEFAULT 0,
  -- Who gets a canary, and whether it only runs as a shadow, as JSON.
  canary_rule TEXT    NOT NULL DEFAULT '{}',
  PRIMARY KEY (tool, environment),
  FOREIGN KEY (tool, version) REFERENCES tool_versions (tool, number)
) STRICT;

CREATE TABLE release_log (
  seq  INTEGER PRIMARY KEY AUTOINCREMENT,
  tool TEXT    NOT NULL,
  body TEXT    NOT NULL
) STRICT;
CREATE INDEX release_log_tool ON release_log (tool, seq);

CREATE TABLE tool_cases (
  tool TEXT NOT NULL,
  name TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tool, name)
) STRICT;

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

-- Runs of a version beside the one that answered.
CREATE TABLE shadow_runs (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  tool        TEXT    NOT NULL,
  environment TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  body        TEXT    NOT NULL
) STRICT;
CREATE INDEX shadow_runs_tool ON shadow_runs (tool, environment, version, seq);

CREATE TABLE lessons (
  team   TEXT    NOT NULL,
  tool   TEXT    NOT NULL,
  caller TEXT    NOT NULL,
  at     INTEGER NOT NULL,
  terms  TEXT    NOT NULL,
  PRIMARY KEY (team, tool, caller)
) STRICT, WITHOUT ROWID;
CREATE INDEX lessons_at ON lessons (at);

-- Sessions of the page that have ended before their time.
CREATE TABLE ended_sessions (
  id      TEXT    NOT NULL PRIMARY KEY,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_sessions_expires ON ended_sessions (expires);

-- What people say of a tool, apart from its versions, as JSON.
CREATE TABLE tool_cards (
  tool TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
