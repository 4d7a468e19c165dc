package mcpsource

import (
	"encoding/json"
	"sync"

	"github.com/toolroom/toolroom"
)

// listenQueue is how many events of one call wait for a slow caller. What comes
// beyond is dropped: it may not hold up the other calls on the connection.
const listenQueue = 256

// listeners are the calls under way, which hear what the server tells of them.
type listeners struct {
	mu    sync.Mutex
	calls map[string]chan toolroom.Event // by progress token
}

// enter makes a call hear its events; leave returns when all that came before
// have been passed on.
func (l *listeners) enter(token string, emit func(toolroom.Event)) (leave func()) {
	events := make(chan toolroom.Event, listenQueue)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string]chan toolroom.Event{}
	}
	l.calls[token] = events
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			emit(e)
		}
	}()
	return func() {
		l.mu.Lock()
		delete(l.calls, token)
		close(events)
		l.mu.Unlock()
		<-done
	}
}

// hear passes a notification on to the call that it is about. A log line names
// no call: it belongs to the only one that runs, or to none.
func (l *listeners) hear(method string, raw json.RawMessage) {
	switch method {
	case "notifications/progress":
		var p struct {
			Token    string  `json:"progressToken"`
			Progress float64 `json:"progress"`
			Total    float64 `json:"total"`
			Message  string  `json:"message"`
		}
		if json.Unmarshal(raw, &p) == nil {
			l.tell(p.Token, toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: p.Progress, Total: p.Total, Message: p.Message}})
		}
	case "notifications/message":
		var p struct {
			Level string          `json:"level"`
			Data  json.RawMessage `json:"data"`
		}
		if json.Unmarshal(raw, &p) == nil {
			l.tell("", toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Level: level(p.Level), Message: text(p.Data), Data: p.Data}})
		}
	}
}

func (l *listeners) tell(token string, e toolroom.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token == "" && len(l.calls) == 1 {
		for only := range l.calls {
			token = only
		}
	}
	select {
	case l.calls[token] <- e: // a call that has ended is a nil channel
	default:
	}
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
