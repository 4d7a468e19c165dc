-- What metrics and filters need of a receipt, apart from its body.
ALTER TABLE receipts ADD COLUMN environment TEXT    NOT NULL DEFAULT '';
ALTER TABLE receipts ADD COLUMN version     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN queued      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN ran         INTEGER NOT NULL DEFAULT 0;
UPDATE receipts SET
  environment = coalesce(json_extract(body, '$.environment'), ''),
  version     = coalesce(json_extract(body, '$.release.version'), 0),
  queued      = coalesce(json_extract(body, '$.usage.queue_ns'), 0),
  ran         = coalesce(json_extract(body, '$.usage.run_ns'), 0);
CREATE INDEX receipts_version ON receipts (tool, version) WHERE version <> 0;
