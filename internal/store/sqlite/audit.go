package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

// VerifyReceipts implements [receipt.Store]. It reads one snapshot, so that appends can
// continue meanwhile.
func (s *Store) VerifyReceipts(ctx context.Context, trust func(receipt.Checkpoint) error) (n int64, err error) {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return 0, s.fail(ctx, "verify receipts", err)
	}
	defer tx.Rollback() // nothing was written
	first, noted, err := chainEnds(ctx, tx)
	if err == nil && first.Seq != 0 {
		if trust == nil {
			err = receipt.Broken("", first.Seq+1, "receipts before it were removed, and there is no key to verify the removal")
		} else {
			err = trust(first)
		}
	}
	if err != nil {
		return 0, s.fail(ctx, "verify receipts", err)
	}
	walk := receipt.Walk{At: first.Chain()}
	if n, err = walkChain(ctx, tx, &walk); err == nil {
		err = walk.End(noted)
	}
	return n, s.fail(ctx, "verify receipts", err)
}

// walkChain verifies the receipts in order, and returns the number of valid ones.
func walkChain(ctx context.Context, tx *sql.Tx, walk *receipt.Walk) (n int64, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT seq, hash, body, detail, call, parent, tool, subject, surface, status, code, labels, started, version FROM receipts ORDER BY seq")
	if err != nil {
		return n, err
	}
	defer rows.Close()
	for rows.Next() {
		var k receipt.Record
		var found columns
		if err := rows.Scan(&k.Seq, &k.Hash, rawColumn{&k.Body}, rawColumn{&k.Detail}, &found.call, &found.parent, &found.tool,
			&found.subject, &found.surface, &found.status, &found.code, &found.labels, &found.started, &found.version); err != nil {
			return n, err
		}
		r, err := walk.Next(k)
		if err != nil {
			return n, err
		}
		if found != columnsOf(r) {
			return n, receipt.Broken(r.ID, k.Seq, "its indexed columns differ from its body")
		}
		n++
	}
	return n, rows.Err()
}

func chainEnds(ctx context.Context, tx *sql.Tx) (first receipt.Checkpoint, end receipt.Chain, err error) {
	err = tx.QueryRowContext(ctx, "SELECT seq, hash, time, signature FROM receipt_checkpoint").
		Scan(&first.Seq, &first.Hash, timeColumn{&first.Time}, &first.Signature)
	if err == nil {
		end, err = chainEnd(ctx, tx)
	}
	return first, end, err
}

// ReceiptEnds implements [receipt.Store].
func (s *Store) ReceiptEnds(ctx context.Context) (first receipt.Checkpoint, end receipt.Chain, err error) {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return first, end, s.fail(ctx, "read the ends of the receipts", err)
	}
	defer tx.Rollback() // nothing was written
	first, end, err = chainEnds(ctx, tx)
	return first, end, s.fail(ctx, "read the ends of the receipts", err)
}

