package mcpserver

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// replies are the answers of older clients to what they are asked, on their way
// through the SDK. It reads an answer into a type of its own and drops what the
// type does not know; so it gets one that only bears a name, under which the
// answer lies here as the client wrote it.
type replies struct {
	mu       sync.Mutex
	sessions map[string]*heard
}

// heard is what the client of one session has answered.
type heard struct {
	questions int // open
	raw       map[string]json.RawMessage
}

// maxReplies is how many answers of one session may lie here. A client sends one
// for each question; what comes beyond goes through the SDK as it is.
const maxReplies = 16

// expect begins to take in the answers of a session. forget ends that when its
// last question has been answered.
func (rs *replies) expect(session string) (forget func()) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.sessions == nil {
		rs.sessions = map[string]*heard{}
	}
	h := rs.sessions[session]
	if h == nil {
		h = &heard{raw: map[string]json.RawMessage{}}
		rs.sessions[session] = h
	}
	h.questions++
	return func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if h.questions--; h.questions == 0 {
			delete(rs.sessions, session)
		}
	}
}

// park keeps the answer that a message is, and gives the message that the SDK
// reads in its place: one that fits each question. It is false for what is no
// answer, and for one that nobody waits for.
func (rs *replies) park(session string, text []byte) ([]byte, bool) {
	id, result, failure, ok := readReply(text)
	if !ok {
		return nil, false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	h := rs.sessions[session]
	if h == nil || len(h.raw) >= maxReplies {
		return nil, false
	}
	name := parkedName()
	if failure != nil {
		h.raw[name] = failure
		return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32603,"message":"","data":{"` + parkedKey + `":"` + name + `"}}}`), true
	}
	h.raw[name] = result
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"_meta":{"` + parkedKey + `":"` + name + `"},` +
		`"action":"accept","content":{"type":"text","text":""},"role":"assistant","model":"","roots":[]}}`), true
}

// take gives the answer that a result of the SDK stands for. One that did not
// come this way is written anew.
func (rs *replies) take(session string, result mcp.Result) (json.RawMessage, error) {
	if name, ok := result.GetMeta()[parkedKey].(string); ok {
		if raw := rs.named(session, name); raw != nil {
			return raw, nil
		}
	}
	return jsonx.Marshal(result)
}

// refusal gives the error that one of the SDK stands for.
func (rs *replies) refusal(session string, rpc *jsonrpc.Error) *source.Refusal {
	var data map[string]string
	if json.Unmarshal(rpc.Data, &data) == nil {
		if raw := rs.named(session, data[parkedKey]); raw != nil {
			sent := jsonrpc.Error{}
			// It has been read before it was kept.
			_ = json.Unmarshal(raw, &sent)
			return &source.Refusal{Code: sent.Code, Message: sent.Message, Data: sent.Data, Sent: raw}
		}
	}
	return &source.Refusal{Code: rpc.Code, Message: rpc.Message, Data: rpc.Data}
}

// named gives what lies here under a name, once; nil for nothing.
func (rs *replies) named(session, name string) json.RawMessage {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	h := rs.sessions[session]
	if h == nil {
		return nil
	}
	raw := h.raw[name]
	delete(h.raw, name)
	return raw
}

// readReply reads the id of a message that answers a request, and its result or
// error.
func readReply(text []byte) (id, result, failure json.RawMessage, ok bool) {
	members, err := jsonx.Members(text)
	if err != nil {
		return nil, nil, nil, false
	}
	for _, m := range members {
		switch m.Name {
		case "id":
			id = m.Value
		case "result":
			result = m.Value
		case "error":
			failure = m.Value
		case "method":
			return nil, nil, nil, false
		}
	}
	if failure != nil {
		return id, nil, failure, len(id) > 0 && result == nil && json.Unmarshal(failure, &jsonrpc.Error{}) == nil
	}
	return id, result, nil, len(id) > 0 && isObject(result)
}
