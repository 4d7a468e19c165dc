package monty

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// The classes of objects that Toolroom passes to programs, in addition to namespaces.
const (
	handleClass  = "Handle"
	commandClass = "CommandResult"
)

// toProgram converts a value for the program: handles in it become objects.
func (r *run) toProgram(v bridge.Value) any {
	if !holdsHandle(v) {
		return v
	}
	switch v := v.(type) {
	case bridge.Handle:
		attrs := bridge.Map{{Key: "handle", Value: v.ID}, {Key: "media_type", Value: v.MediaType}, {Key: "size", Value: v.Size}}
		return protocol.Instance{ID: r.names.addObject(v), Class: handleClass, Attrs: attrs}
	case []bridge.Value:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = r.toProgram(item)
		}
		return list
	case bridge.Map:
		m := make(bridge.Map, len(v))
		for i, member := range v {
			m[i] = bridge.Member{Key: member.Key, Value: r.toProgram(member.Value)}
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
		if slices.ContainsFunc(v, holdsHandle) {
			return true
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

// valueReader converts a program's values. An object that occurs twice is sent once and
// created here twice, or written twice as JSON, so a small program could exhaust the memory;
// therefore the nodes of a value and the bytes in them are counted.
type valueReader struct {
	names *nameTable
	nodes int
	bytes int64 // of texts, keys and so on
}

const (
	// maxValueNodes is the largest number of numbers, texts, lists and so on in one value.
	maxValueNodes = protocol.MaxNodes
	// maxValueBytes bounds the bytes of one value. A value without repetitions never has as
	// many, because they arrive in one frame.
	maxValueBytes = protocol.MaxFrame
	// maxInteger is the size of the largest integer, as on the bridge, in bytes.
	maxInteger = 1 << 16
)

func tooManyPieces() *valueError {
	return &valueError{what: fmt.Sprintf("makes the value one of more than %d pieces: keep it as an artifact, or give a part of it", maxValueNodes)}
}

// readArguments converts the arguments of a call.
func (r *run) readArguments(e protocol.Event) (args []bridge.Value, kwargs bridge.Map, err error) {
	if e.Name == program.ErrorDetails {
		return nil, nil, nil // it takes an error, which is no value
	}
	if e.TooManyValues {
		return nil, nil, tooManyPieces().at("one of them")
	}
	t := valueReader{names: r.names}
	defer func() { r.callBytes += max(t.bytes-int64(e.Bytes), 0) }() // what is repeated
	for i, a := range e.Args {
		if id, ok := toolAsValue(a); ok && i == 0 && builtinFunctions[e.Name] { // describe_tool(tools.github.create_issue)
			args = append(args, id)
			continue
		}
		v, m := t.value(a, 0)
		if m != nil {
			return nil, nil, m.at("argument %d", i+1)
		}
		args = append(args, v)
	}
	for _, p := range e.Named {
		name, _ := p.Key.(string)
		v, m := t.value(p.Value, 0)
		if m != nil {
			return nil, nil, m.at("%s", name)
		}
		kwargs = append(kwargs, bridge.Member{Key: name, Value: v})
	}
	return args, kwargs, nil
}

// toolAsValue returns the id of a tool that the program uses as a value.
func toolAsValue(v any) (id string, ok bool) {
	o, _ := v.(protocol.Opaque)
	return strings.CutPrefix(string(o), "the function "+functionPrefix)
}

// valueError says which part of a value cannot leave the program, and why. Callers of a failed
// conversion prepend to its path with at.
type valueError struct{ path, what string }

func (m *valueError) at(format string, args ...any) *valueError {
	m.path = fmt.Sprintf(format, args...) + m.path
	return m
}

func (m *valueError) Error() string { return fmt.Sprintf("%.200s %s", m.path, m.what) }

func unsupportedValue(what string) *valueError {
	return &valueError{what: fmt.Sprintf("is %.200s, which cannot leave the program: make it numbers, text, bytes, date-times, lists and dicts", what)}
}

// value converts a value, or returns an error if a part of it cannot leave the program.
func (t *valueReader) value(v any, depth int) (bridge.Value, *valueError) {
	if t.nodes++; t.nodes > maxValueNodes {
		return nil, tooManyPieces()
	}
	if t.bytes += size(v); t.bytes > maxValueBytes {
		return nil, &valueError{what: fmt.Sprintf("makes the value larger than %d MiB, with all repetitions: keep it as an artifact, or give a part of it", maxValueBytes>>20)}
	}
	if depth > bridge.MaxNesting {
		return nil, &valueError{what: fmt.Sprintf("nests deeper than %d", bridge.MaxNesting)}
	}
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &valueError{what: fmt.Sprintf("is %v, which cannot leave the program: give None in its place", v)}
		}
	case *big.Int:
		if n := (v.BitLen() + 7) / 8; n > maxInteger {
			return nil, &valueError{what: fmt.Sprintf("is an integer of %d bytes, the limit is %d", n, maxInteger)}
		}
	case bridge.Map: // in the result of a command, which the program sends back
		for _, member := range v {
			t.bytes += int64(len(member.Key))
			if _, m := t.value(member.Value, depth+1); m != nil {
				return nil, m.at(".%.200s", member.Key)
			}
		}
	case []any:
		for i, item := range v {
			value, m := t.value(item, depth+1)
			if m != nil {
				return nil, m.at("[%d]", i)
			}
			v[i] = value // in place: other containers that hold this list convert it to the same
		}
	case protocol.Dict:
		return t.dict(v, depth)
	case protocol.Object:
		return t.object(v, depth)
	case protocol.Class:
		return nil, unsupportedValue("the class " + v.Name)
	case protocol.Opaque:
		return nil, unsupportedValue(string(v))
	case protocol.Cycle:
		return nil, &valueError{what: "holds what it is in itself, which cannot leave the program"}
	case *protocol.Exception:
		return nil, unsupportedValue("the error " + v.Type)
	}
	return v, nil
}

// size returns how many bytes a value has, without those that it holds.
func size(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case []byte:
		return int64(len(v))
	}
	return 1
}

