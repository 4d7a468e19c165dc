package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// listenQueue is the number of a call's events that are queued for a slow caller.
// Further events are dropped, so that they do not delay other calls on the
// connection.
const listenQueue = 256

// call is one call in progress. It receives the server's messages about it.
type call struct {
	ctx    context.Context
	link   *link
	req    *source.Request
	asked  atomic.Int64
	missed atomic.Pointer[string] // the method of a question that the client does not support
	mu     sync.Mutex
	ask    source.Asker  // another one once the call is a task
	events chan queued   // nil until there is one
	told   chan struct{} // closed when all events have been passed on
	over   bool
	open   *questions // that wait for others to come with them
}

// queued is an event on its way to the caller, or a mark: a channel that is closed
// when all events before it have been passed on.
type queued struct {
	event toolroom.Event
	mark  chan struct{}
}

// tell queues an event, unless the queue is full.
func (c *call) tell(e toolroom.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if c.events == nil { // most calls have none
		events, all := make(chan queued, listenQueue), make(chan struct{})
		c.events, c.told = events, all
		go func() {
			defer close(all)
			for e := range events {
				if e.mark != nil {
					close(e.mark)
					continue
				}
				c.req.Emit(e.event)
			}
		}()
	}
	select {
	case c.events <- queued{event: e}:
	default:
	}
}

// asker returns whom the server may ask.
func (c *call) asker() source.Asker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ask
}

// put asks the caller after all earlier events have been passed on.
func (c *call) put(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	c.mu.Lock()
	mark := make(chan struct{})
	if c.events == nil || c.over {
		close(mark)
	} else {
		select {
		case c.events <- queued{mark: mark}:
		default: // the caller is slow, and has missed events
			close(mark)
		}
	}
	c.mu.Unlock()
	select {
	case <-mark:
		return c.asker().Ask(ctx, questions)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave ends the call after all events have been passed on. It does not wait for a
// slow caller beyond the end of the call's context.
func (c *call) leave() {
	c.mu.Lock()
	c.over = true
	events, told := c.events, c.told
	c.mu.Unlock()
	if events != nil {
		close(events)
		select {
		case <-told:
		case <-c.ctx.Done():
		}
	}
}

// calls are the calls in progress.
type calls struct {
	mu  sync.Mutex
	all map[*call]struct{}
}

// enter registers a call on a connection. The returned leave ends it and returns
// when all its events have been passed on.
func (cs *calls) enter(ctx context.Context, l *link, req *source.Request) (c *call, leave func()) {
	c = &call{ctx: ctx, link: l, req: req, ask: req.Ask}
	if c.ask == nil {
		c.ask = source.NoAsker{}
	}
	cs.mu.Lock()
	if cs.all == nil {
		cs.all = map[*call]struct{}{}
	}
	cs.all[c] = struct{}{}
	cs.mu.Unlock()
	return c, func() {
		cs.mu.Lock()
		delete(cs.all, c)
		cs.mu.Unlock()
		c.leave()
	}
}

// only returns the call to which a message belongs that names no call: the only
// call on the connection, or nil if there are several or none. Calls on other
// connections do not count.
func (cs *calls) only(l *link) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var only *call
	for c := range cs.all {
		switch {
		case c.link != l:
		case only != nil:
			return nil
		default:
			only = c
		}
	}
	return only
}

// callers returns the owner names of the callers whose calls run on a connection.
func (cs *calls) callers(l *link) []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var keys []string
	for c := range cs.all {
		if key := identity.Owner(c.req.Identity); c.link == l && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// heard handles a notification that arrived on a connection.
func (s *Source) heard(l *link, owner any, method string, raw json.RawMessage) {
	c, _ := owner.(*call)
	switch method {
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		s.changed()
	case "notifications/resources/updated":
		var p struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal(raw, &p) == nil {
			s.watches.tell(p.URI, unsubscribed(raw))
		}
	case "notifications/progress":
		var p struct {
			Progress float64 `json:"progress"`
			Total    float64 `json:"total"`
			Message  string  `json:"message"`
		}
		if c != nil && json.Unmarshal(raw, &p) == nil {
			c.tell(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: p.Progress, Total: p.Total, Message: p.Message, Raw: raw}})
		}
	case "notifications/message":
		var p struct {
			Level string          `json:"level"`
			Data  json.RawMessage `json:"data"`
		}
		if c == nil {
			c = s.calls.only(l)
		}
		if c == nil {
			s.notice(l, method, raw)
		} else if json.Unmarshal(raw, &p) == nil {
			c.tell(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Level: level(p.Level), Message: text(p.Data), Data: p.Data, Raw: raw}})
		}
	case completeMethod:
		// It names its question, and may arrive after the call.
		s.notice(l, method, raw)
	default:
		if c == nil {
			c = s.calls.only(l)
		}
		if c == nil {
			s.notice(l, method, raw)
		} else {
			c.tell(toolroom.Event{Kind: toolroom.EventNotice, Notice: &toolroom.Notice{Method: method, Params: raw}})
		}
	}
}

// completeMethod reports that a user has completed a question with a URL.
const completeMethod = "notifications/elicitation/complete"

// notice forwards a notification that belongs to no call to the clients of a
// connection. On a shared connection it may belong to one of the running calls: it
// is then forwarded if all these calls are of one caller, to that caller only, and
// dropped otherwise.
func (s *Source) notice(l *link, method string, params json.RawMessage) {
	if s.forward == nil {
		return
	}
	to, everybody := l.who, l.who == ""
	if everybody && method != completeMethod {
		switch callers := s.calls.callers(l); len(callers) {
		case 0:
		case 1:
			to, everybody = callers[0], false
		default:
			return
		}
	}
	s.forward(source.Notification{
		Notice: toolroom.Notice{Method: method, Params: unsubscribed(params)}, To: to, Everybody: everybody, For: l.serves,
	})
}

// unsubscribed returns the params of a notification without the id of the stream on
// which it arrived, which concerns only the server and this client.
func unsubscribed(params json.RawMessage) json.RawMessage {
	if !bytes.Contains(params, []byte(mcp.MetaSubscription)) {
		return params
	}
	o, err := mcp.ReadObject(params)
	if err != nil {
		return params
	}
	meta, err := mcp.ReadObject(o.Get("_meta"))
	if err != nil {
		return params
	}
	meta.Drop(mcp.MetaSubscription)
	o.Set("_meta", meta.JSON())
	if meta.Empty() {
		o.Drop("_meta")
	}
	return o.JSON()
}

// level maps MCP's log levels, which are those of syslog, to Toolroom's.
func level(l string) string {
	switch l {
	case "debug":
		return "debug"
	case "info", "notice":
		return "info"
	case "warning":
		return "warning"
	default:
		return "error"
	}
}

func text(data json.RawMessage) string {
	var s string
	if json.Unmarshal(data, &s) == nil {
		return s
	}
	return string(data)
}
