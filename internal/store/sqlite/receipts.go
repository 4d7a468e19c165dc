package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

const insertReceipt = `INSERT INTO receipts
	(seq, hash, body, detail, call, parent, tool, subject, surface, status, code, labels, started, environment, version, queued, ran)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// The other statements that append receipts.
const (
	selectChain   = "SELECT seq, hash FROM receipt_chain"
	selectIntents = "SELECT EXISTS (SELECT 1 FROM intents)"
	selectEntry   = "SELECT entry FROM receipt_journals WHERE journal = ?"
	upsertEntry   = "INSERT INTO receipt_journals (journal, entry) VALUES (?1, ?2) ON CONFLICT (journal) DO UPDATE SET entry = max(entry, ?2)"
	updateChain   = "UPDATE receipt_chain SET seq = ?, hash = ?"
)

// prepareAppend prepares the statements that append receipts.
func (s *Store) prepareAppend(ctx context.Context) error {
	s.appendStatements = map[string]*sql.Stmt{}
	for _, text := range []string{insertReceipt, selectChain, selectIntents, selectEntry, upsertEntry, updateChain} {
		stmt, err := s.writer.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		s.appendStatements[text] = stmt
	}
	return nil
}

// AppendReceipts implements [receipt.Store]. It reads the end of the chain under the
// write lock, because other processes append, too.
func (s *Store) AppendReceipts(ctx context.Context, group []*receipt.Draft) error {
	ends := make([]receipt.Chain, len(group))
	err := s.write(ctx, "write receipts", func(tx *sql.Tx) error {
		// With the lock held no statement waits, so ctx is not needed. The driver
		// would start a goroutine for each statement whose context can end.
		return s.appendReceipts(context.WithoutCancel(ctx), tx, group, ends)
	})
	if err != nil {
		return err
	}
	for i, r := range group {
		r.Seq, r.Hash = ends[i].Seq, ends[i].Hash
	}
	return nil
}

// ForgetJournals deletes the records of journals that no longer exist.
func (s *Store) ForgetJournals(ctx context.Context, gone func(journal string) bool) error {
	const doing = "forget journals of receipts"
	all, err := selectAll(ctx, s.reader, scanOne[string], "SELECT journal FROM receipt_journals")
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	if all = slices.DeleteFunc(all, func(name string) bool { return !gone(name) }); len(all) == 0 {
		return nil
	}
	return s.write(ctx, doing, func(tx *sql.Tx) error {
		for _, name := range all {
			if _, err := tx.ExecContext(ctx, "DELETE FROM receipt_journals WHERE journal = ?", name); err != nil {
				return err
			}
		}
		return nil
	})
}

// journalEntry returns the last entry of a journal that is in the chain. Find is
// [selectEntry].
func journalEntry(ctx context.Context, find *sql.Stmt, journal string) (entry int64, err error) {
	if journal == "" {
		return 0, nil
	}
	err = find.QueryRowContext(ctx, journal).Scan(&entry)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return entry, err
}

// appendReceipts appends a group to the chain and sets the end of the chain after each.
func (s *Store) appendReceipts(ctx context.Context, tx *sql.Tx, group []*receipt.Draft, ends []receipt.Chain) error {
	if len(group) == 0 {
		return nil
	}
	in := func(text string) *sql.Stmt { return tx.StmtContext(ctx, s.appendStatements[text]) } // closed with tx
	var end receipt.Chain
	if err := in(selectChain).QueryRowContext(ctx).Scan(&end.Seq, &end.Hash); err != nil {
		return err
	}
	insert := in(insertReceipt)
	var intended bool
	if err := in(selectIntents).QueryRowContext(ctx).Scan(&intended); err != nil {
		return err
	}
	journal := group[len(group)-1].Journal // all receipts of a group are of one process
	seen, err := journalEntry(ctx, in(selectEntry), journal)
	if err != nil {
		return err
	}
	for i, r := range group {
		if journal != "" && r.Journal == journal && r.Entry <= seen {
			continue
		}
		var k receipt.Record
		if end, k, err = end.NextDraft(r); err != nil {
			return err
		}
		c := columnsOf(&r.Receipt)
		_, err := insert.ExecContext(ctx, k.Seq, k.Hash, string(k.Body), string(k.Detail),
			c.call, c.parent, c.tool, c.subject, c.surface, c.status, c.code, c.labels, c.started, r.Environment, c.version, int64(r.Usage.Queue), int64(r.Usage.Run))
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
	if journal != "" {
		_, err := in(upsertEntry).ExecContext(ctx, journal, group[len(group)-1].Entry)
		if err != nil {
			return err
		}
	}
	_, err = in(updateChain).ExecContext(ctx, end.Seq, end.Hash)
	return err
}

// columns are the indexed columns of a receipt. They repeat members of its body.
type columns struct {
	call, parent, tool, subject, surface, status, code, labels string
	started                                                    int64
	version                                                    int
}

func columnsOf(r *toolroom.Receipt) columns {
	c := columns{
		call: r.ID, parent: r.Parent, tool: r.Tool, subject: r.Identity.Key(), surface: r.Surface,
		status: string(r.Status), started: nanosOf(r.Started),
	}
	if r.Error != nil {
		c.code = string(r.Error.Code)
	}
	if r.Release != nil {
		c.version = r.Release.Version
	}
	if len(r.Labels) > 0 {
		c.labels = "\n" + strings.Join(r.Labels, "\n") + "\n"
	}
	return c
}

func chainEnd(ctx context.Context, tx *sql.Tx) (end receipt.Chain, err error) {
	err = tx.QueryRowContext(ctx, selectChain).Scan(&end.Seq, &end.Hash)
	return end, err
}

// Receipt implements [receipt.Store].
func (s *Store) Receipt(ctx context.Context, id string) (*toolroom.Receipt, error) {
	row := s.reader.QueryRowContext(ctx, selectRecord+" WHERE call = ? ORDER BY seq DESC LIMIT 1", id)
	r, err := scanReceipt(row)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "receipt of call %q not found", id).
			WithCLIHint("list calls: toolroom calls")
	}
	return r, s.fail(ctx, "read a receipt", err)
}

// Receipts implements [receipt.Store].
func (s *Store) Receipts(ctx context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error) {
	order := "DESC"
	if q.AfterSeq != 0 {
		order = "ASC"
	}
	where, args := selection(q)
	list, err := selectAll(ctx, s.reader, scanReceipt, selectRecord+where+" ORDER BY seq "+order+" LIMIT ?", append(args, receipt.RowLimit(q))...)
	return list, s.fail(ctx, "read receipts", err)
}

// ReceiptSamples implements [receipt.Store].
func (s *Store) ReceiptSamples(ctx context.Context, q toolroom.ReceiptQuery, see func(receipt.Sample) bool) error {
	const doing = "read samples of receipts"
	limit := q.Limit
	if limit <= 0 {
		limit = -1
	}
	where, args := selection(q)
	rows, err := s.reader.QueryContext(ctx, "SELECT seq, call, tool, subject, surface, status, code, started, environment, version, queued, ran FROM receipts"+where+" ORDER BY seq LIMIT ?", append(args, limit)...)
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		var one receipt.Sample
		err := rows.Scan(&one.Seq, &one.Call, &one.Tool, &one.Subject, &one.Surface, &one.Status, &one.Code, timeColumn{&one.Started},
			&one.Environment, &one.Version, &one.Queue, &one.Run)
		if err != nil {
			return s.fail(ctx, doing, err)
		}
		if !see(one) {
			return nil
		}
	}
	return s.fail(ctx, doing, rows.Err())
}

// jsonList returns a list as JSON; nil is an empty list.
func jsonList(list []string) string {
	text, err := json.Marshal(append([]string{}, list...))
	if err != nil {
		panic(err) // it holds only strings
	}
	return string(text)
}

// selection returns the WHERE clause of a query, and its arguments.
func selection(q toolroom.ReceiptQuery) (clause string, args []any) {
	var where []string
	restrict := func(condition string, value any) {
		where = append(where, condition)
		args = append(args, value)
	}
	if q.Tool != "" {
		restrict("tool = ?", q.Tool)
	}
	if q.Version != 0 {
		restrict("version <> 0 AND version = ?", q.Version) // as in its partial index
	}
	if q.Environment != "" {
		restrict("environment = ?", q.Environment)
	}
	if q.Subject != "" {
		restrict("subject = ?", q.Subject)
	}
	if who := q.ReachedBy; who != nil {
		restrict("subject = ?", who.Key())
		for member, named := range map[string]string{"agent": who.Agent, "provider": who.Provider, "skill": who.Skill, "set": who.Set, "environment": who.Environment} {
			if named != "" {
				restrict("body ->> '$.identity."+member+"' = ?", named)
			}
		}
		const others = "NOT EXISTS (SELECT 1 FROM json_each(body, '$.identity.%s') WHERE value NOT IN (SELECT value FROM json_each(?)))"
		restrict(fmt.Sprintf(others, "groups"), jsonList(who.Groups))
		if who.Scopes != nil {
			where = append(where, "json_type(body, '$.identity.scopes') = 'array'")
			restrict(fmt.Sprintf(others, "scopes"), jsonList(who.Scopes))
		}
	}
	if q.Surface != "" {
		restrict("surface = ?", q.Surface)
	}
	if q.Status != "" {
		restrict("status = ?", string(q.Status))
	}
	if q.Code != "" {
		restrict("code <> '' AND code = ?", string(q.Code)) // as in its partial index
	}
	if q.Label != "" {
		restrict("labels <> '' AND instr(labels, ?) > 0", "\n"+q.Label+"\n")
	}
	if !q.Until.IsZero() {
		restrict("started < ?", nanosOf(q.Until))
	}
	if q.Parent != "" {
		restrict("parent <> '' AND parent = ?", q.Parent) // as in its partial index
	}
	if !q.Since.IsZero() {
		// The second condition ends the scan in order of seq. Without it, a query
		// with few matches would read the whole table.
		restrict("started >= ?", nanosOf(q.Since))
		restrict("seq >= (SELECT min(seq) FROM receipts WHERE started >= ?)", nanosOf(q.Since))
	}
	if q.AfterSeq != 0 {
		restrict("seq > ?", q.AfterSeq)
	}
	if q.BeforeSeq != 0 {
		restrict("seq < ?", q.BeforeSeq)
	}
	if len(where) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(where, " AND "), args
}

const selectRecord = "SELECT seq, hash, body, detail FROM receipts"

func scanRecord(row scanner) (k receipt.Record, err error) {
	err = row.Scan(&k.Seq, &k.Hash, rawColumn{&k.Body}, rawColumn{&k.Detail})
	return k, err
}

func scanReceipt(row scanner) (*toolroom.Receipt, error) {
	k, err := scanRecord(row)
	if err != nil {
		return nil, err
	}
	return k.Receipt()
}
