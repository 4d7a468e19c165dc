package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// The earliest and the latest time that can be stored, in 1677 and 2262.
var (
	earliest = time.Unix(0, math.MinInt64)
	latest   = time.Unix(0, math.MaxInt64)
)

// nanosOf returns a time as it is stored: nanoseconds since 1970, 0 for the zero time. For a
// time that is too early or too late it is the earliest or latest one.
func nanosOf(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(earliest):
		return math.MinInt64
	case t.After(latest):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// timeColumn scans an instant into a time.
type timeColumn struct{ t *time.Time }

func (c timeColumn) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", v)
	}
	*c.t = time.Time{}
	if n != 0 {
		*c.t = time.Unix(0, n).UTC()
	}
	return nil
}

// jsonColumn scans JSON text into a value. An empty text leaves the value unchanged.
type jsonColumn struct{ into any }

func (c jsonColumn) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("JSON is stored as %T", v)
	}
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), c.into)
}

// asJSON is a value that is stored as JSON text, for a jsonColumn.
type asJSON struct{ v any }

func (j asJSON) Value() (sqldriver.Value, error) {
	text, err := json.Marshal(j.v)
	return string(text), err
}

// jsonUnlessEmpty is an asJSON that is stored as an empty text if it is null or [].
type jsonUnlessEmpty struct{ v any }

func (j jsonUnlessEmpty) Value() (sqldriver.Value, error) {
	text, err := asJSON(j).Value()
	if text == "null" || text == "[]" {
		text = ""
	}
	return text, err
}

// scanJSON scans a row of one jsonColumn.
func scanJSON[T any](row scanner) (v T, err error) {
	err = row.Scan(jsonColumn{&v})
	return v, err
}

// scanOne scans a row of one column.
func scanOne[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// rawColumn scans JSON text unchanged. An empty text becomes nil.
type rawColumn struct{ into *json.RawMessage }

func (c rawColumn) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("JSON is stored as %T", v)
	}
	*c.into = nil
	if text != "" {
		*c.into = json.RawMessage(text)
	}
	return nil
}

// querier and rowQuerier are the methods that a transaction and a pool of connections share.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// scanner is a [sql.Row] or [sql.Rows].
type scanner interface{ Scan(dest ...any) error }

// selectAll reads every row of a query. It never returns a nil slice.
func selectAll[T any](ctx context.Context, db querier, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}
