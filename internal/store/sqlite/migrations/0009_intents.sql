-- Calls that must be recorded and are under way: the receipt of each as far as
-- it is known before the tool runs.
CREATE TABLE intents (
  seq   INTEGER PRIMARY KEY,
  call  TEXT NOT NULL,
  owner TEXT NOT NULL,
  body  TEXT NOT NULL
) STRICT;
CREATE INDEX intents_call ON intents (call);
