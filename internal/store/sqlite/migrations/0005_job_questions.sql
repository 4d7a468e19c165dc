-- What a job asks of the client that submitted it, and whether it is to end.
ALTER TABLE jobs ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN answers TEXT NOT NULL DEFAULT '';

CREATE TABLE job_questions (
  job    TEXT    NOT NULL,
  key    TEXT    NOT NULL,
  method TEXT    NOT NULL,
  params TEXT    NOT NULL,
  answer TEXT    NOT NULL,
  asked  INTEGER NOT NULL,
  PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;
