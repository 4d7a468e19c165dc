package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// ServerRequest is a request or notification of a client. Its raw values share the
// memory of the message, and must not be changed.
type ServerRequest struct {
	// ID is the id as the client wrote it, or nil for a notification.
	ID     json.RawMessage
	Method string
	// Params is the whole object of parameters, or nil if there is none. The fields
	// below are members of it.
	Params json.RawMessage
	// Name is what the request is about: params.uri of resources and skills,
	// params.taskId of tasks, and else params.name.
	Name           string
	Arguments      json.RawMessage
	Meta           json.RawMessage
	RequestState   string
	InputResponses map[string]json.RawMessage
	// Other is an object of the members that have no field here, or nil if there are
	// none. It has uri and taskId.
	Other json.RawMessage
	// ProgressToken is the token in Meta, or nil if the client wants no progress.
	ProgressToken json.RawMessage

	// Version is the revision of the protocol that the client speaks.
	Version string
	// ClientInfo and Capabilities are the client's, as it wrote them: in this request,
	// or when its session began. They are nil if it declared none.
	ClientInfo   json.RawMessage
	Capabilities json.RawMessage
	// Session is the session of the request, or nil from 2026-07-28 on.
	Session *ServerSession
	// Header is the header of the HTTP request, or nil on stdio.
	Header http.Header
	// Value is for the program that uses this package, which sets it in
	// [ServerOptions.Prepare].
	Value any

	logLevel string
	reply    replier
	server   *Server
}

// Modern reports whether the client speaks 2026-07-28 or newer, and so has no session.
func (r *ServerRequest) Modern() bool { return r.Version >= modernVersion }

// errNoSession means that a client without a session cannot receive requests.
var errNoSession = errors.New("the client has no session: answer its request with questions (input_required)")

// Notify sends a notification that belongs to the request, before its answer. Params
// is a JSON object or nil. Log messages below the level that the client has asked for
// are dropped. A client that has disconnected may receive the notification when it
// resumes the stream.
func (r *ServerRequest) Notify(method string, params json.RawMessage) error {
	if r.reply == nil || method == "notifications/message" && !logs(r.level(), params) {
		return nil
	}
	return r.reply.send(notification(method, params))
}

func (r *ServerRequest) level() string {
	if r.Session != nil {
		return r.Session.level()
	}
	return r.logLevel
}

// Ask sends a request that belongs to this one to the client, and waits for the
// answer. An [*Error] is the client's answer. If ctx ends, Ask notifies the client.
// It returns an error if the client has no session.
func (r *ServerRequest) Ask(ctx context.Context, q Question) (json.RawMessage, error) {
	if r.Session == nil || r.reply == nil {
		return nil, errNoSession
	}
	return r.Session.ask(ctx, q, r.reply.send)
}

// Release ends the HTTP response of a request that goes on, so that the client comes
// back for the rest after the given time (SEP-1699). Only clients of 2025-11-25 with a
// session do that; for others Release does nothing.
func (r *ServerRequest) Release(retry int) {
	if r.Version == legacyVersion && r.reply != nil {
		r.reply.release(retry)
	}
}

// replier sends what belongs to one request to its client.
type replier interface {
	// send sends a message before the answer.
	send(text []byte) error
	// answer sends the answer to the request. It is called once.
	answer(id, text []byte, failed *Error)
	// release ends the response, and tells the client to come back after so many
	// milliseconds.
	release(retry int)
}

// incoming is a message of a client: a request, a notification, or an answer.
type incoming struct {
	ServerRequest
	result, failure json.RawMessage // of an answer
	claimed         claims
	// cancels is the requestId of notifications/cancelled.
	cancels json.RawMessage
	// wrong says which member is not of its type; empty for none.
	wrong string
	// prepared means that ServerOptions.Prepare has been called.
	prepared bool
}

// claims are what a modern client says of itself in _meta.
type claims struct {
	version            string
	info, capabilities json.RawMessage
	logLevel           string
}

// errNotMessage means that a JSON text is not a message of JSON-RPC.
type errNotMessage struct {
	id     json.RawMessage
	reason string
}

func (e *errNotMessage) Error() string { return e.reason }

// readMessage reads a message in one way only: it returns an error if a member is
// there twice at any level, if a name differs from one of the protocol in case only,
// or if text follows the message. Other readers could understand such a message in
// another way. An [*errNotMessage] means that the JSON is fine but not a message.
func readMessage(text []byte) (*incoming, error) {
	r := &messageReader{}
	if err := r.read(text); err != nil {
		// Texts with half surrogates or invalid UTF-8 are passed on as they came.
		if err = jsonx.CheckMembers(text); err != nil {
			return nil, err
		}
		r = &messageReader{}
		if err = r.readLoosely(text); err != nil {
			return nil, err
		}
	}
	return r.message()
}

