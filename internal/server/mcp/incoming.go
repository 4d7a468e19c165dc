//lint:file-ignore SA1019 sampling, roots and logging are deprecated and still served

package mcpserver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// incoming is a message of a client as it stands in its text, read in one pass
// and no further than this package needs. The parts share the text's memory.
type incoming struct {
	text   []byte
	id     json.RawMessage // nil for a notification
	method string

	// Of params:
	params    json.RawMessage
	name      string
	arguments json.RawMessage
	meta      json.RawMessage
	state     string
	answers   map[string]json.RawMessage
	cancels   json.RawMessage // the requestId of notifications/cancelled
	// more are the members besides those above, an object without its braces.
	more []byte
	// odd says that a part is not of its type: the SDK tells the client.
	odd bool
	// misspelt is a name that differs from one that is read in its case alone.
	misspelt string

	// Of params._meta:
	version      string
	info         json.RawMessage
	capabilities json.RawMessage
	logLevel     string
	progress     json.RawMessage
	key          string

	// params and metaStart are where, in the text, these objects begin; zero
	// where there is none.
	paramsStart, metaStart int
	// answersStart and answersEnd are those of inputResponses.
	answersStart, answersEnd int
}

// readIncoming reads a message. It reports false for what is not one message of
// strict JSON: batches, and what the SDK refuses or understands in another way.
func readIncoming(text []byte) (*incoming, bool) {
	m := &incoming{text: text}
	r := jsonx.NewReader(text, jsonx.Limits{Bytes: maxBody})
	if r.Peek() != jsonx.Object {
		r.Abandon()
		return nil, false
	}
	version := ""
	r.Enter()
	for r.More() {
		switch name := string(r.Text()); name {
		case "jsonrpc":
			version = m.string(r)
		case "id":
			m.id = r.Value()
		case "method":
			m.method = m.string(r)
		case "params":
			m.readParams(r)
		default:
			m.spelling(name, "jsonrpc", "id", "method", "params")
			r.Skip()
		}
	}
	r.Leave()
	if r.Finish() != nil || version != "2.0" || m.method == "" {
		return nil, false
	}
	return m, true
}

func (m *incoming) readParams(r *jsonx.Reader) {
	if r.Peek() != jsonx.Object {
		m.odd = true
		r.Skip()
		return
	}
	r.Enter()
	m.paramsStart = r.Offset()
	for r.More() {
		switch name := string(r.Text()); name {
		case "name":
			m.name = m.string(r)
		case "arguments":
			m.arguments = m.object(r)
		case "_meta":
			m.readMeta(r)
		case "requestState":
			m.state = m.string(r)
		case "inputResponses":
			m.readAnswers(r)
		default:
			m.spelling(name, "name", "arguments", "_meta", "requestState", "inputResponses", "requestId", "uri")
			value := r.Value()
			if name == "requestId" {
				m.cancels = value
			}
			if len(m.more) > 0 {
				m.more = append(m.more, ',')
			}
			m.more = append(append(appendText(m.more, name), ':'), value...)
		}
	}
	r.Leave()
	m.params = m.since(r, m.paramsStart)
}

// spelling notes a name that other readers may take for one of the known ones.
func (m *incoming) spelling(name string, known ...string) {
	for _, other := range known {
		if name != other && strings.EqualFold(name, other) {
			m.misspelt = name
		}
	}
}

// refuseAmbiguous returns an error for what a client sent, one message or a batch,
// if another reader could understand it in another way: members that are there
// twice, at any level, names in another case, and text after the end. m is the
// message if there is exactly one in strict JSON.
func refuseAmbiguous(text []byte, m *incoming) error {
	if m != nil {
		if m.misspelt != "" {
			return fmt.Errorf("the name %q differs from a member of the protocol in case", m.misspelt)
		}
		return nil // it was read strictly
	}
	if err := jsonx.CheckMembers(text); err != nil {
		return err
	}
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) != nil {
		return nil
	}
	for _, one := range batch {
		if m, ok := readIncoming(one); ok {
			if err := refuseAmbiguous(one, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// ambiguous is the answer to a message that refuseAmbiguous refuses. It names no
// id: what the id is may be just what is open.
func ambiguous(err error) []byte {
	return refusal(jsonrpc.CodeParseError, nil, "this is not one message that all read alike: "+err.Error())
}

// notMessage is the answer to JSON that is not a message.
func notMessage(id json.RawMessage, reason string) []byte {
	return refusal(jsonrpc.CodeInvalidRequest, id, reason)
}

// refusal is an error without an id if id is no string or number.
func refusal(code int64, id json.RawMessage, message string) []byte {
	if len(id) == 0 || !strings.ContainsRune(`"-0123456789`, rune(id[0])) {
		id = json.RawMessage("null")
	}
	text, _ := jsonx.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": jsonrpc.Error{
		Code: code, Message: strings.ToValidUTF8(message, "\uFFFD"),
	}})
	return text
}

