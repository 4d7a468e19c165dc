package run

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// What a tool gives back may repeat a secret that it was given. Everything that
// leaves a call goes through this file: results before they are shown or kept,
// errors, and events.

// maskResult takes known secrets out of what the tool returned. Without one the
// bytes stay as they came.
func (p *pass) maskResult() {
	if p.masked || p.Secrets == nil {
		return
	}
	p.masked = true
	r := &p.result
	r.Value, r.Raw = p.Secrets.Mask(r.Value), p.Secrets.Mask(r.Raw)
	if len(r.Content) == 0 {
		return
	}
	content := make([]toolroom.Content, len(r.Content)) // the list may be the source's own, or in the cache
	for i, c := range r.Content {
		c.Text, c.URI = p.Secrets.Text(c.Text), p.Secrets.Text(c.URI)
		c.MIMEType, c.Raw = p.Secrets.Text(c.MIMEType), p.Secrets.Mask(c.Raw)
		if data := p.Secrets.Mask(c.Data); !bytes.Equal(data, c.Data) {
			// The raw forms have the data in base64, which no mark fits into.
			c.Data, c.Raw, r.Raw = data, nil, nil
		}
		content[i] = c
	}
	r.Content = content
}

// maskedExecution is a copy of what a program printed and called, without known
// secrets.
func (p *pass) maskedExecution(x *toolroom.Execution) *toolroom.Execution {
	if x == nil || p.Secrets == nil {
		return x
	}
	masked := *x
	masked.Stdout, masked.Stderr = p.Secrets.Text(x.Stdout), p.Secrets.Text(x.Stderr)
	masked.Calls = slices.Clone(x.Calls)
	for i := range masked.Calls {
		masked.Calls[i].Arguments = p.Secrets.Mask(masked.Calls[i].Arguments)
	}
	masked.Refused = slices.Clone(x.Refused)
	for i := range masked.Refused {
		masked.Refused[i].Address, masked.Refused[i].Reason = p.Secrets.Text(masked.Refused[i].Address), p.Secrets.Text(masked.Refused[i].Reason)
	}
	return &masked
}

// maskEvent takes known secrets out of an event that a tool sent. Chunks go
// through [chunks] as well.
func (p *pass) maskEvent(e *toolroom.Event) {
	if p.Secrets == nil {
		return
	}
	if e.Log != nil {
		log := *e.Log
		log.Message, log.Data = p.Secrets.Text(log.Message), p.Secrets.Mask(log.Data)
		log.Raw = p.Secrets.Mask(log.Raw)
		e.Log = &log
	}
	if e.Progress != nil {
		progress := *e.Progress
		progress.Message, progress.Raw = p.Secrets.Text(progress.Message), p.Secrets.Mask(progress.Raw)
		e.Progress = &progress
	}
	if e.Notice != nil {
		notice := *e.Notice
		notice.Params = p.Secrets.Mask(notice.Params)
		e.Notice = &notice
	}
	if e.Approval != nil {
		notice := *e.Approval
		notice.Reason = p.Secrets.Text(notice.Reason)
		e.Approval = &notice
	}
}

// chunks holds back those that may have the beginning of a secret, until the
// next ones decide. They keep their order; other events may pass them.
type chunks struct {
	mu     sync.Mutex
	pieces *secret.Pieces
	held   []toolroom.Event
}

// add sends the chunks that are decided by now.
func (c *chunks) add(m *secret.Masker, e toolroom.Event, send func(toolroom.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pieces == nil {
		c.pieces = m.Pieces()
	}
	c.held = append(c.held, e)
	c.send(c.pieces.Add(e.Chunk), send)
}

// flush sends what is held back: no more will come.
func (c *chunks) flush(send func(toolroom.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pieces != nil {
		c.send(c.pieces.Flush(), send)
	}
}

func (c *chunks) send(ready []json.RawMessage, send func(toolroom.Event)) {
	for i, doc := range ready {
		c.held[i].Chunk = doc
		send(c.held[i])
	}
	c.held = append([]toolroom.Event(nil), c.held[len(ready):]...)
}
