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
	(seq, hash, body, call, parent, tool, subject, surface, status, started)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// AppendReceipts implements [receipt.Store]. The end of the chain is read under
// the write lock, because other processes append too.
func (s *Store) AppendReceipts(ctx context.Context, group []*receipt.Receipt) error {
	ends := make([]receipt.Chain, len(group))
	err := s.write(ctx, "write receipts", func(tx *sql.Tx) error {
		end, err := chainEnd(ctx, tx)
		if err != nil {
			return err
		}
		insert, err := tx.PrepareContext(ctx, insertReceipt)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i, r := range group {
			var body []byte
			if end, body, err = end.Next(r); err != nil {
				return err
			}
			c := columnsOf(r)
			_, err := insert.ExecContext(ctx, end.Seq, end.Hash, string(body), c.call, c.parent, c.tool, c.subject, c.surface, c.status, c.started)
			if err != nil {
				return err
			}
			ends[i] = end
		}
		_, err = tx.ExecContext(ctx, "UPDATE receipt_chain SET seq = ?, hash = ?", end.Seq, end.Hash)
		return err
	})
	if err != nil {
		return err
	}
	for i, r := range group {
		r.Seq, r.Hash = ends[i].Seq, ends[i].Hash
	}
	return nil
}

// columns are what a receipt is found by. They repeat what its body says.
type columns struct {
	call, parent, tool, subject, surface, status string
	started                                      int64
}

func columnsOf(r *receipt.Receipt) columns {
	return columns{r.ID, r.Parent, r.Tool, r.Identity.Key(), r.Surface, string(r.Status), instant(r.Started)}
}

func chainEnd(ctx context.Context, tx *sql.Tx) (end receipt.Chain, err error) {
	err = tx.QueryRowContext(ctx, "SELECT seq, hash FROM receipt_chain").Scan(&end.Seq, &end.Hash)
	return end, err
}

// Receipt implements [receipt.Store].
func (s *Store) Receipt(ctx context.Context, id string) (*receipt.Receipt, error) {
	row := s.reader.QueryRowContext(ctx, "SELECT hash, body FROM receipts WHERE call = ? ORDER BY seq DESC LIMIT 1", id)
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
	query := "SELECT hash, body FROM receipts"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += " ORDER BY seq " + order + " LIMIT ?"
	list, err := selectAll(ctx, s.reader, scanReceipt, query, append(args, q.RowLimit())...)
	return list, s.fail(ctx, "read receipts", err)
}

func scanReceipt(row scanner) (*receipt.Receipt, error) {
	var hash string
	var body []byte
	if err := row.Scan(&hash, &body); err != nil {
		return nil, err
	}
	return receipt.Decode(hash, body)
}

// VerifyReceipts implements [receipt.Store]. It reads one snapshot, so appends
// go on meanwhile.
func (s *Store) VerifyReceipts(ctx context.Context) (n int64, err error) {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return 0, s.fail(ctx, "verify receipts", err)
	}
	defer tx.Rollback() // nothing was written
	noted, err := chainEnd(ctx, tx)
	if err != nil {
		return 0, s.fail(ctx, "verify receipts", err)
	}
	at, err := walkChain(ctx, tx)
	if err == nil {
		err = at.CheckEnd(noted)
	}
	return at.Seq, s.fail(ctx, "verify receipts", err)
}

// walkChain checks link after link, and returns how far they fit.
func walkChain(ctx context.Context, tx *sql.Tx) (at receipt.Chain, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT seq, hash, body, call, parent, tool, subject, surface, status, started FROM receipts ORDER BY seq")
	if err != nil {
		return at, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var hash string
		var body []byte
		var found columns
		if err := rows.Scan(&seq, &hash, &body, &found.call, &found.parent, &found.tool, &found.subject, &found.surface, &found.status, &found.started); err != nil {
			return at, err
		}
		next, r, err := at.Check(seq, hash, body)
		if err != nil {
			return at, err
		}
		if found != columnsOf(r) {
			return at, receipt.Broken(r.ID, seq, "what it is found by is not what was recorded")
		}
		at = next
	}
	return at, rows.Err()
}
