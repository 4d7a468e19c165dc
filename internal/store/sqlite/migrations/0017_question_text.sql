-- A question of a job as an MCP server sent it, where it says more than its method and params.
ALTER TABLE job_questions ADD COLUMN sent TEXT NOT NULL DEFAULT '';
