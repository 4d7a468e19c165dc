package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
)

// ReadTables reads tables of another program's database file, which it does not change. A
// table that is not there has no rows. Values are text, numbers, bytes or nil, by column.
func ReadTables(ctx context.Context, file string, names []string) (map[string][]map[string]any, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	tables := map[string][]map[string]any{}
	for _, name := range names {
		var n int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", name).Scan(&n); err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		if tables[name], err = readTable(ctx, db, name); err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return tables, nil
}

func readTable(ctx context.Context, db *sql.DB, name string) ([]map[string]any, error) {
	rows, err := db.QueryContext(ctx, `SELECT * FROM "`+name+`"`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for rows.Next() {
		values, places := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			places[i] = &values[i]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		r := map[string]any{}
		for i, column := range columns {
			r[column] = values[i]
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
