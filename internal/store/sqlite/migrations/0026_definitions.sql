-- Definitions of tools from outside are versions, too: source is the source that defines
-- the tool, and empty for a function.
ALTER TABLE tool_versions ADD COLUMN source TEXT NOT NULL DEFAULT '';

DROP TABLE pins;
