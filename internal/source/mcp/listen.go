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

// maxQueuedEvents is the number of a call's events that are queued for a slow caller.
// Further events are dropped, so that they do not delay other calls on the
// connection.
const maxQueuedEvents = 256

// call is one call in progress. It receives the server's messages about it.
type call struct {
	ctx           context.Context
	link          *link
	req           *source.Request
	questionCount atomic.Int64
	unsupported   atomic.Pointer[string] // the method of a question that the client does not support
	mu            sync.Mutex
	currentAsker  source.Asker     // replaced when the call becomes a task
	events        chan queuedEvent // nil until the first event
	delivered     chan struct{}    // closed when all events have been passed on
	ended         bool
	gathering     *questions   // to which further questions are added for gatherTime
	asked         []*questions // those that the caller has been asked
}

// queuedEvent is an event for the caller, or a mark: a channel that is closed when all events
// before it have been passed on.
type queuedEvent struct {
	event toolroom.Event
	mark  chan struct{}
}

// queueEvent queues an event, unless the queue is full.
func (c *call) queueEvent(e toolroom.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.events == nil { // most calls have none
		events, all := make(chan queuedEvent, maxQueuedEvents), make(chan struct{})
		c.events, c.delivered = events, all
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
	case c.events <- queuedEvent{event: e}:
	default:
	}
}

// asker returns the asker for the server's questions.
func (c *call) asker() source.Asker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.currentAsker
}

// askCaller asks the caller after all earlier events have been passed on.
func (c *call) askCaller(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	c.mu.Lock()
	mark := make(chan struct{})
	if c.events == nil || c.ended {
		close(mark)
	} else {
		select {
		case c.events <- queuedEvent{mark: mark}:
		default: // the queue is full, because the caller is slow
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

// finish ends the call and returns when its questions are no longer open and all events have been
// passed on, or when the call's context ends. The result of the call must not overtake the
// withdrawal of a question.
func (c *call) finish() {
	c.mu.Lock()
	c.ended = true
	events, delivered, asked := c.events, c.delivered, c.asked
	c.mu.Unlock()
	for _, qs := range asked {
		qs.close(c.ctx)
	}
	if events != nil {
		close(events)
		select {
		case <-delivered:
		case <-c.ctx.Done():
		}
	}
}

// calls are the calls in progress.
type calls struct {
	mu  sync.Mutex
	all map[*call]struct{}
}

// add registers a call on a connection. The returned function removes the call and returns when
// all its events have been passed on.
func (cs *calls) add(ctx context.Context, l *link, req *source.Request) (c *call, leave func()) {
	c = &call{ctx: ctx, link: l, req: req, currentAsker: req.Ask}
	if c.currentAsker == nil {
		c.currentAsker = source.NoAsker{}
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
		c.finish()
	}
}

// onlyCall returns the call to which a message without a reference to a call belongs: the only
// call on the connection, or nil if there are several or none.
func (cs *calls) onlyCall(l *link) *call {
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

// handleNotification handles a notification that arrived on a connection.
func (s *Source) handleNotification(l *link, owner any, method string, raw json.RawMessage) {
	c, _ := owner.(*call)
	switch method {
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		s.toolsChanged()
	case "notifications/resources/updated":
		var p struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal(raw, &p) == nil {
			s.watches.notify(p.URI, withoutSubscriptionID(raw))
		}
	case "notifications/progress":
		var p struct {
			Progress float64 `json:"progress"`
			Total    float64 `json:"total"`
			Message  string  `json:"message"`
		}
		if c != nil && json.Unmarshal(raw, &p) == nil {
			c.queueEvent(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: p.Progress, Total: p.Total, Message: p.Message, Raw: raw}})
		}
	case "notifications/message":
		var p struct {
			Level string          `json:"level"`
			Data  json.RawMessage `json:"data"`
		}
		if c == nil {
			c = s.calls.onlyCall(l)
		}
		if c == nil {
			s.forwardNotification(l, method, raw)
		} else if json.Unmarshal(raw, &p) == nil {
			c.queueEvent(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Level: logLevel(p.Level), Message: textOf(p.Data), Data: p.Data, Raw: raw}})
		}
	case completeMethod:
		// It names its question, and may arrive after the end of the call.
		s.forwardNotification(l, method, raw)
	default:
		if c == nil {
			c = s.calls.onlyCall(l)
		}
		if c == nil {
			s.forwardNotification(l, method, raw)
		} else {
			c.queueEvent(toolroom.Event{Kind: toolroom.EventNotice, Notice: &toolroom.Notice{Method: method, Params: raw}})
		}
	}
}

// completeMethod reports that a user has completed a question with a URL.
const completeMethod = "notifications/elicitation/complete"

// forwardNotification forwards a notification that belongs to no call to the clients of a
// connection. On a shared connection it may belong to one of the calls in progress. If all of
// them are of one caller, it is forwarded to that caller only; otherwise it is dropped.
func (s *Source) forwardNotification(l *link, method string, params json.RawMessage) {
	if s.notifyClients == nil {
		return
	}
	to, everybody := l.owner, l.owner == ""
	if everybody && method != completeMethod {
		switch callers := s.calls.callers(l); len(callers) {
		case 0:
		case 1:
			to, everybody = callers[0], false
		default:
			return
		}
	}
	s.notifyClients(source.Notification{
		Notice: toolroom.Notice{Method: method, Params: withoutSubscriptionID(params)}, To: to, Everybody: everybody, For: l.servesClient,
	})
}

// withoutSubscriptionID returns the params of a notification without the id of the subscription,
// which concerns only the server and this client.
func withoutSubscriptionID(params json.RawMessage) json.RawMessage {
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

// logLevel maps MCP's log levels, which are those of syslog, to Toolroom's.
func logLevel(l string) string {
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

func textOf(data json.RawMessage) string {
	var s string
	if json.Unmarshal(data, &s) == nil {
		return s
	}
	return string(data)
}
