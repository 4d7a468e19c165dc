-- The taint labels of an artifact's bytes, as JSON; empty means none.
ALTER TABLE artifacts ADD COLUMN labels TEXT NOT NULL DEFAULT '';
