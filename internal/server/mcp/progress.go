package mcp

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// defaultProgressPeriod is a sixth of the usual timeout of clients.
const defaultProgressPeriod = 10 * time.Second

// progressStep is the increment of progress for notifications without a value of the tool. It
// is small, so that the values that the tool reports later are still larger.
const progressStep = 1.0 / 1024

// progress sends progress notifications about a call, if the client gave a token. If nothing
// else was sent for some time, it reports that the call still runs, because many clients end
// a call when they have received nothing for a minute.
type progress struct {
	client client
	every  time.Duration
	began  time.Time

	mu              sync.Mutex
	last            float64     // the last value that was sent
	reportedRunning bool        // reportRunning has sent something
	waitingFor      string      // the id of the approval that the call waits for
	timer           *time.Timer // nil if the client wants no progress
	ended           bool
}

// callNotifier returns a sink that notifies the client of a call's events until stop is called:
// of progress if the client gave a token, and of log lines if it asked for them. Between two
// rounds, while the client has no request open, events are dropped.
func (s *Server) callNotifier(c client) (sink func(toolroom.Event), stop func()) {
	p := &progress{client: c, every: s.o.ProgressPeriod, began: time.Now()}
	if p.every <= 0 {
		p.every = defaultProgressPeriod
	}
	if x := c.currentRequest(); x != nil && x.ProgressToken != nil {
		p.mu.Lock()
		p.timer = time.AfterFunc(p.every, p.reportRunning)
		p.mu.Unlock()
	}
	return func(e toolroom.Event) {
		// Errors are ignored: if the client has gone, the context of the call ends the tool.
		switch e.Kind {
		case toolroom.EventProgress:
			p.report(e.Progress)
		case toolroom.EventChunk:
			p.reportMessage(chunkText(e.Chunk))
		case toolroom.EventApproval:
			p.reportApproval(e.Approval)
		case toolroom.EventNotice:
			if x := c.currentRequest(); x != nil {
				_ = x.Notify(e.Notice.Method, e.Notice.Params)
			}
		case toolroom.EventLog:
			if x := c.currentRequest(); x != nil {
				_ = x.Notify(logMethod, logLine(&e))
			}
		}
	}, p.stop
}

// report sends the progress that the tool reported. The protocol requires that progress grows
// with each notification, so a value that does not is replaced.
func (p *progress) report(f *toolroom.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done, raw := f.Done, f.Raw
	if p.last > 0 && done <= p.last && (raw == nil || p.reportedRunning) {
		done, raw = p.last+progressStep, nil
	}
	p.last = max(p.last, done)
	p.send(done, f.Total, f.Message, raw)
}

// reportMessage sends a message without a value of the tool.
func (p *progress) reportMessage(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last += progressStep
	p.send(p.last, 0, message, nil)
}

func (p *progress) reportApproval(a *toolroom.ApprovalNotice) {
	p.mu.Lock()
	p.waitingFor = ""
	if a.State == "pending" {
		p.waitingFor = a.ID
	}
	p.mu.Unlock()
	p.reportMessage(fmt.Sprintf("approval %s is %s: %s", a.ID, a.State, a.Reason))
}

// reportRunning tells a client that has received nothing for some time that the call still runs.
func (p *progress) reportRunning() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	message := fmt.Sprintf("still running after %s", time.Since(p.began).Round(time.Second))
	if p.waitingFor != "" {
		message = fmt.Sprintf("waiting for approval: toolroom approve %s", p.waitingFor)
	}
	p.last, p.reportedRunning = p.last+progressStep, true
	p.send(p.last, 0, message, nil)
}

// send sends a progress notification and restarts the timer of reportRunning. The caller holds
// the lock.
func (p *progress) send(done, total float64, message string, raw json.RawMessage) {
	if p.ended {
		return
	}
	if p.timer != nil {
		p.timer.Reset(p.every)
	}
	x := p.client.currentRequest()
	if x == nil || x.ProgressToken == nil {
		return
	}
	if raw != nil {
		raw = withMember(raw, "progressToken", x.ProgressToken)
	} else {
		raw, _ = jsonx.Marshal(struct { // cannot fail
			Token    json.RawMessage `json:"progressToken"`
			Message  string          `json:"message,omitempty"`
			Progress float64         `json:"progress"`
			Total    float64         `json:"total,omitempty"`
		}{x.ProgressToken, message, done, total})
	}
	_ = x.Notify("notifications/progress", raw)
}

// stop ends the notifications, so that none follows the response.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// logLine returns the parameters of a log notification: those that the MCP server of the tool
// sent, or else the message, the level and the tool.
func logLine(e *toolroom.Event) json.RawMessage {
	if len(e.Log.Raw) > 0 {
		return e.Log.Raw
	}
	line, _ := jsonx.Marshal(struct { // cannot fail
		Data   string `json:"data"`
		Level  string `json:"level"`
		Logger string `json:"logger,omitempty"`
	}{e.Log.Message, e.Log.Level, e.Tool})
	return line
}
