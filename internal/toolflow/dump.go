package toolflow

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// dumpTables reads the rows of ToolFlow's tables from the SQL text that mysqldump writes.
func dumpTables(file string) (map[string][]row, error) {
	text, err := readText(file)
	if err != nil {
		return nil, err
	}
	d := &dump{text: text, columns: map[string][]string{}, tables: map[string][]row{}}
	for d.skip(); d.pos < len(d.text); d.skip() {
		if err := d.readStatement(); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s:%d: %w", file, 1+strings.Count(d.text[:d.pos], "\n"), err).
				WithHint("write it with mysqldump, without --xml and --tab")
		}
	}
	return d.tables, nil
}

// readText returns the text of a file, which is in memory once: values of rows are parts of it.
func readText(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.Grow(int(min(info.Size(), maxFile)))
	if _, err := io.Copy(&text, io.LimitReader(f, maxFile+1)); err != nil {
		return "", err
	}
	if text.Len() > maxFile {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is larger than %d bytes", file, maxFile)
	}
	return text.String(), nil
}

// dump is a position in a dump.
type dump struct {
	text    string
	pos     int
	columns map[string][]string // of the tables, in order
	tables  map[string][]row
}

// skip skips blanks and comments.
func (d *dump) skip() {
	for d.pos < len(d.text) {
		rest := d.text[d.pos:]
		switch {
		case strings.ContainsRune(" \t\r\n;", rune(rest[0])):
			d.pos++
		case strings.HasPrefix(rest, "-- "), strings.HasPrefix(rest, "--\n"), strings.HasPrefix(rest, "--\r"), rest[0] == '#':
			d.skipPast("\n")
		case strings.HasPrefix(rest, "/*"):
			d.skipPast("*/")
		default:
			return
		}
	}
}

// skipPast moves behind the next occurrence of a text, or to the end.
func (d *dump) skipPast(end string) {
	if i := strings.Index(d.text[d.pos:], end); i >= 0 {
		d.pos += i + len(end)
		return
	}
	d.pos = len(d.text)
}

// readStatement reads a statement. Those that create tables or insert rows count.
func (d *dump) readStatement() error {
	switch {
	case d.acceptWords("CREATE", "TABLE"):
		d.acceptWords("IF", "NOT", "EXISTS")
		return d.readCreateTable()
	case d.acceptWords("INSERT", "INTO"), d.acceptWords("INSERT", "IGNORE", "INTO"), d.acceptWords("REPLACE", "INTO"):
		return d.readInsert()
	}
	for d.pos < len(d.text) {
		t, err := d.nextToken()
		if err != nil || t.text == ";" && t.kind == symbol {
			return err
		}
	}
	return nil
}

// acceptWords reads words if they are next.
func (d *dump) acceptWords(words ...string) bool {
	from := d.pos
	for _, w := range words {
		d.skipBlanks()
		end := d.pos + len(w)
		if end > len(d.text) || !strings.EqualFold(d.text[d.pos:end], w) {
			d.pos = from
			return false
		}
		d.pos = end
	}
	return true
}

func (d *dump) skipBlanks() {
	for d.pos < len(d.text) && strings.ContainsRune(" \t\r\n", rune(d.text[d.pos])) {
		d.pos++
	}
}

// readCreateTable reads the names of the columns of a table.
func (d *dump) readCreateTable() error {
	name, err := d.nextToken()
	if err != nil {
		return err
	}
	depth, begins := 0, false
	var columns []string
	for d.pos < len(d.text) {
		t, err := d.nextToken()
		if err != nil {
			return err
		}
		switch {
		case t.kind == symbol && t.text == ";":
			d.columns[name.text] = columns
			return nil
		case t.kind == symbol && t.text == "(":
			depth++
			begins = depth == 1
			continue
		case t.kind == symbol && t.text == ")":
			depth--
		case t.kind == symbol && t.text == ",":
			begins = depth == 1
			continue
		case begins && t.kind == quotedName:
			columns = append(columns, t.text)
		}
		begins = false
	}
	return fmt.Errorf("the statement does not end")
}

