package mcpsource

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tap is a transport that keeps the raw results of the requests it was told to
// expect. A request is recognised by its progress token, since the SDK gives it
// its id. This is the seam for a relay that speaks raw JSON throughout.
type tap struct {
	mcp.Transport
	// heard gets each notification, in order with the results.
	heard func(method string, params json.RawMessage)

	mu      sync.Mutex
	waiting map[string]*expected     // by progress token
	sent    map[jsonrpc.ID]*expected // by request id
}

type expected struct {
	id     jsonrpc.ID
	result json.RawMessage
}

// expect announces a request; take gives its raw result, nil when none came.
func (t *tap) expect(token string) (take func() json.RawMessage) {
	e := &expected{}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting, t.sent = map[string]*expected{}, map[jsonrpc.ID]*expected{}
	}
	t.waiting[token] = e
	return func() json.RawMessage {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.waiting, token)
		delete(t.sent, e.id)
		return e.result
	}
}

// Connect connects and taps the connection.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tappedConnection{conn, t}, nil
}

type tappedConnection struct {
	mcp.Connection
	tap *tap
}

func (c *tappedConnection) Write(ctx context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() && (req.Method == "tools/call" || req.Method == "tools/list") {
		c.tap.sending(req)
	}
	return c.Connection.Write(ctx, msg)
}

func (c *tappedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if err != nil {
		return msg, err
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if msg.Error == nil {
			c.tap.received(msg)
		}
	case *jsonrpc.Request:
		if !msg.IsCall() {
			c.tap.heard(msg.Method, msg.Params)
		}
	}
	return msg, nil
}

func (t *tap) sending(req *jsonrpc.Request) {
	var params struct {
		Meta struct {
			Token string `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(req.Params, &params) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.waiting[params.Meta.Token]; ok {
		e.id = req.ID
		t.sent[req.ID] = e
	}
}

func (t *tap) received(resp *jsonrpc.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Only the first answer counts, as for the SDK.
	if e, ok := t.sent[resp.ID]; ok && e.result == nil {
		e.result = resp.Result
	}
}
