package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

const insertReceipt = `INSERT INTO receipts
	(seq, hash, body, detail, call, parent, tool, subject, surface, status, code, labels, started)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// AppendReceipts implements [receipt.Store]. The end of the chain is read under
// the write lock, because other processes append too.
func (s *Store) AppendReceipts(ctx context.Context, group []*receipt.Receipt) error {
	ends := make([]receipt.Chain, len(group))
	err := s.write(ctx, "write receipts", func(tx *sql.Tx) error {
		// Once the lock is had nothing waits any more, and the driver starts a
		// goroutine for each statement whose context can end.
		return appendReceipts(context.WithoutCancel(ctx), tx, group, ends)
	})
	if err != nil {
		return err
	}
	for i, r := range group {
		r.Seq, r.Hash = ends[i].Seq, ends[i].Hash
	}
	return nil
}

// appendReceipts links a group to the chain and fills in where each came.
func appendReceipts(ctx context.Context, tx *sql.Tx, group []*receipt.Receipt, ends []receipt.Chain) error {
	end, err := chainEnd(ctx, tx)
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, insertReceipt)
	if err != nil {
		return err
	}
	defer insert.Close()
	var intended bool
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM intents)").Scan(&intended); err != nil {
		return err
	}
	for i, r := range group {
		var k receipt.Record
		if end, k, err = end.Next(r); err != nil {
			return err
		}
		c := columnsOf(r)
		_, err := insert.ExecContext(ctx, k.Seq, k.Hash, string(k.Body), string(k.Detail),
			c.call, c.parent, c.tool, c.subject, c.surface, c.status, c.code, c.labels, c.started)
		if err != nil {
			return err
		}
		if intended {
			if _, err := tx.ExecContext(ctx, "DELETE FROM intents WHERE call = ?", r.ID); err != nil {
				return err
			}
		}
		ends[i] = end
	}
	_, err = tx.ExecContext(ctx, "UPDATE receipt_chain SET seq = ?, hash = ?", end.Seq, end.Hash)
	return err
}

// columns are what a receipt is found by. They repeat what its body says.
type columns struct {
	call, parent, tool, subject, surface, status, code, labels string
	started                                                    int64
}

func columnsOf(r *receipt.Receipt) columns {
	c := columns{
		call: r.ID, parent: r.Parent, tool: r.Tool, subject: r.Identity.Key(), surface: r.Surface,
		status: string(r.Status), started: instant(r.Started),
	}
	if r.Error != nil {
		c.code = string(r.Error.Code)
	}
	if len(r.Labels) > 0 {
		c.labels = "\n" + strings.Join(r.Labels, "\n") + "\n"
	}
	return c
}

func chainEnd(ctx context.Context, tx *sql.Tx) (end receipt.Chain, err error) {
	err = tx.QueryRowContext(ctx, "SELECT seq, hash FROM receipt_chain").Scan(&end.Seq, &end.Hash)
	return end, err
}

// Receipt implements [receipt.Store].
func (s *Store) Receipt(ctx context.Context, id string) (*receipt.Receipt, error) {
	row := s.reader.QueryRowContext(ctx, selectRecord+" WHERE call = ? ORDER BY seq DESC LIMIT 1", id)
	r, err := scanReceipt(row)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no receipt of a call %q", id).
			WithHint("list the calls with: toolroom calls")
	}
	return r, s.fail(ctx, "read a receipt", err)
}

// Receipts implements [receipt.Store].
func (s *Store) Receipts(ctx context.Context, q receipt.Query) ([]*receipt.Receipt, error) {
	var where []string
	var args []any
	restrict := func(condition string, value any) {
		where = append(where, condition)
		args = append(args, value)
	}
	if q.Tool != "" {
		restrict("tool = ?", q.Tool)
	}
	if q.Subject != "" {
		restrict("subject = ?", q.Subject)
	}
	if q.Surface != "" {
		restrict("surface = ?", q.Surface)
	}
	if q.Status != "" {
		restrict("status = ?", string(q.Status))
	}
	if q.Code != "" {
		restrict("code <> '' AND code = ?", string(q.Code)) // as its index says
	}
	if q.Label != "" {
		restrict("labels <> '' AND instr(labels, ?) > 0", "\n"+q.Label+"\n")
	}
	if !q.Until.IsZero() {
		restrict("started < ?", instant(q.Until))
	}
	if q.Parent != "" {
		restrict("parent <> '' AND parent = ?", q.Parent) // as its index says
	}
	if !q.Since.IsZero() {
		// The second condition gives the scan in order of seq an end: without
		// it, few matches would mean reading the whole table.
		restrict("started >= ?", instant(q.Since))
		restrict("seq >= (SELECT min(seq) FROM receipts WHERE started >= ?)", instant(q.Since))
	}
	order := "DESC"
	if q.AfterSeq != 0 {
		order = "ASC"
		restrict("seq > ?", q.AfterSeq)
	}
	if q.BeforeSeq != 0 {
		restrict("seq < ?", q.BeforeSeq)
	}
	query := selectRecord
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += " ORDER BY seq " + order + " LIMIT ?"
	list, err := selectAll(ctx, s.reader, scanReceipt, query, append(args, q.RowLimit())...)
	return list, s.fail(ctx, "read receipts", err)
}

const selectRecord = "SELECT seq, hash, body, detail FROM receipts"

func scanRecord(row scanner) (k receipt.Record, err error) {
	err = row.Scan(&k.Seq, &k.Hash, rawColumn{&k.Body}, rawColumn{&k.Detail})
	return k, err
}

func scanReceipt(row scanner) (*receipt.Receipt, error) {
	k, err := scanRecord(row)
	if err != nil {
		return nil, err
	}
	return k.Receipt()
}
