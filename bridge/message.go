package bridge

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
)

// The bodies of the start, done and error frames, and of a result's error,
// converted to and from maps.

func (p Program) body(version int) Map {
	tools := make([]Value, len(p.Tools))
	for i, t := range p.Tools {
		tools[i] = t.body()
	}
	return Map{
		{"version", int64(version)},
		{"language", p.Language},
		{"name", p.Name},
		{"source", p.Source},
		{"module", p.Module},
		{"command", stringValues(p.Command)},
		{"env", stringValues(p.Env)},
		{"stdin", p.Stdin},
		{"attached", p.Attached},
		{"rows", int64(p.Rows)},
		{"columns", int64(p.Columns)},
		{"dir", p.Dir},
		{"files", orEmptyMap(p.Files)},
		{"inputs", orEmptyMap(p.Inputs)},
		{"tools", tools},
		{"withheld", orEmptyMap(p.Withheld)},
		{"unknown", orEmptyMap(p.Unknown)},
		{"session", p.Session},
		{"state", p.State},
		{"seed", p.Seed},
		{"profile", p.Profile},
		{"limits", Map{
			{"wall", p.Limits.Wall},
			{"cpu", p.Limits.CPU},
			{"memory", p.Limits.Memory},
			{"output", p.Limits.Output},
			{"calls", int64(p.Limits.Calls)},
			{"parallel", int64(p.Limits.Parallel)},
			{"bytes", p.Limits.Bytes},
		}},
	}
}

func (t Tool) body() Map {
	globals := make([]Value, len(t.Globals))
	for i, path := range t.Globals {
		globals[i] = stringValues(path)
	}
	parameters := make([]Value, len(t.Parameters))
	for i, p := range t.Parameters {
		parameter := Map{{"name", p.Name}, {"type", p.Type}, {"required", p.Required}}
		if len(p.Values) > 0 {
			parameter = append(parameter, Member{"values", stringValues(p.Values)})
		}
		parameters[i] = parameter
	}
	return Map{
		{"id", t.ID},
		{"path", stringValues(t.Path)},
		{"globals", globals},
		{"kind", t.Kind},
		{"parameters", parameters},
		{"open", t.Open},
		{"doc", t.Doc},
	}
}

// ReadProgram reads the body of a start frame.
func ReadProgram(m Map) Program {
	limits, _ := m.Get("limits").(Map)
	p := Program{
		Language: m.Text("language"),
		Name:     m.Text("name"),
		Source:   m.Text("source"),
		Module:   bytesAt(m, "module"),
		Command:  stringsAt(m, "command"),
		Env:      stringsAt(m, "env"),
		Stdin:    bytesAt(m, "stdin"),
		Attached: m.Get("attached") == true,
		Rows:     int(m.Int("rows")),
		Columns:  int(m.Int("columns")),
		Dir:      m.Text("dir"),
		Session:  m.Text("session"),
		State:    bytesAt(m, "state"),
		Seed:     bytesAt(m, "seed"),
		Profile:  m.Text("profile"),
		Limits: Limits{
			Wall: limits.Int("wall"), CPU: limits.Int("cpu"), Memory: limits.Int("memory"), Output: limits.Int("output"),
			Calls: int(limits.Int("calls")), Parallel: int(limits.Int("parallel")), Bytes: limits.Int("bytes"),
		},
	}
	p.Files, _ = m.Get("files").(Map)
	p.Inputs, _ = m.Get("inputs").(Map)
	p.Withheld, _ = m.Get("withheld").(Map)
	p.Unknown, _ = m.Get("unknown").(Map)
	tools, _ := m.Get("tools").([]Value)
	for _, item := range tools {
		if t, ok := item.(Map); ok {
			p.Tools = append(p.Tools, readTool(t))
		}
	}
	return p
}

