package mcpserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Requests of 2026-07-28 repeat in headers what routers need to know, and what
// headers say must be what the body says (SEP-2243). The SDK checks the method
// and the name; what it cannot know of is checked here: values in base64, the
// arguments that a tool's schema puts into headers, and the ids of tasks.
const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
	paramPrefix  = "Mcp-Param-"
)

// checkHeaders compares headers with the body. The error is an answer for the
// client.
func (s *Server) checkHeaders(r *http.Request, body []byte) error {
	for header, values := range r.Header {
		// A router in between may go by another value than the one that is compared.
		if len(values) > 1 && strings.HasPrefix(header, "Mcp-") {
			return mismatch(nil, "the header %s is there %d times", header, len(values))
		}
	}
	name, ok := plainHeader(r.Header.Get(nameHeader))
	if !ok {
		return mismatch(nil, "the header %s is not base64", nameHeader)
	}
	method := r.Header.Get(methodHeader)
	var bindings []paramHeader
	switch {
	case method == "tools/call":
		if e, err := s.o.Runner.Find(r.Context(), name, nil); err == nil {
			bindings = paramHeaders(e.Tool.InputSchema)
		}
		if name != r.Header.Get(nameHeader) {
			r.Header.Set(nameHeader, name)
		}
	case method == "tasks/get" || method == "tasks/update" || method == "tasks/cancel":
	default:
		if name != r.Header.Get(nameHeader) {
			r.Header.Set(nameHeader, name)
		}
		return nil
	}
	if method == "tools/call" && len(bindings) == 0 {
		return nil
	}
	var message struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			TaskID    string          `json:"taskId"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if err := jsonx.Unmarshal(body, &message, jsonx.Limits{Bytes: maxBody, Depth: math.MaxInt}); err != nil {
		return mismatch(nil, "the body cannot be compared with the headers: %w", err)
	}
	if method != "tools/call" {
		if message.Params.TaskID != name {
			return mismatch(message.ID, "the header %s says %q and the body %q", nameHeader, name, message.Params.TaskID)
		}
		return nil
	}
	for _, b := range bindings {
		if err := b.check(r.Header, message.Params.Arguments); err != nil {
			return mismatch(message.ID, "%w", err)
		}
	}
	return nil
}

// headerMismatch is the answer to a request whose headers do not fit its body.
type headerMismatch struct {
	id  json.RawMessage
	err error
}

func mismatch(id json.RawMessage, format string, args ...any) error {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return &headerMismatch{id, fmt.Errorf(format, args...)}
}

// Error says what does not fit.
func (m *headerMismatch) Error() string { return m.err.Error() }

func (m *headerMismatch) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	// A client that does not read its refusal has gone.
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.id, "error": jsonrpc.Error{
		Code: mcp.CodeHeaderMismatch, Message: "header mismatch: " + m.Error(),
	}})
}

// plainHeader decodes a header value that is in base64 because it has other
// characters than ASCII.
func plainHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if !ok || !strings.HasSuffix(encoded, "?=") {
		return value, true
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
	return string(plain), err == nil
}

// paramHeader is an argument that a tool's schema puts into a header.
type paramHeader struct {
	path   []string
	header string
}

// paramHeaders finds the arguments that go into headers. A schema that says so
// in a wrong way says nothing: clients leave such a tool out.
func paramHeaders(schema json.RawMessage) []paramHeader {
	const keyword = "x-mcp-header"
	if !bytes.Contains(schema, []byte(keyword)) {
		return nil
	}
	type property struct {
		Type       string                     `json:"type"`
		Header     string                     `json:"x-mcp-header"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var found []paramHeader
	var walk func(raw json.RawMessage, path []string)
	walk = func(raw json.RawMessage, path []string) {
		var p property
		if json.Unmarshal(raw, &p) != nil {
			return
		}
		if p.Header != "" && (p.Type == "string" || p.Type == "integer" || p.Type == "boolean") {
			found = append(found, paramHeader{path: path, header: paramPrefix + p.Header})
		}
		for name, inner := range p.Properties {
			walk(inner, append(path[:len(path):len(path)], name))
		}
	}
	walk(schema, nil)
	return found
}

func (p paramHeader) check(header http.Header, arguments json.RawMessage) error {
	value, present := header.Get(p.header), len(header.Values(p.header)) > 0
	argument := member(arguments, p.path)
	where := strings.Join(p.path, ".")
	switch {
	case argument == nil && present:
		return fmt.Errorf("the request has the header %s but no argument %s", p.header, where)
	case argument == nil:
		return nil
	case !present:
		return fmt.Errorf("the header %s for the argument %s is missing", p.header, where)
	}
	plain, ok := plainHeader(value)
	if !ok {
		return fmt.Errorf("the header %s is not valid base64", p.header)
	}
	if !sameValue(plain, argument) {
		return fmt.Errorf("the header %s differs from the argument %s", p.header, where)
	}
	return nil
}

// member is the value at a path of an object, nil where there is none.
func member(object json.RawMessage, path []string) any {
	tree, err := jsonx.Decode(object, jsonx.Limits{})
	for _, name := range path {
		at, ok := tree.(map[string]any)
		if err != nil || !ok {
			return nil
		}
		tree = at[name]
	}
	return tree
}

// maxSafeInteger is the largest integer that may be in a header: every JSON
// parser reads it exactly.
const maxSafeInteger = 1<<53 - 1

func sameValue(header string, argument any) bool {
	switch argument := argument.(type) {
	case string:
		return header == argument
	case bool:
		return header == strconv.FormatBool(argument)
	case json.Number:
		a, errA := strconv.ParseFloat(header, 64)
		b, errB := argument.Float64()
		return errA == nil && errB == nil && a == b && a == math.Trunc(a) && math.Abs(a) <= maxSafeInteger
	default:
		return false
	}
}