// ReceiptRecords implements [receipt.Store].
func (s *Store) ReceiptRecords(ctx context.Context, after int64, limit int) ([]receipt.Record, error) {
	list, err := selectAll(ctx, s.reader, scanRecord, selectRecord+" WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
	return list, s.fail(ctx, "read receipts", err)
}

// ReceiptRange implements [receipt.Store].
func (s *Store) ReceiptRange(ctx context.Context, since, until time.Time) (from, to int64, err error) {
	var first, last sql.NullInt64
	condition, args := "", []any(nil)
	if !until.IsZero() {
		condition, args = " WHERE started < ?", []any{nanosOf(until)}
	}
	err = s.reader.QueryRowContext(ctx, "SELECT (SELECT min(seq) FROM receipts WHERE started >= ?), (SELECT max(seq) FROM receipts"+condition+")",
		append([]any{nanosOf(since)}, args...)...).Scan(&first, &last)
	if err != nil {
		return 0, 0, s.fail(ctx, "read receipts", err)
	}
	if !first.Valid || !last.Valid {
		return 1, 0, nil
	}
	return first.Int64, last.Int64, nil
}

// RedactReceipts implements [receipt.Store]. It overwrites the removed details in the
// file, and removes them from the write-ahead log, too.
func (s *Store) RedactReceipts(ctx context.Context, call string, notice *toolroom.Receipt) error {
	const doing = "redact a receipt"
	if _, err := s.writer.ExecContext(ctx, "PRAGMA secure_delete = ON"); err != nil {
		return s.fail(ctx, doing, err)
	}
	ends := make([]receipt.Chain, 1)
	err := s.write(ctx, doing, func(tx *sql.Tx) error {
		stored, err := selectAll(ctx, tx, scanRecord, selectRecord+" WHERE call = ? ORDER BY seq", call)
		if err != nil {
			return err
		}
		if notice.Redacts, err = redactable(call, stored); err != nil {
			return err
		}
		for _, seq := range notice.Redacts {
			if _, err := tx.ExecContext(ctx, "UPDATE receipts SET detail = '' WHERE seq = ?", seq); err != nil {
				return err
			}
		}
		return s.appendReceipts(ctx, tx, []*receipt.Draft{{Receipt: *notice}}, ends)
	})
	if err != nil {
		return err
	}
	notice.Seq, notice.Hash = ends[0].Seq, ends[0].Hash
	var busy, pages, done int
	err = s.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &done)
	if err == nil && busy != 0 {
		err = errors.New("the database is being read: until the next checkpoint its log still has the removed details")
	}
	return s.fail(ctx, doing, err)
}

// redactable returns the sequence numbers of a call's receipts that still have details.
func redactable(call string, stored []receipt.Record) ([]int64, error) {
	var places []int64
	old := false
	for _, k := range stored {
		r, err := k.Receipt()
		if err != nil {
			return nil, err
		}
		switch {
		case r.Redacted:
		case len(k.Detail) == 0:
			old = true
		default:
			places = append(places, k.Seq)
		}
	}
	switch {
	case len(places) > 0:
		return places, nil
	case len(stored) == 0:
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "receipt of call %q not found", call).
			WithCLIHint("list calls: toolroom calls")
	case old:
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "the receipt of call %s cannot be redacted: an older Toolroom wrote it", call).
			WithCLIHint("remove it and all earlier receipts: toolroom audit prune")
	default:
		return nil, toolroom.Errorf(toolroom.CodeConflict, "the details of call %s have already been removed", call)
	}
}

// PruneReceipts implements [receipt.Store].
func (s *Store) PruneReceipts(ctx context.Context, before time.Time, sign func(*receipt.Checkpoint) error) (n int64, err error) {
	err = s.write(ctx, "remove old receipts", func(tx *sql.Tx) error {
		first, end, err := chainEnds(ctx, tx)
		if err != nil {
			return err
		}
		var keep sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT min(seq) FROM receipts WHERE started >= ?", nanosOf(before)).Scan(&keep); err != nil {
			return err
		}
		last := end.Seq
		if keep.Valid {
			last = keep.Int64 - 1
		}
		if last <= first.Seq {
			return nil
		}
		next := receipt.Checkpoint{Seq: last, Time: time.Now().UTC()}
		if err := tx.QueryRowContext(ctx, "SELECT hash FROM receipts WHERE seq = ?", last).Scan(&next.Hash); err != nil {
			return fmt.Errorf("receipt %d: %w", last, err)
		}
		if err := sign(&next); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, "DELETE FROM receipts WHERE seq <= ?", last)
		if err != nil {
			return err
		}
		if n, err = done.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE receipt_checkpoint SET seq = ?, hash = ?, time = ?, signature = ?", next.Seq, next.Hash, nanosOf(next.Time), next.Signature)
		return err
	})
	return n, err
}
