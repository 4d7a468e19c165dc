package mcp

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// defaultProgressPeriod is a sixth of the time after which common clients give up.
const defaultProgressPeriod = 10 * time.Second

// progressStep is by how much progress grows that has no figure of its own: so little that
// the tool's own figures, which follow, are still the larger ones.
const progressStep = 1.0 / 1024

// progress tells the client of a call how far it is, if the client gave a token. A client
// that hears nothing else is told at intervals that the call still runs: many end a call
// only when they have heard nothing for a minute.
type progress struct {
	client client
	every  time.Duration
	began  time.Time

	mu      sync.Mutex
	told    float64
	own     bool        // stillRuns has told something
	waiting string      // the approval that the call waits for
	timer   *time.Timer // nil if nobody listens
	ended   bool
}

// notifications returns a sink that tells the client what happens in a call, until stop is
// called: progress if it gave a token, log lines if it asked for them. Between two rounds
// there is nobody to tell.
func (s *Server) notifications(c client) (sink func(toolroom.Event), stop func()) {
	p := &progress{client: c, every: s.o.ProgressPeriod, began: time.Now()}
	if p.every <= 0 {
		p.every = defaultProgressPeriod
	}
	if x := c.listening(); x != nil && x.ProgressToken != nil {
		p.mu.Lock()
		p.timer = time.AfterFunc(p.every, p.stillRuns)
		p.mu.Unlock()
	}
	return func(e toolroom.Event) {
		// A client that went away does not stop the tool here; its context does.
		switch e.Kind {
		case toolroom.EventProgress:
			p.figure(e.Progress)
		case toolroom.EventChunk:
			p.word(chunkText(e.Chunk))
		case toolroom.EventApproval:
			p.approval(e.Approval)
		case toolroom.EventNotice:
			if x := c.listening(); x != nil {
				_ = x.Notify(e.Notice.Method, e.Notice.Params)
			}
		case toolroom.EventLog:
			if x := c.listening(); x != nil {
				_ = x.Notify(logMethod, logLine(&e))
			}
		}
	}, p.stop
}

// figure tells the tool's own progress. Progress must grow with each notification.
func (p *progress) figure(f *toolroom.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done, raw := f.Done, f.Raw
	if p.told > 0 && done <= p.told && (raw == nil || p.own) {
		done, raw = p.told+progressStep, nil
	}
	p.told = max(p.told, done)
	p.tell(done, f.Total, f.Message, raw)
}

// word tells something without a figure.
func (p *progress) word(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told += progressStep
	p.tell(p.told, 0, message, nil)
}

func (p *progress) approval(a *toolroom.ApprovalNotice) {
	p.mu.Lock()
	p.waiting = ""
	if a.State == "pending" {
		p.waiting = a.ID
	}
	p.mu.Unlock()
	p.word(fmt.Sprintf("approval %s is %s: %s", a.ID, a.State, a.Reason))
}

// stillRuns tells a client that has heard nothing for some time that the call runs.
func (p *progress) stillRuns() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	message := fmt.Sprintf("still running after %s", time.Since(p.began).Round(time.Second))
	if p.waiting != "" {
		message = fmt.Sprintf("waiting for approval: toolroom approve %s", p.waiting)
	}
	p.told, p.own = p.told+progressStep, true
	p.tell(p.told, 0, message, nil)
}

// tell sends a notification, and puts off the next word of stillRuns.
func (p *progress) tell(done, total float64, message string, raw json.RawMessage) {
	if p.ended {
		return
	}
	if p.timer != nil {
		p.timer.Reset(p.every)
	}
	x := p.client.listening()
	if x == nil || x.ProgressToken == nil {
		return
	}
	if raw != nil {
		raw = withMember(raw, "progressToken", x.ProgressToken)
	} else {
		raw, _ = jsonx.Marshal(struct { // which has JSON
			Token    json.RawMessage `json:"progressToken"`
			Message  string          `json:"message,omitempty"`
			Progress float64         `json:"progress"`
			Total    float64         `json:"total,omitempty"`
		}{x.ProgressToken, message, done, total})
	}
	_ = x.Notify("notifications/progress", raw)
}

// stop ends the notifications: none follows the answer.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// logLine has the parameters of a line of a tool's log: as the server behind the tool
// wrote them, if it did.
func logLine(e *toolroom.Event) json.RawMessage {
	if len(e.Log.Raw) > 0 {
		return e.Log.Raw
	}
	line, _ := jsonx.Marshal(struct { // which has JSON
		Data   string `json:"data"`
		Level  string `json:"level"`
		Logger string `json:"logger,omitempty"`
	}{e.Log.Message, e.Log.Level, e.Tool})
	return line
}
