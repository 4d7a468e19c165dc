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
	// Name is the object of the request: params.uri for resources and skills,
	// params.taskId for tasks, and params.name for all others.
	Name           string
	Arguments      json.RawMessage
	Meta           json.RawMessage
	RequestState   string
	InputResponses map[string]json.RawMessage
	// Other is an object with the members of Params that have no field here, including
	// uri and taskId. It is nil if there are none.
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
	// Value is for use by the program. [ServerOptions.Prepare] may set it.
	Value any

	logLevel  string
	responder responder
	server    *Server
}

// Modern reports whether the client speaks 2026-07-28 or newer, and so has no session.
func (r *ServerRequest) Modern() bool { return r.Version >= modernVersion }

// errNoSession means that a client without a session cannot receive requests.
var errNoSession = errors.New("the client has no session: answer its request with questions (input_required)")

// Notify sends a notification that belongs to the request. It must be called before the
// request is answered. Params is a JSON object or nil. Log messages below the client's
// level are dropped. A client that has disconnected may receive the notification when
// it resumes the stream.
func (r *ServerRequest) Notify(method string, params json.RawMessage) error {
	if r.responder == nil || method == "notifications/message" && !wantsLog(r.level(), params) {
		return nil
	}
	return r.responder.send(encodeNotification(method, params))
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
	if r.Session == nil || r.responder == nil {
		return nil, errNoSession
	}
	return r.Session.ask(ctx, q, r.responder.send)
}

// Release ends the HTTP response of a request that is still in progress, so that the client
// reconnects for the rest after retry milliseconds (SEP-1699). Only clients of 2025-11-25
// with a session do that; for others Release does nothing.
func (r *ServerRequest) Release(retry int) {
	if r.Version == legacyVersion && r.responder != nil {
		r.responder.release(retry)
	}
}

// responder sends the messages of one request to its client.
type responder interface {
	// send sends a message that precedes the response.
	send(text []byte) error
	// respond sends the response to the request. It is called once. text is the result or,
	// if failed is set, the whole message.
	respond(id, text []byte, failed *Error)
	// release ends the stream, and tells the client to reconnect after retry milliseconds.
	release(retry int)
}

// incoming is a message of a client: a request, a notification, or an answer.
type incoming struct {
	ServerRequest
	result, failure json.RawMessage // of a response
	clientMeta      clientMeta
	// cancelledID is the requestId of notifications/cancelled.
	cancelledID json.RawMessage
	// wrongType is the name of a member with a value of the wrong type; empty if there is
	// none.
	wrongType string
	// prepared means that ServerOptions.Prepare has been called.
	prepared bool
}

// clientMeta are the declarations of a modern client in _meta.
type clientMeta struct {
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

// readMessage reads a message. It returns an error if the message is ambiguous, because other
// readers could interpret it differently: if a member occurs twice at any level, if a name
// differs from one of the protocol in case only, or if text follows the message. An
// [*errNotMessage] means that the text is valid JSON but not a message.
func readMessage(text []byte) (*incoming, error) {
	r := &messageReader{}
	if err := r.read(text); err != nil {
		// The strict reader refuses unpaired surrogates and invalid UTF-8, which are passed
		// on unchanged.
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
	// uri and task are members of params that are the Name of a request of some methods.
	uri, task string
	other     []byte // the members of ServerRequest.Other
	// misspelt is a name that differs from one of the protocol in case only, or empty.
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
	case m.wrongType == "method":
		return nil, &errNotMessage{m.ID, "the member method is not a string"}
	case m.Method == "" && (len(m.ID) == 0 || (m.result == nil) == (m.failure == nil)):
		return nil, &errNotMessage{m.ID, "a message has a method, or an id with a result or an error"}
	case m.ID != nil && m.Method != "" && !isRequestID(m.ID):
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

// isRequestID reports whether an id is a string or a number.
func isRequestID(id json.RawMessage) bool {
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
			r.readMember(name, in.Value())
			continue
		}
		start := in.Offset()
		in.Enter()
		for in.More() {
			name := string(in.Text())
			if name != "_meta" || in.Peek() != jsonx.Object {
				r.readParam(name, in.Value())
				continue
			}
			start := in.Offset()
			in.Enter()
			for in.More() {
				name := string(in.Text())
				r.readMetaMember(name, in.Value())
			}
			in.Leave()
			r.m.Meta = objectBetween(text, start, in.Offset())
		}
		in.Leave()
		r.m.Params = objectBetween(text, start, in.Offset())
	}
	in.Leave()
	return in.Finish()
}

// maxDepth limits the nesting of a message.
const maxDepth = 5000

// objectBetween returns the object between two offsets of a reader, or nil if the reader has
// failed, in which case end is zero.
func objectBetween(text []byte, start, end int) json.RawMessage {
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
			r.readMember(top.Name, top.Value)
			continue
		}
		r.m.Params = top.Value
		params, err := jsonx.Members(top.Value)
		if err != nil {
			return err
		}
		for _, p := range params {
			if p.Name != "_meta" || p.Value[0] != '{' {
				r.readParam(p.Name, p.Value)
				continue
			}
			r.m.Meta = p.Value
			meta, err := jsonx.Members(p.Value)
			if err != nil {
				return err
			}
			for _, member := range meta {
				r.readMetaMember(member.Name, member.Value)
			}
		}
	}
	return nil
}