// besides are the members of params that are not read here nor by the method: what
// else its client says.
func (m *incoming) besides() json.RawMessage {
	if len(m.more) == 0 {
		return nil
	}
	return slices.Concat([]byte{'{'}, m.more, []byte{'}'})
}

func (m *incoming) readMeta(r *jsonx.Reader) {
	if r.Peek() != jsonx.Object {
		m.odd = true
		r.Skip()
		return
	}
	r.Enter()
	m.metaStart = r.Offset()
	for r.More() {
		switch string(r.Text()) {
		case mcp.MetaKeyProtocolVersion:
			m.version = m.string(r)
		case mcp.MetaKeyClientInfo:
			m.info = m.object(r)
		case mcp.MetaKeyClientCapabilities:
			m.capabilities = m.object(r)
		case mcp.MetaKeyLogLevel:
			m.logLevel = m.string(r)
		case "progressToken":
			m.progress = r.Value()
		case metaKey:
			m.key = m.string(r)
		default:
			r.Skip()
		}
	}
	r.Leave()
	m.meta = m.since(r, m.metaStart)
}

// since is the text of the object that was entered at start and has just been left;
// nil where the message is broken, which its reader says at the end.
func (m *incoming) since(r *jsonx.Reader, start int) json.RawMessage {
	if start == 0 || r.Offset() == 0 {
		return nil
	}
	return m.text[start-1 : r.Offset()]
}

func (m *incoming) readAnswers(r *jsonx.Reader) {
	if r.Peek() != jsonx.Object {
		m.odd = true
		r.Skip()
		return
	}
	m.answers = map[string]json.RawMessage{}
	r.Enter()
	m.answersStart = r.Offset()
	for r.More() {
		key := string(r.Text())
		m.answers[key] = r.Value()
	}
	r.Leave()
	m.answersEnd = r.Offset() - 1 // of a broken message nobody asks
}

func (m *incoming) string(r *jsonx.Reader) string {
	if r.Peek() != jsonx.String {
		m.odd = true
		r.Skip()
		return ""
	}
	return string(r.Text())
}

func (m *incoming) object(r *jsonx.Reader) json.RawMessage {
	if r.Peek() != jsonx.Object {
		m.odd = true
	}
	return r.Value()
}

// answerable reports whether a client can be answered under the message's id.
func (m *incoming) answerable() bool {
	return len(m.id) > 0 && (m.id[0] == '"' || m.id[0] == '-' || '0' <= m.id[0] && m.id[0] <= '9')
}

// parkedKey is where a message that we give to the SDK bears the name of what we
// have read of it ourselves.
const parkedKey = "toolroom/parked"

// named is the message's text with a name in its _meta, and without the answers,
// which may be more than the SDK can read.
func (m *incoming) named(name string) []byte {
	at, insert := m.metaStart, `"`+parkedKey+`":"`+name+`"`
	if at == 0 {
		at, insert = m.paramsStart, `"_meta":{`+insert+`}`
	}
	if rest := bytes.TrimLeft(m.text[at:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		insert += ","
	}
	text := make([]byte, 0, len(m.text)+len(insert))
	if m.answersEnd < at {
		text = append(text, m.text[:m.answersStart]...)
		text = append(text, m.text[m.answersEnd:at]...)
		text = append(text, insert...)
		return append(text, m.text[at:]...)
	}
	text = append(text, m.text[:at]...)
	text = append(text, insert...)
	text = append(text, m.text[at:m.answersStart]...)
	return append(text, m.text[m.answersEnd:]...)
}

// parkedName is a name that no client can guess.
func parkedName() string { return strings.ToLower(rand.Text()) }