func readTool(m Map) Tool {
	t := Tool{ID: m.Text("id"), Path: stringsAt(m, "path"), Kind: m.Text("kind"), Doc: m.Text("doc")}
	t.Open, _ = m.Get("open").(bool)
	globals, _ := m.Get("globals").([]Value)
	for _, path := range globals {
		t.Globals = append(t.Globals, readStrings(path))
	}
	parameters, _ := m.Get("parameters").([]Value)
	for _, item := range parameters {
		if p, ok := item.(Map); ok {
			required, _ := p.Get("required").(bool)
			t.Parameters = append(t.Parameters, Parameter{Name: p.Text("name"), Type: p.Text("type"), Required: required, Values: stringsAt(p, "values")})
		}
	}
	return t
}

// FailureBody returns the body of the frame that reports a failure to the server.
func FailureBody(f *Failure) Map {
	m := Map{
		{"kind", string(f.Kind)},
		{"type", f.Type},
		{"message", f.Message},
		{"file", f.File},
		{"line", int64(f.Line)},
		{"column", int64(f.Column)},
		{"trace", f.Trace},
		{"limit", f.Limit},
	}
	if f.Tool != nil {
		m = append(m, Member{"tool", errorBody(f.Tool)})
	}
	return m
}

// Limits, in bytes, of the texts of a failure that a guest reports. People and models read
// them, and a hostile guest must not flood them.
const (
	maxMessage = 16 << 10
	maxTrace   = 64 << 10
)

func readFailure(m Map) *Failure {
	f := &Failure{
		Kind:    FailureKind(m.Text("kind")),
		Type:    truncate(m.Text("type"), 256),
		Message: truncate(m.Text("message"), maxMessage),
		File:    truncate(m.Text("file"), 256),
		Line:    int(m.Int("line")),
		Column:  int(m.Int("column")),
		Trace:   truncate(m.Text("trace"), maxTrace),
		Limit:   truncate(m.Text("limit"), 64),
	}
	switch f.Kind {
	case FailProgram, FailSyntax, FailCheck, FailValue, FailLimit, FailUnsupported, FailCancelled:
	default:
		f.Kind = FailProgram
	}
	if tool, ok := m.Get("tool").(Map); ok {
		f.Tool = readError(tool)
	}
	return f
}

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// errorBody returns a tool's error as the program sees it, without its cause.
func errorBody(e *toolroom.Error) Map {
	m := Map{
		{"code", string(e.Code)},
		{"phase", string(e.Phase)},
		{"tool", e.Tool},
		{"message", e.Message},
		{"retryable", e.Retryable},
		{"hint", e.Hint},
	}
	if details := e.AllDetails(); len(details) > 0 {
		if text, err := json.Marshal(details); err == nil {
			if details, err := FromJSON(text); err == nil {
				m = append(m, Member{"details", details})
			}
		}
	}
	return m
}

func readError(m Map) *toolroom.Error {
	e := &toolroom.Error{
		Code:    toolroom.Code(truncate(m.Text("code"), 64)),
		Phase:   toolroom.Phase(truncate(m.Text("phase"), 64)),
		Tool:    truncate(m.Text("tool"), 300),
		Message: truncate(m.Text("message"), maxMessage),
		Hint:    truncate(m.Text("hint"), maxMessage),
	}
	e.Retryable, _ = m.Get("retryable").(bool)
	if details, ok := m.Get("details").(Map); ok {
		if text, err := ToJSON(details); err == nil {
			_ = json.Unmarshal(text, &e.Details) // JSON that ToJSON has just written
		}
	}
	return e
}

func orEmptyMap(m Map) Map {
	if m == nil {
		return Map{}
	}
	return m
}

func stringValues(list []string) []Value {
	values := make([]Value, len(list))
	for i, s := range list {
		values[i] = s
	}
	return values
}

func stringsAt(m Map, key string) []string { return readStrings(m.Get(key)) }

func readStrings(v Value) []string {
	list, _ := v.([]Value)
	var out []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func bytesAt(m Map, key string) []byte {
	b, _ := m.Get(key).([]byte)
	return b
}
