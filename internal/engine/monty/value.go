package monty

import (
	"fmt"
	"math"
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

// valueReader converts a program's values. An object that occurs twice is sent once and
// created here twice, so a small program could exhaust the memory; therefore the nodes of a
// value are counted.
type valueReader struct {
	names     *nameTable
	remaining int
}

// maxValueNodes is the largest number of numbers, texts, lists and so on in one value.
const maxValueNodes = protocol.MaxNodes

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
	t := valueReader{r.names, maxValueNodes}
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
	if t.remaining--; t.remaining < 0 {
		return nil, tooManyPieces()
	}
	if depth > bridge.MaxNesting {
		return nil, &valueError{what: fmt.Sprintf("nests deeper than %d", bridge.MaxNesting)}
	}
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &valueError{what: fmt.Sprintf("is %v, which cannot leave the program: give None in its place", v)}
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

func (t *valueReader) dict(d protocol.Dict, depth int) (bridge.Value, *valueError) {
	m := make(bridge.Map, 0, len(d))
	for _, p := range d {
		key, ok := p.Key.(string)
		if !ok {
			return nil, &valueError{what: fmt.Sprintf("has the key %.100s, and keys must be text", fmt.Sprint(p.Key))}
		}
		v, misfit := t.value(p.Value, depth+1)
		if misfit != nil {
			return nil, misfit.at(".%s", key)
		}
		m = append(m, bridge.Member{Key: key, Value: v})
	}
	return m, nil
}

func (t *valueReader) object(o protocol.Object, depth int) (bridge.Value, *valueError) {
	switch ours := t.names.objects[o.ID].(type) {
	case commandResult:
		return ours.Map, nil
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