// describeKey returns the beginning of a key's text. The whole may be as large as a value.
func describeKey(key any) string {
	switch key := key.(type) {
	case []any:
		var b strings.Builder
		for i, item := range key {
			if b.Len() > 100 {
				break
			}
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(describeKey(item))
		}
		return "[" + b.String() + "]"
	case *big.Int:
		if key.BitLen() > 1000 {
			return "(a large integer)"
		}
	case []byte:
		return fmt.Sprint(key[:min(len(key), 100)])
	case protocol.Object:
		return "an object of the class " + key.Class.Name
	}
	return fmt.Sprintf("%.200s", fmt.Sprint(key))
}

func (t *valueReader) dict(d protocol.Dict, depth int) (bridge.Value, *valueError) {
	m := make(bridge.Map, 0, len(d))
	for _, p := range d {
		key, ok := p.Key.(string)
		if !ok {
			return nil, &valueError{what: fmt.Sprintf("has the key %.100s, and keys must be text", describeKey(p.Key))}
		}
		t.bytes += int64(len(key))
		v, misfit := t.value(p.Value, depth+1)
		if misfit != nil {
			return nil, misfit.at(".%.200s", key)
		}
		m = append(m, bridge.Member{Key: key, Value: v})
	}
	return m, nil
}

func (t *valueReader) object(o protocol.Object, depth int) (bridge.Value, *valueError) {
	switch ours := t.names.objects[o.ID].(type) {
	case commandResult:
		return t.value(ours.Map, depth)
	case bridge.Handle:
		return ours, nil
	}
	if o.Class.Dataclass || o.Class.Name == commandClass {
		return t.dict(o.Attrs, depth)
	}
	if o.Class.Name == handleClass { // of an earlier run of the session
		attrs, m := t.dict(o.Attrs, depth)
		h, _ := attrs.(bridge.Map)
		return bridge.Handle{ID: h.Text("handle"), MediaType: h.Text("media_type"), Size: h.Int("size")}, m
	}
	return nil, unsupportedValue("an object of the class " + o.Class.Name)
}

// lines returns the lines of s without line ends.
func lines(s string) []any {
	list := []any{}
	for line := range strings.Lines(s) {
		list = append(list, strings.TrimRight(line, "\r\n"))
	}
	return list
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
