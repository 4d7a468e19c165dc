-- detail is what a redaction takes out; code and labels repeat the body.
ALTER TABLE receipts ADD COLUMN detail TEXT NOT NULL DEFAULT '';
ALTER TABLE receipts ADD COLUMN code   TEXT NOT NULL DEFAULT '';
ALTER TABLE receipts ADD COLUMN labels TEXT NOT NULL DEFAULT '';
UPDATE receipts SET code = coalesce(json_extract(body, '$.error.code'), '');
CREATE INDEX receipts_code   ON receipts (code)   WHERE code <> '';
CREATE INDEX receipts_labels ON receipts (labels) WHERE labels <> '';

-- Where the chain begins after older receipts were removed.
CREATE TABLE receipt_checkpoint (
  only      INTEGER PRIMARY KEY CHECK (only = 1),
  seq       INTEGER NOT NULL,
  hash      TEXT    NOT NULL,
  time      INTEGER NOT NULL,
  signature BLOB    NOT NULL
) STRICT;
INSERT INTO receipt_checkpoint VALUES (1, 0, '', 0, x'');
