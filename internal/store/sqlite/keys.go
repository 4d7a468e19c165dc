package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// ClaimKey implements [run.KeyStore]. Each claim also deletes some expired records, so
// that the table does not grow for ever.
func (s *Store) ClaimKey(ctx context.Context, k run.KeyRecord, now time.Time) (held run.KeyRecord, claimed bool, err error) {
	err = s.write(ctx, "claim an idempotency key", func(tx *sql.Tx) error {
		const clear = "DELETE FROM keys WHERE rowid IN (SELECT rowid FROM keys WHERE expires < ? LIMIT 100)"
		if _, err := tx.ExecContext(ctx, clear, nanosOf(now)); err != nil {
			return err
		}
		held, err = findKey(ctx, tx, k.Identity, k.Key)
		if err == nil && !held.Expires.Before(now) {
			return nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO keys
			(identity, key, tool, arguments_hash, call, owner, created, expires, result)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			k.Identity, k.Key, k.Tool, k.ArgumentsHash, k.Call, k.Owner, nanosOf(k.Created), nanosOf(k.Expires), string(k.Result))
		held, claimed = k, true
		return err
	})
	if err != nil {
		return run.KeyRecord{}, false, err
	}
	return held, claimed, nil
}

// FinishKey implements [run.KeyStore].
func (s *Store) FinishKey(ctx context.Context, identity, key, call string, result json.RawMessage) error {
	return s.write(ctx, "store the result of an idempotent call", func(tx *sql.Tx) error {
		held, err := findKey(ctx, tx, identity, key)
		if errors.Is(err, sql.ErrNoRows) {
			return toolroom.Errorf(toolroom.CodeNotFound, "no call holds the idempotency key %q", key)
		}
		if err != nil {
			return err
		}
		if held.Call != call {
			return heldByOther(held)
		}
		_, err = tx.ExecContext(ctx, "UPDATE keys SET result = ? WHERE identity = ? AND key = ?", string(result), identity, key)
		return err
	})
}

// ReleaseKey implements [run.KeyStore].
func (s *Store) ReleaseKey(ctx context.Context, identity, key, call string) error {
	return s.write(ctx, "release an idempotency key", func(tx *sql.Tx) error {
		held, err := findKey(ctx, tx, identity, key)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return err
		case held.Call != call:
			return heldByOther(held)
		case held.Result != nil:
			return toolroom.Errorf(toolroom.CodeConflict, "call %s with the idempotency key %q already has a result", call, key)
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM keys WHERE identity = ? AND key = ?", identity, key)
		return err
	})
}

func heldByOther(held run.KeyRecord) error {
	return toolroom.Errorf(toolroom.CodeConflict, "the idempotency key %q belongs to call %s", held.Key, held.Call)
}

func findKey(ctx context.Context, tx *sql.Tx, identity, key string) (k run.KeyRecord, err error) {
	const query = `SELECT identity, key, tool, arguments_hash, call, owner, created, expires, result
		FROM keys WHERE identity = ? AND key = ?`
	err = tx.QueryRowContext(ctx, query, identity, key).Scan(&k.Identity, &k.Key, &k.Tool, &k.ArgumentsHash, &k.Call, &k.Owner,
		timeColumn{&k.Created}, timeColumn{&k.Expires}, rawColumn{&k.Result})
	return k, err
}
