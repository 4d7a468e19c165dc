package clients

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// tomlForm is TOML with a table for each server below the table key. Its lines are edited:
// the decoded file then shows whether something else has changed.
type tomlForm struct{ key string }

func (f tomlForm) decode(text []byte) (servers, rest map[string]any, err error) {
	root := map[string]any{}
	if err := toml.Unmarshal(text, &root); err != nil {
		if parse, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, nil, fmt.Errorf("%d:%d: %s", parse.Position.Line, parse.Position.Col, parse.Message)
		}
		return nil, nil, err
	}
	return nested(root, []string{f.key})
}

func (f tomlForm) servers(text []byte) ([]string, error) {
	var root map[string]any
	meta, err := toml.Decode(string(text), &root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range meta.Keys() {
		if len(key) >= 2 && key[0] == f.key && !slices.Contains(names, key[1]) { // a table may come in parts
			names = append(names, key[1])
		}
	}
	return names, nil
}

func (f tomlForm) add(text []byte, name string, value any) ([]byte, error) {
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	if err := enc.Encode(map[string]any{f.key: map[string]any{name: value}}); err != nil {
		return nil, err
	}
	// The table that holds the servers needs no line of its own.
	_, table, _ := strings.Cut(b.String(), "\n")
	if !strings.HasPrefix(b.String(), "["+f.key+"]\n") {
		table = b.String()
	}
	return f.put(text, name, []byte(strings.TrimLeft(table, "\n")))
}

func (f tomlForm) put(text []byte, name string, was []byte) ([]byte, error) {
	return edit(f, text, name, func() ([]byte, error) {
		if regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(f.key) + `\s*[=.]`).Match(text) {
			return nil, fmt.Errorf("%s is not a table of its own", f.key)
		}
		out := strings.TrimRight(string(text), "\n")
		if out != "" {
			out += "\n\n"
		}
		return []byte(out + strings.TrimSpace(string(was)) + "\n"), nil
	})
}

var anyHeader = regexp.MustCompile(`^\s*\[`)

func (f tomlForm) remove(text []byte, name string) (out, was []byte, err error) {
	quoted := regexp.QuoteMeta(name)
	own := regexp.MustCompile(`^\s*\[\s*` + regexp.QuoteMeta(f.key) + `\s*\.\s*(` + quoted + `|"` + quoted + `"|'` + quoted + `')\s*(\.[^\]]*)?\]`)
	out, err = edit(f, text, name, func() ([]byte, error) {
		var kept, cut []string
		within := false
		var pending []string // blank lines and comments, which may belong to the next table
		for line := range strings.Lines(string(text)) {
			trimmed := strings.TrimSpace(line)
			switch {
			case anyHeader.MatchString(line):
				next := own.MatchString(line)
				if within && next {
					cut = append(cut, pending...)
				} else {
					kept = append(kept, pending...)
				}
				pending, within = nil, next
			case within && (trimmed == "" || strings.HasPrefix(trimmed, "#")):
				pending = append(pending, line)
				continue
			case within:
				cut = append(cut, pending...)
				pending = nil
			}
			if within {
				cut = append(cut, line)
			} else {
				kept = append(kept, line)
			}
		}
		was = []byte(strings.Join(cut, ""))
		return []byte(strings.Join(append(kept, pending...), "")), nil
	})
	return out, was, err
}
