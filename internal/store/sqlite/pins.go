package sqlite

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom/internal/pin"
)

// Pins implements [pin.Store].
func (s *Store) Pins(ctx context.Context, source string) ([]pin.Pin, error) {
	list, err := selectAll(ctx, s.reader, scanPin, "SELECT source, tool, hash, definition, raw, pinned FROM pins WHERE source = ? ORDER BY tool", source)
	return list, s.fail(ctx, "read pins", err)
}

// AddPins implements [pin.Store].
func (s *Store) AddPins(ctx context.Context, pins []pin.Pin) error {
	return s.fail(ctx, "store pins", s.putPins(ctx, nil, pins, "NOTHING"))
}

// ReplacePins implements [pin.Store].
func (s *Store) ReplacePins(ctx context.Context, source string, pins []pin.Pin) error {
	return s.fail(ctx, "replace pins", s.putPins(ctx, &source, pins, "NOTHING"))
}

// WidenPins implements [pin.Store].
func (s *Store) WidenPins(ctx context.Context, pins []pin.Pin) error {
	return s.fail(ctx, "widen pins", s.putPins(ctx, nil, pins, "UPDATE SET hash = excluded.hash, definition = excluded.definition, raw = excluded.raw"))
}

func (s *Store) putPins(ctx context.Context, instead *string, pins []pin.Pin, conflict string) error {
	if instead == nil && len(pins) == 0 {
		return nil
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	if instead != nil {
		if _, err := tx.ExecContext(ctx, "DELETE FROM pins WHERE source = ?", *instead); err != nil {
			return err
		}
	}
	for _, p := range pins {
		_, err := tx.ExecContext(ctx, "INSERT INTO pins (source, tool, hash, definition, raw, pinned) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (source, tool) DO "+conflict,
			p.Source, p.Tool, p.Hash, string(p.Definition), string(p.Raw), instant(p.Pinned))
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func scanPin(row scanner) (pin.Pin, error) {
	var p pin.Pin
	var definition, raw string
	err := row.Scan(&p.Source, &p.Tool, &p.Hash, &definition, &raw, timeColumn{&p.Pinned})
	p.Definition = json.RawMessage(definition)
	if raw != "" {
		p.Raw = json.RawMessage(raw)
	}
	return p, err
}