// messageReader reads a message, member by member.
type messageReader struct {
	m       incoming
	jsonrpc string
	// uri and task are members of params; which of them is the name depends on the method.
	uri, task string
	other     []byte // the members of ServerRequest.Other
	// misspelt is a name that differs from one of the protocol in case only; empty for none.
	misspelt string
}

// message returns the message that has been read, or an error if it is not one.
func (r *messageReader) message() (*incoming, error) {
	m := &r.m
	switch {
	case r.misspelt != "":
		return nil, fmt.Errorf("the name %q differs from a member of the protocol in case", r.misspelt)
	case r.jsonrpc != "2.0":
		return nil, &errNotMessage{m.ID, `the member jsonrpc is not "2.0"`}
	case m.wrong == "method":
		return nil, &errNotMessage{m.ID, "the member method is not a string"}
	case m.Method == "" && (len(m.ID) == 0 || (m.result == nil) == (m.failure == nil)):
		return nil, &errNotMessage{m.ID, "a message has a method, or an id with a result or an error"}
	case m.ID != nil && m.Method != "" && !answerable(m.ID):
		return nil, &errNotMessage{nil, "the id is not a string or a number"}
	}
	switch kind, _, _ := strings.Cut(m.Method, "/"); kind {
	case "resources", "skills":
		m.Name = r.uri
	case "tasks":
		m.Name = r.task
	}
	if len(r.other) > 0 {
		m.Other = slices.Concat([]byte{'{'}, r.other, []byte{'}'})
	}
	return m, nil
}

// answerable reports whether an id is a string or a number.
func answerable(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9')
}

// read reads a message in one pass.
func (r *messageReader) read(text []byte) error {
	in := jsonx.NewReader(text, jsonx.Limits{Bytes: len(text), Depth: maxDepth})
	if in.Peek() != jsonx.Object {
		in.Abandon()
		return errors.New("not an object")
	}
	in.Enter()
	for in.More() {
		name := string(in.Text())
		if name != "params" || in.Peek() != jsonx.Object {
			r.member(name, in.Value())
			continue
		}
		start := in.Offset()
		in.Enter()
		for in.More() {
			name := string(in.Text())
			if name != "_meta" || in.Peek() != jsonx.Object {
				r.param(name, in.Value())
				continue
			}
			start := in.Offset()
			in.Enter()
			for in.More() {
				name := string(in.Text())
				r.metaMember(name, in.Value())
			}
			in.Leave()
			r.m.Meta = between(text, start, in.Offset())
		}
		in.Leave()
		r.m.Params = between(text, start, in.Offset())
	}
	in.Leave()
	return in.Finish()
}

// maxDepth limits the nesting of a message.
const maxDepth = 5000

// between returns the object that was read between two offsets of a reader; end is
// zero if the reader has failed.
func between(text []byte, start, end int) json.RawMessage {
	if end <= start {
		return nil
	}
	return bytes.TrimLeft(text[start:end:end], " \t\r\n:,")
}

// readLoosely reads a message that has been checked by [jsonx.CheckMembers].
func (r *messageReader) readLoosely(text []byte) error {
	members, err := jsonx.Members(text)
	if err != nil {
		return &errNotMessage{nil, "a message is an object"}
	}
	for _, top := range members {
		if top.Name != "params" || top.Value[0] != '{' {
			r.member(top.Name, top.Value)
			continue
		}
		r.m.Params = top.Value
		params, err := jsonx.Members(top.Value)
		if err != nil {
			return err
		}
		for _, p := range params {
			if p.Name != "_meta" || p.Value[0] != '{' {
				r.param(p.Name, p.Value)
				continue
			}
			r.m.Meta = p.Value
			meta, err := jsonx.Members(p.Value)
			if err != nil {
				return err
			}
			for _, member := range meta {
				r.metaMember(member.Name, member.Value)
			}
		}
	}
	return nil
}

// member takes in a member of the message.
func (r *messageReader) member(name string, value json.RawMessage) {
	switch name {
	case "jsonrpc":
		r.jsonrpc = r.string(name, value)
	case "id":
		r.m.ID = value
	case "method":
		r.m.Method = r.string(name, value)
	case "params": // is not an object
		if string(value) != "null" {
			r.m.wrong = name
		}
	case "result":
		r.m.result = value
	case "error":
		r.m.failure = value
	default:
		r.checkSpelling(name, "jsonrpc", "id", "method", "params")
	}
}

