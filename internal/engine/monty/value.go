package monty

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// give is a value for the program: a handle becomes an object.
func (r *run) give(v bridge.Value) any {
	if !holdsHandle(v) {
		return v
	}
	switch v := v.(type) {
	case bridge.Handle:
		attrs := bridge.Map{{Key: "handle", Value: v.ID}, {Key: "media_type", Value: v.MediaType}, {Key: "size", Value: v.Size}}
		return protocol.Instance{ID: r.names.keep(v), Class: "Handle", Attrs: attrs}
	case []bridge.Value:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = r.give(item)
		}
		return list
	case bridge.Map:
		m := make(bridge.Map, len(v))
		for i, member := range v {
			m[i] = bridge.Member{Key: member.Key, Value: r.give(member.Value)}
		}
		return m
	}
	return v
}

func holdsHandle(v bridge.Value) bool {
	switch v := v.(type) {
	case bridge.Handle:
		return true
	case []bridge.Value:
		for _, item := range v {
			if holdsHandle(item) {
				return true
			}
		}
	case bridge.Map:
		for _, m := range v {
			if holdsHandle(m.Value) {
				return true
			}
		}
	}
	return false
}

// taking turns what a program gives into values. What it holds twice is sent
// once, and is here made twice, so that a small program could ask for all memory:
// the pieces are counted.
type taking struct {
	names *names
	left  int
}

// maxPieces is how many numbers, texts, lists and so on one value has at most.
const maxPieces = 4 << 20

func (r *run) take(e protocol.Event) (args []bridge.Value, kwargs bridge.Map, err error) {
	t := taking{r.names, maxPieces}
	for i, a := range e.Args {
		if e.Name == "toolroom_error_details" {
			break // an error is no value
		}
		v, err := t.value(a, fmt.Sprintf("argument %d", i+1), 0)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, v)
	}
	for _, p := range e.Named {
		name, _ := p.Key.(string)
		v, err := t.value(p.Value, name, 0)
		if err != nil {
			return nil, nil, err
		}
		kwargs = append(kwargs, bridge.Member{Key: name, Value: v})
	}
	return args, kwargs, nil
}

var errTooMany = errors.New("the value has more than four million pieces: keep it as an artifact, or give a part of it")

// value checks that a value can leave the program, and says which part cannot.
func (t *taking) value(v any, path string, depth int) (bridge.Value, error) {
	if t.left--; t.left < 0 {
		return nil, errTooMany
	}
	if depth > bridge.MaxNesting {
		return nil, fmt.Errorf("%.200s nests deeper than %d", path, bridge.MaxNesting)
	}
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%.200s is %v, which cannot leave the program: give None in its place", path, v)
		}
	case []any:
		for i, item := range v {
			// The list is shared by all that hold it, and all come to the same.
			value, err := t.value(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = value
		}
	case protocol.Dict:
		return t.dict(v, path, depth)
	case protocol.Object:
		return t.object(v, path, depth)
	case protocol.Class:
		return nil, cannotLeave(path, "the class "+v.Name)
	case protocol.Opaque:
		return nil, cannotLeave(path, string(v))
	case protocol.Cycle:
		return nil, fmt.Errorf("%.200s holds what it is in itself, which cannot leave the program", path)
	case *protocol.Exception:
		return nil, cannotLeave(path, "the error "+v.Type)
	}
	return v, nil
}

func cannotLeave(path, what string) error {
	return fmt.Errorf("%.200s is %.200s, which cannot leave the program: make it numbers, text, bytes, date-times, lists and dicts", path, what)
}

func (t *taking) dict(d protocol.Dict, path string, depth int) (bridge.Value, error) {
	m := make(bridge.Map, 0, len(d))
	for _, p := range d {
		key, ok := p.Key.(string)
		if !ok {
			return nil, fmt.Errorf("%.200s has the key %v, and keys must be text", path, p.Key)
		}
		v, err := t.value(p.Value, path+"."+key, depth+1)
		if err != nil {
			return nil, err
		}
		m = append(m, bridge.Member{Key: key, Value: v})
	}
	return m, nil
}

func (t *taking) object(o protocol.Object, path string, depth int) (bridge.Value, error) {
	switch ours := t.names.objects[o.ID].(type) {
	case command:
		return ours.Map, nil
	case bridge.Handle:
		return ours, nil
	}
	if o.Class.Dataclass {
		return t.dict(o.Attrs, path, depth)
	}
	return nil, cannotLeave(path, "an object of the class "+o.Class.Name)
}

// lines are those of a text, without their ends.
func lines(s string) []any {
	list := []any{}
	for line := range strings.Lines(s) {
		list = append(list, strings.TrimRight(line, "\r\n"))
	}
	return list
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
