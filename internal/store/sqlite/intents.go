package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

// IntendReceipt implements [receipt.Store].
func (s *Store) IntendReceipt(ctx context.Context, r *toolroom.Receipt, owner string) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.write(ctx, "record a call before it runs", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO intents (call, owner, body) VALUES (?, ?, ?)", r.ID, owner, string(body))
		return err
	})
}

// SettleIntents implements [receipt.Store].
func (s *Store) SettleIntents(ctx context.Context, alive func(owner string) bool, settle func(*toolroom.Receipt)) (n int, err error) {
	err = s.write(ctx, "record calls that never ended", func(tx *sql.Tx) error {
		intents, err := selectAll(ctx, tx, scanIntent, "SELECT owner, body FROM intents WHERE call NOT IN (SELECT id FROM jobs WHERE state <> 'done') ORDER BY seq")
		if err != nil {
			return err
		}
		var lost []*receipt.Draft
		for _, i := range intents {
			if !alive(i.owner) {
				settle(&i.receipt.Receipt)
				lost = append(lost, i.receipt)
			}
		}
		if n = len(lost); n == 0 {
			return nil
		}
		return s.appendReceipts(ctx, tx, lost, make([]receipt.Chain, n))
	})
	return n, err
}

type intent struct {
	owner   string
	receipt *receipt.Draft
}

func scanIntent(row scanner) (intent, error) {
	i := intent{receipt: &receipt.Draft{}}
	err := row.Scan(&i.owner, jsonColumn{i.receipt})
	return i, err
}

// ReceiptSpace implements [receipt.Store].
func (s *Store) ReceiptSpace(context.Context) (int64, error) {
	return freeSpace(filepath.Dir(s.path))
}
