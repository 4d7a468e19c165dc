package mcpsource

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/source/mcp/wire"
	"github.com/toolroom/toolroom/source"
)

// listenQueue is how many events of one call wait for a slow caller. What comes
// beyond is dropped: it may not hold up the other calls on the connection.
const listenQueue = 256

// call is one call under way. It hears what the server tells of it.
type call struct {
	ctx    context.Context
	link   *link
	req    *source.Request
	ask    source.Asker
	asked  atomic.Int64
	missed atomic.Pointer[string] // the method of a question that nobody could be asked
	mu     sync.Mutex
	events chan told     // nil until there is one
	told   chan struct{} // closed when all events have been passed on
	over   bool
	open   *questions // that wait for others to come with them
}

// told is an event on its way to the caller, or a mark: a channel that is closed
// when all that came before it has been passed on.
type told struct {
	event toolroom.Event
	mark  chan struct{}
}

// tell passes an event on, unless too many wait.
func (c *call) tell(e toolroom.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if c.events == nil { // most calls have none
		events, all := make(chan told, listenQueue), make(chan struct{})
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
	case c.events <- told{event: e}:
	default:
	}
}

// put asks the caller, who has heard by then what was told before.
func (c *call) put(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	c.mu.Lock()
	mark := make(chan struct{})
	if c.events == nil || c.over {
		close(mark)
	} else {
		select {
		case c.events <- told{mark: mark}:
		default: // the caller is slow, and has missed some
			close(mark)
		}
	}
	c.mu.Unlock()
	select {
	case <-mark:
		return c.ask.Ask(ctx, questions)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave ends the call, when all that came before has been passed on. One whose
// time is over does not wait for a caller that does not listen.
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

// calls are the calls under way.
type calls struct {
	mu  sync.Mutex
	all map[*call]struct{}
}

// enter makes a call on a connection hear its events; leave returns when all that
// came before have been passed on.
func (cs *calls) enter(ctx context.Context, l *link, req *source.Request) (c *call, leave func()) {
	c = &call{ctx: ctx, link: l, req: req, ask: req.Ask}
	if c.ask == nil {
		c.ask = source.Nobody{}
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

// only is the call that a message on a connection belongs to which names none: the
// only one that runs there, else nil. The calls of other callers, on connections of
// their own, are none of it.
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

// callers are the keys of those whose calls run on a connection.
func (cs *calls) callers(l *link) []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var keys []string
	for c := range cs.all {
		if key := c.req.Identity.Key(); c.link == l && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// heard takes in a notification that came on a connection.
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
		// It names its question, and may come after the call.
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

// completeMethod says that a user is done with what a question with a URL asked.
const completeMethod = "notifications/elicitation/complete"

// notice tells the clients of a connection what belongs to no call. What comes on
// the connection of all callers while several calls run may be of one of these: where
// they are of one caller it is told to that one, else to nobody.
func (s *Source) notice(l *link, method string, params json.RawMessage) {
	if s.noticed == nil {
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
	s.noticed(source.Notice{
		Notice: toolroom.Notice{Method: method, Params: unsubscribed(params)}, To: to, Everybody: everybody, For: l.serves,
	})
}

// unsubscribed are the params of a notification without the name of the stream that
// it came on, which is between the server and us.
func unsubscribed(params json.RawMessage) json.RawMessage {
	if !bytes.Contains(params, []byte(wire.MetaSubscription)) {
		return params
	}
	members, err := jsonx.Members(params)
	if err != nil {
		return params
	}
	for i, m := range members {
		if m.Name != "_meta" {
			continue
		}
		meta, err := jsonx.Members(m.Value)
		if err != nil {
			return params
		}
		meta = slices.DeleteFunc(meta, func(m jsonx.Member) bool { return m.Name == wire.MetaSubscription })
		if len(meta) == 0 {
			return object(slices.Delete(members, i, i+1))
		}
		members[i].Value = object(meta)
		return object(members)
	}
	return params
}

// level maps MCP's log levels, those of syslog, to Toolroom's.
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
