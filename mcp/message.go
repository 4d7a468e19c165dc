package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Codes of JSON-RPC and MCP errors that this package distinguishes or sends.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeNoResource         = -32002 // before 2026-07-28, which uses CodeInvalidParams instead
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// Error is a JSON-RPC error as the server sent it.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	// Sent is the whole error as received or to be sent. If it is nil, the error
	// consists of the fields above.
	Sent json.RawMessage `json:"-"`
}

// UnmarshalJSON decodes an error and stores its text in Sent.
func (e *Error) UnmarshalJSON(text []byte) error {
	type members Error
	if err := json.Unmarshal(text, (*members)(e)); err != nil {
		return err
	}
	e.Sent = bytes.Clone(text)
	return nil
}

// Error returns the message with its code.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// HasOtherMembers reports whether the error has members besides code, message and data.
func (e *Error) HasOtherMembers() bool {
	members, _ := jsonx.Members(e.Sent)
	return slices.ContainsFunc(members, func(m jsonx.Member) bool { return m.Name != "code" && m.Name != "message" && m.Name != "data" })
}

// toError converts an error to one of the protocol, and nil to nil.
func toError(err error) *Error {
	if err == nil {
		return nil
	}
	failed := (*Error)(nil)
	if !errors.As(err, &failed) {
		failed = &Error{Code: CodeInternal, Message: err.Error()}
	}
	return failed
}

// Missing returns the client capabilities that the server requires, or nil if the
// error has another cause.
func (e *Error) Missing() json.RawMessage {
	var data struct {
		Required json.RawMessage `json:"requiredCapabilities"`
	}
	if e.Code != CodeMissingCapability || json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Required
}

// Field is a member of a JSON object, its value raw.
type Field struct {
	Name  string
	Value json.RawMessage
}

// String returns a field with a string value.
func String(name, value string) Field {
	return Field{name, jsonx.AppendString(nil, value)}
}

// message is one JSON-RPC message in either direction.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// outgoing is a message to the server, with the data that transports need.
type outgoing struct {
	id     int64 // zero if no response is expected
	method string
	name   string // the tool, prompt or URI, for the Mcp-Name header
	header map[string]string
	body   []byte
	// version is the protocol's, empty before it is negotiated. Modern messages are
	// self-contained; older ones belong to a session.
	version string
}

func (m *outgoing) modern() bool { return m.version >= modernVersion }

// encodeRequest writes a request or, if id is zero, a notification. It writes values byte
// for byte, except for line ends between tokens, because a line end would end the
// message on stdio.
func encodeRequest(id int64, method string, fields []Field) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(sizeOf(fields) + len(method) + 64)
	b.WriteString(`{"jsonrpc":"2.0",`)
	if id != 0 {
		b.WriteString(`"id":`)
		b.Write(strconv.AppendInt(b.AvailableBuffer(), id, 10))
		b.WriteByte(',')
	}
	b.WriteString(`"method":"`)
	b.WriteString(method)
	b.WriteByte('"')
	if len(fields) > 0 {
		b.WriteString(`,"params":`)
		if err := writeObject(&b, fields); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encodeResponse writes a response: an error if failed is set, else a result.
func encodeResponse(id, result json.RawMessage, failed *Error) ([]byte, error) {
	fields := []Field{{"jsonrpc", json.RawMessage(`"2.0"`)}, {"id", id}}
	if failed != nil {
		text := failed.Sent
		if text == nil {
			var err error
			if text, err = jsonx.Marshal(failed); err != nil {
				return nil, err
			}
		}
		fields = append(fields, Field{"error", text})
	} else {
		fields = append(fields, Field{"result", result})
	}
	var b bytes.Buffer
	err := writeObject(&b, fields)
	return b.Bytes(), err
}

// oneLine returns JSON without line ends, which end a message on stdio and in a stream.
func oneLine(text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text, nil
	}
	var line bytes.Buffer
	err := json.Compact(&line, text)
	return line.Bytes(), err
}

// sizeOf estimates the length of an object.
func sizeOf(fields []Field) int {
	size := 2
	for _, f := range fields {
		size += len(f.Name) + len(f.Value) + 4
	}
	return size
}

func writeObject(b *bytes.Buffer, fields []Field) error {
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonx.AppendString(b.AvailableBuffer(), f.Name))
		b.WriteByte(':')
		if bytes.IndexByte(f.Value, '\n') < 0 && bytes.IndexByte(f.Value, '\r') < 0 {
			b.Write(f.Value)
			continue
		}
		if err := json.Compact(b, f.Value); err != nil {
			return fmt.Errorf("%s is not JSON: %w", f.Name, err)
		}
	}
	b.WriteByte('}')
	return nil
}

// decode decodes a message, or a batch of messages, which revision 2025-03-26
// allows.
func decode(raw []byte) ([]message, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '[' {
		var batch []json.RawMessage
		if err := json.Unmarshal(raw, &batch); err != nil {
			return nil, err
		}
		messages := make([]message, len(batch))
		for i, one := range batch {
			var err error
			if messages[i], err = decodeOne(one); err != nil {
				return nil, err
			}
		}
		return messages, nil
	}
	m, err := decodeOne(raw)
	return []message{m}, err
}

// decodeOne decodes a message. Its parts share memory with raw.
func decodeOne(raw []byte) (m message, err error) {
	members, err := jsonx.Members(raw)
	if err != nil {
		return m, err
	}
	for _, member := range members {
		switch member.Name {
		case "id":
			m.ID = member.Value
		case "method":
			err = json.Unmarshal(member.Value, &m.Method)
		case "params":
			m.Params = member.Value
		case "result":
			m.Result = member.Value
		case "error":
			err = json.Unmarshal(member.Value, &m.Error)
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// responseID returns the id of the request that a message answers.
func (m *message) responseID() (int64, bool) {
	if m.Method != "" || len(m.ID) == 0 {
		return 0, false
	}
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	return id, err == nil
}

// Fields returns the members of an object in order, except those with these names. It
// returns none for nil.
func Fields(object json.RawMessage, except ...string) ([]Field, error) {
	if object == nil {
		return nil, nil
	}
	members, err := jsonx.Members(object)
	if err != nil {
		return nil, err
	}
	var fields []Field
	for _, m := range members {
		if !slices.Contains(except, m.Name) {
			fields = append(fields, Field(m))
		}
	}
	return fields, nil
}