// param takes in a member of params.
func (r *messageReader) param(name string, value json.RawMessage) {
	m := &r.m
	switch name {
	case "name":
		m.Name = r.string(name, value)
	case "arguments":
		if m.Arguments = value; len(value) > 0 && value[0] != '{' && string(value) != "null" {
			m.wrong = name
		}
	case "_meta": // is not an object
		if string(value) != "null" {
			m.wrong = name
		}
	case "requestState":
		m.RequestState = r.string(name, value)
	case "inputResponses":
		if json.Unmarshal(value, &m.InputResponses) != nil {
			m.wrong = name
		}
	default:
		r.checkSpelling(name, "name", "arguments", "_meta", "requestState", "inputResponses", "requestId", "uri")
		switch name {
		case "uri":
			r.uri = text(value)
		case "taskId":
			r.task = text(value)
		case "requestId":
			m.cancels = value
		}
		if len(r.other) > 0 {
			r.other = append(r.other, ',')
		}
		r.other = append(append(jsonx.AppendString(r.other, name), ':'), value...)
	}
}

// metaMember takes in a member of params._meta.
func (r *messageReader) metaMember(name string, value json.RawMessage) {
	switch said := &r.m.claimed; name {
	case metaVersion:
		said.version = r.string(name, value)
	case metaClient:
		said.info = value
	case metaCapabilities:
		said.capabilities = value
	case metaLogLevel:
		said.logLevel = r.string(name, value)
	case "progressToken":
		if string(value) != "null" {
			r.m.ProgressToken = value
		}
	}
}

// checkSpelling notes a name that other readers may take for one of the known ones.
func (r *messageReader) checkSpelling(name string, known ...string) {
	for _, other := range known {
		if name != other && strings.EqualFold(name, other) {
			r.misspelt = name
		}
	}
}

// string returns the text of a member, and notes one that is not a string.
func (r *messageReader) string(name string, value json.RawMessage) string {
	if len(value) > 0 && value[0] != '"' && string(value) != "null" {
		r.m.wrong = name
	}
	return text(value)
}

// text returns the text of a JSON string, and "" for other values.
func text(value json.RawMessage) string {
	if len(value) >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var unquoted string
	_ = json.Unmarshal(value, &unquoted) // other values have no text
	return unquoted
}

// maxBatch limits the messages of a batch, because all of them are served at once.
const maxBatch = 100

// readBody reads what a client has sent: one message or a batch. Messages that are
// not one have an error in their place.
func readBody(text []byte) (messages []*incoming, failures []error, batch bool, err error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '[' {
		m, err := readMessage(text)
		return []*incoming{m}, []error{nil}, false, err
	}
	if err := jsonx.CheckMembers(text); err != nil {
		return nil, nil, true, err
	}
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, nil, true, err
	}
	if len(all) > maxBatch {
		return nil, nil, true, &errNotMessage{reason: fmt.Sprintf("a batch has at most %d messages", maxBatch)}
	}
	for _, one := range all {
		m, err := readMessage(one)
		if not := (*errNotMessage)(nil); err != nil && !errors.As(err, &not) {
			return nil, nil, true, err
		}
		messages, failures = append(messages, m), append(failures, err)
	}
	return messages, failures, true, nil
}

// refusal returns the answer to a text that is not a message. It names no id unless
// the id is known for certain.
func refusal(err error) []byte {
	code, id, message := int64(CodeParse), json.RawMessage("null"), "this is not one message that all read alike: "+err.Error()
	if not := (*errNotMessage)(nil); errors.As(err, &not) {
		code, message = CodeInvalidRequest, not.reason
		if answerable(not.id) {
			id = not.id
		}
	}
	return refusalOf(id, code, message)
}

// refusalOf returns an error that answers a message which was not served.
func refusalOf(id json.RawMessage, code int64, message string) []byte {
	if !answerable(id) {
		id = json.RawMessage("null")
	}
	text, _ := jsonx.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": Error{
		Code: code, Message: strings.ToValidUTF8(message, "\uFFFD"),
	}})
	return text
}

// notification returns the text of a notification.
func notification(method string, params json.RawMessage) []byte {
	fields := []Field{String("jsonrpc", "2.0"), String("method", method)}
	if len(params) > 0 {
		fields = append(fields, Field{"params", params})
	}
	return object(fields)
}
