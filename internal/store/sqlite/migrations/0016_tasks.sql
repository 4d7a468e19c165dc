-- What carries a job on that its source has begun, and its result as that sent it.
ALTER TABLE jobs ADD COLUMN resume TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN raw TEXT NOT NULL DEFAULT '';
