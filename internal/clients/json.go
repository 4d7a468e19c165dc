package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonForm is JSON, also with comments and trailing commas. Its servers are the members of
// the object at path.
type jsonForm struct{ path []string }

const defaultIndent = "  "

func (f jsonForm) decode(text []byte) (servers, rest map[string]any, err error) {
	root := map[string]any{}
	if len(bytes.TrimSpace(text)) > 0 {
		plain, err := hujson.Standardize(withoutMark(text)) // it writes to its argument
		if err != nil {
			return nil, nil, syntaxError(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(plain))
		decoder.UseNumber()
		if err := decoder.Decode(&root); err != nil {
			return nil, nil, err
		}
	}
	return nested(root, f.path)
}

// syntaxError returns an error of the parser without the name of its package.
func syntaxError(err error) error {
	return errors.New("not JSON: " + strings.TrimPrefix(err.Error(), "hujson: "))
}

// withoutMark returns a copy of text with spaces in place of a byte order mark, so that all else
// is where it was.
func withoutMark(text []byte) []byte {
	text = bytes.Clone(text)
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		copy(text, "   ")
	}
	return text
}

// parse returns the file, which is an object.
func parse(text []byte) (hujson.Value, *hujson.Object, error) {
	root, err := hujson.Parse(withoutMark(text))
	if err != nil {
		return root, nil, syntaxError(err)
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return root, nil, fmt.Errorf("the file is not a JSON object")
	}
	return root, object, nil
}

// member returns the index of a member of an object, or -1.
func member(o *hujson.Object, name string) int {
	return slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool {
		l, ok := m.Name.Value.(hujson.Literal)
		return ok && l.String() == name
	})
}

// find returns the object at path, or how many of the path's members exist.
func find(root hujson.Value, path []string) (at hujson.Value, depth int, err error) {
	at = root
	for depth, name := range path {
		o := at.Value.(*hujson.Object)
		i := member(o, name)
		if i < 0 {
			return at, depth, nil
		}
		if _, ok := o.Members[i].Value.Value.(*hujson.Object); !ok {
			return at, depth, fmt.Errorf("%s is not an object", name)
		}
		at = o.Members[i].Value
	}
	return at, len(path), nil
}

func (f jsonForm) servers(text []byte) ([]string, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	root, _, err := parse(text)
	if err != nil {
		return nil, err
	}
	at, depth, err := find(root, f.path)
	if err != nil || depth < len(f.path) {
		return nil, err
	}
	var names []string
	for _, m := range at.Value.(*hujson.Object).Members {
		names = append(names, m.Name.Value.(hujson.Literal).String())
	}
	return names, nil
}

func (f jsonForm) add(text []byte, name string, value any) ([]byte, error) {
	was, err := marshal(value)
	if err != nil {
		return nil, err
	}
	return f.put(text, name, was)
}

func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSpace(b.Bytes()), err
}

func (f jsonForm) put(text []byte, name string, was []byte) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{\n}\n")
	}
	return edit(f, text, name, func() ([]byte, error) {
		root, _, err := parse(text)
		if err != nil {
			return nil, err
		}
		at, depth, err := find(root, f.path)
		if err != nil {
			return nil, err
		}
		if depth < len(f.path) { // the objects around the entry
			for i := len(f.path) - 1; i >= depth; i-- {
				key, err := marshal(name)
				if err != nil {
					return nil, err
				}
				was = []byte("{" + string(key) + ":" + string(was) + "}")
				name = f.path[i]
			}
		}
		return insert(text, root, at, name, was)
	})
}

// insert adds a member at the end of an object. It is indented as the object's members are.
func insert(text []byte, root, object hujson.Value, name string, value []byte) ([]byte, error) {
	o := object.Value.(*hujson.Object)
	key, err := marshal(name)
	if err != nil {
		return nil, err
	}
	around := lineIndent(text, object.StartOffset)
	unit := unitOf(text, root)
	inner := around + unit
	inline := false
	if len(o.Members) > 0 {
		start := o.Members[0].Name.StartOffset
		if inline = !startsLine(text, start); !inline {
			inner = lineIndent(text, start)
		}
	}
	if inline {
		var b bytes.Buffer
		if err := json.Compact(&b, standardJSON(value)); err != nil {
			return nil, err
		}
		return splice(text, o, ", "+string(key)+": "+b.String(), ""), nil
	}
	var b bytes.Buffer
	if err := json.Indent(&b, standardJSON(value), inner, unit); err != nil {
		return nil, err
	}
	line := "\n" + inner + string(key) + ": " + b.String()
	if len(o.Members) == 0 {
		at := object.StartOffset + 1
		rest := string(text[at:])
		end := ""
		if inside := rest[:object.EndOffset-1-at]; !strings.Contains(inside, "\n") {
			end = "\n" + around
		}
		return []byte(string(text[:at]) + line + end + rest), nil
	}
	return splice(text, o, ",", line), nil
}