// readInsert reads rows.
func (d *dump) readInsert() error {
	name, err := d.nextToken()
	if err != nil {
		return err
	}
	columns := d.columns[name.text]
	t, err := d.nextToken()
	if err == nil && t.kind == symbol && t.text == "(" {
		columns = nil
		for err == nil && (t.kind != symbol || t.text != ")") {
			if t, err = d.nextToken(); t.kind == quotedName || t.kind == word {
				columns = append(columns, t.text)
			}
		}
		t, err = d.nextToken()
	}
	if err != nil {
		return err
	}
	if t.kind != word || !strings.EqualFold(t.text, "VALUES") {
		return fmt.Errorf("VALUES is expected, and %q was found", t.text)
	}
	for d.pos < len(d.text) {
		if t, err = d.nextToken(); err != nil {
			return err
		}
		switch {
		case t.kind == symbol && t.text == ";":
			return nil
		case t.kind == symbol && t.text == ",":
		case t.kind == symbol && t.text == "(":
			r, err := d.readRow(columns)
			if err != nil {
				return err
			}
			if slices.Contains(tableNames(), name.text) {
				d.tables[name.text] = append(d.tables[name.text], r)
			}
		default:
			return fmt.Errorf("a row is expected, and %q was found", t.text)
		}
	}
	return nil
}

func (d *dump) readRow(columns []string) (row, error) {
	r := row{}
	for i := 0; ; i++ {
		t, err := d.nextToken()
		if err != nil {
			return nil, err
		}
		if t.kind == word && strings.HasPrefix(t.text, "_") { // the character set of the text that follows
			if t, err = d.nextToken(); err != nil {
				return nil, err
			}
		}
		if i >= len(columns) {
			return nil, fmt.Errorf("a row has more values than its table has columns (%d)", len(columns))
		}
		switch {
		case t.kind == word && strings.EqualFold(t.text, "NULL"):
			r[columns[i]] = nil
		case t.kind == word && strings.HasPrefix(t.text, "0x"):
			data, err := hex.DecodeString(t.text[2:])
			if err != nil {
				return nil, err
			}
			r[columns[i]] = string(data)
		case t.kind == symbol:
			return nil, fmt.Errorf("a value is expected, and %q was found", t.text)
		default:
			r[columns[i]] = t.text
		}
		if t, err = d.nextToken(); err != nil {
			return nil, err
		}
		if t.kind == symbol && t.text == ")" {
			return r, nil
		}
		if t.kind != symbol || t.text != "," {
			return nil, fmt.Errorf("a comma is expected, and %q was found", t.text)
		}
	}
}

type kind int

const (
	word kind = iota
	text
	quotedName
	symbol
)

type token struct {
	kind kind
	text string
}

func (d *dump) nextToken() (token, error) {
	for d.skipBlanks(); strings.HasPrefix(d.text[d.pos:], "/*"); d.skipBlanks() {
		d.skipPast("*/")
	}
	if d.pos >= len(d.text) {
		return token{}, fmt.Errorf("the text ends in the middle of a statement")
	}
	switch c := d.text[d.pos]; c {
	case '\'', '"':
		s, err := d.readQuoted(c)
		return token{text, s}, err
	case '`':
		s, err := d.readQuoted(c)
		return token{quotedName, s}, err
	case '(', ')', ',', ';', '=':
		d.pos++
		return token{symbol, string(c)}, nil
	}
	from := d.pos
	for d.pos < len(d.text) && !strings.ContainsRune(" \t\r\n'\"`(),;=", rune(d.text[d.pos])) {
		d.pos++
	}
	return token{word, d.text[from:d.pos]}, nil
}

var unescaped = map[byte]byte{'0': 0, 'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'Z': 26}

// readQuoted reads a text in quotes, with MySQL's escapes.
func (d *dump) readQuoted(quote byte) (string, error) {
	var out strings.Builder
	for d.pos++; d.pos < len(d.text); d.pos++ {
		c := d.text[d.pos]
		switch {
		case c == '\\' && quote != '`' && d.pos+1 < len(d.text):
			d.pos++
			c = d.text[d.pos]
			if plain, ok := unescaped[c]; ok {
				c = plain
			}
		case c == quote && d.pos+1 < len(d.text) && d.text[d.pos+1] == quote:
			d.pos++
		case c == quote:
			d.pos++
			return out.String(), nil
		}
		out.WriteByte(c)
	}
	return "", fmt.Errorf("a text in quotes does not end")
}