// readMember stores a member of the message.
func (r *messageReader) readMember(name string, value json.RawMessage) {
	switch name {
	case "jsonrpc":
		r.jsonrpc = r.readString(name, value)
	case "id":
		r.m.ID = value
	case "method":
		r.m.Method = r.readString(name, value)
	case "params": // is not an object
		if string(value) != "null" {
			r.m.wrongType = name
		}
	case "result":
		r.m.result = value
	case "error":
		r.m.failure = value
	default:
		r.checkSpelling(name, "jsonrpc", "id", "method", "params")
	}
}

// readParam stores a member of params.
func (r *messageReader) readParam(name string, value json.RawMessage) {
	m := &r.m
	switch name {
	case "name":
		m.Name = r.readString(name, value)
	case "arguments":
		if m.Arguments = value; len(value) > 0 && value[0] != '{' && string(value) != "null" {
			m.wrongType = name
		}
	case "_meta": // is not an object
		if string(value) != "null" {
			m.wrongType = name
		}
	case "requestState":
		m.RequestState = r.readString(name, value)
	case "inputResponses":
		if json.Unmarshal(value, &m.InputResponses) != nil {
			m.wrongType = name
		}
	default:
		r.checkSpelling(name, "name", "arguments", "_meta", "requestState", "inputResponses", "requestId", "uri")
		switch name {
		case "uri":
			r.uri = stringValue(value)
		case "taskId":
			r.task = stringValue(value)
		case "requestId":
			m.cancelledID = value
		}
		if len(r.other) > 0 {
			r.other = append(r.other, ',')
		}
		r.other = append(append(jsonx.AppendString(r.other, name), ':'), value...)
	}
}

// readMetaMember stores a member of params._meta.
func (r *messageReader) readMetaMember(name string, value json.RawMessage) {
	switch said := &r.m.clientMeta; name {
	case metaVersion:
		said.version = r.readString(name, value)
	case metaClient:
		said.info = value
	case metaCapabilities:
		said.capabilities = value
	case metaLogLevel:
		said.logLevel = r.readString(name, value)
	case "progressToken":
		if string(value) != "null" {
			r.m.ProgressToken = value
		}
	}
}

// checkSpelling sets misspelt if other readers may take a name for one of the known ones.
func (r *messageReader) checkSpelling(name string, known ...string) {
	for _, other := range known {
		if name != other && strings.EqualFold(name, other) {
			r.misspelt = name
		}
	}
}

// readString returns the text of a member, and sets wrongType if it is not a string.
func (r *messageReader) readString(name string, value json.RawMessage) string {
	if len(value) > 0 && value[0] != '"' && string(value) != "null" {
		r.m.wrongType = name
	}
	return stringValue(value)
}

// stringValue returns the text of a JSON string, and "" for other values.
func stringValue(value json.RawMessage) string {
	if len(value) >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var unquoted string
	_ = json.Unmarshal(value, &unquoted) // fails for other values
	return unquoted
}

// maxBatch limits the messages of a batch, because all of them are served at once.
const maxBatch = 100

// readBody reads one message or a batch. For each invalid message of a batch, messages has nil
// and failures has an error.
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

// parseErrorResponse returns the response to a text that is not a valid message. It has an id only
// if the id is known for certain.
func parseErrorResponse(err error) []byte {
	code, id, message := int64(CodeParse), json.RawMessage("null"), "this is not one message that all read alike: "+err.Error()
	if not := (*errNotMessage)(nil); errors.As(err, &not) {
		code, message = CodeInvalidRequest, not.reason
		if isRequestID(not.id) {
			id = not.id
		}
	}
	return errorResponse(id, code, message)
}

// errorResponse returns an error response to a message that was not served.
func errorResponse(id json.RawMessage, code int64, message string) []byte {
	if !isRequestID(id) {
		id = json.RawMessage("null")
	}
	text, _ := jsonx.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": Error{
		Code: code, Message: strings.ToValidUTF8(message, "\uFFFD"),
	}})
	return text
}

// encodeNotification returns the JSON of a notification.
func encodeNotification(method string, params json.RawMessage) []byte {
	fields := []Field{String("jsonrpc", "2.0"), String("method", method)}
	if len(params) > 0 {
		fields = append(fields, Field{"params", params})
	}
	return object(fields)
}