// splice adds comma after the last member of an object, and line after the comment behind
// it. A trailing comma stays one.
func splice(text []byte, o *hujson.Object, comma, line string) []byte {
	last := o.Members[len(o.Members)-1].Value
	at := last.EndOffset
	if last.AfterExtra != nil { // there is a comma
		at += len(last.AfterExtra) + 1
		comma = strings.TrimPrefix(comma, ",")
		if line != "" {
			line += ","
		}
	}
	if line == "" && strings.HasPrefix(comma, " ") {
		return []byte(string(text[:at]) + comma + "," + string(text[at:]))
	}
	behind := 0
	rest := string(text[at:])
	blank := len(rest) - len(strings.TrimLeft(rest, " \t"))
	if strings.HasPrefix(rest[blank:], "//") {
		behind = strings.IndexByte(rest, '\n')
	}
	return []byte(string(text[:at]) + comma + rest[:behind] + line + rest[behind:])
}

// standardJSON returns a value without comments and trailing commas.
func standardJSON(value []byte) []byte {
	out, err := hujson.Standardize(bytes.Clone(value))
	if err != nil {
		return value
	}
	return out
}

func startsLine(text []byte, at int) bool {
	return strings.TrimLeft(string(text[lineStart(text, at):at]), " \t") == "" && lineStart(text, at) > 0
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

// lineIndent returns the white space at the beginning of the line around at.
func lineIndent(text []byte, at int) string {
	line := text[lineStart(text, at):at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// unitOf returns the indentation of the file's first member.
func unitOf(text []byte, root hujson.Value) string {
	if o := root.Value.(*hujson.Object); len(o.Members) > 0 && startsLine(text, o.Members[0].Name.StartOffset) {
		if unit := lineIndent(text, o.Members[0].Name.StartOffset); unit != "" {
			return unit
		}
	}
	return defaultIndent
}

func (f jsonForm) remove(text []byte, name string) (out, was []byte, err error) {
	out, err = edit(f, text, name, func() ([]byte, error) {
		root, _, err := parse(text)
		if err != nil {
			return nil, err
		}
		at, depth, err := find(root, f.path)
		if err != nil || depth < len(f.path) {
			return text, err
		}
		o := at.Value.(*hujson.Object)
		i := member(o, name)
		if i < 0 {
			return text, nil
		}
		m := o.Members[i]
		was = bytes.Clone(text[m.Value.StartOffset:m.Value.EndOffset])
		return cut(text, at, o, i), nil
	})
	return out, was, err
}

// cut removes a member with its line and its comma.
func cut(text []byte, object hujson.Value, o *hujson.Object, i int) []byte {
	m := o.Members[i]
	start, end := m.Name.StartOffset, m.Value.EndOffset
	last := i == len(o.Members)-1
	if !last || m.Value.AfterExtra != nil {
		end += len(m.Value.AfterExtra) + 1
	}
	if startsLine(text, start) {
		start = lineStart(text, start)
		rest := text[end:]
		if blank := len(rest) - len(bytes.TrimLeft(rest, " \t")); bytes.HasPrefix(rest[blank:], []byte("//")) {
			comment := bytes.IndexByte(rest, '\n') // it is about the entry
			end += comment
			rest = rest[comment:]
		}
		if blank := len(rest) - len(bytes.TrimLeft(rest, " \t\r")); blank < len(rest) && rest[blank] == '\n' {
			end += blank + 1
		} else if last {
			start--
		}
	} else if !last {
		end += len(text[end:]) - len(bytes.TrimLeft(text[end:], " \t"))
	}
	out := string(text[:start]) + string(text[end:])
	if last && i > 0 && m.Value.AfterExtra == nil { // the comma before it
		before := o.Members[i-1].Value
		comma := before.EndOffset + len(before.AfterExtra)
		out = out[:comma] + out[comma+1:]
	}
	return []byte(out)
}
