package run

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// A tool's output may repeat a secret that the tool received. This file redacts everything
// that leaves a call: results before they are shown or stored, errors, and events.

// redact removes known secrets from the result. Without secrets its bytes stay as they
// came.
func (r *draft) redact(secrets *secret.Redactor) {
	if r.redacted || secrets == nil {
		return
	}
	r.redacted = true
	r.Value, r.Raw = secrets.Redact(r.Value), secrets.Redact(r.Raw)
	if len(r.Content) == 0 {
		return
	}
	content := make([]toolroom.Content, len(r.Content)) // the list may be the source's own, or in the cache
	for i, c := range r.Content {
		c.Text, c.URI = secrets.Text(c.Text), secrets.Text(c.URI)
		c.MIMEType, c.Raw = secrets.Text(c.MIMEType), secrets.Redact(c.Raw)
		if data := secrets.Redact(c.Data); !bytes.Equal(data, c.Data) {
			// The raw forms have the data in base64, which cannot be redacted in place.
			c.Data, c.Raw, r.Raw = data, nil, nil
		}
		content[i] = c
	}
	r.Content = content
}

// redactedExecution returns a copy of what a program printed and called, without known
// secrets.
func redactedExecution(secrets *secret.Redactor, x *toolroom.Execution) *toolroom.Execution {
	if x == nil || secrets == nil {
		return x
	}
	redacted := *x
	redacted.Stdout, redacted.Stderr = secrets.Text(x.Stdout), secrets.Text(x.Stderr)
	redacted.Calls = slices.Clone(x.Calls)
	for i := range redacted.Calls {
		redacted.Calls[i].Arguments = secrets.Redact(redacted.Calls[i].Arguments)
	}
	redacted.Refused = slices.Clone(x.Refused)
	for i := range redacted.Refused {
		redacted.Refused[i].Address, redacted.Refused[i].Reason = secrets.Text(redacted.Refused[i].Address), secrets.Text(redacted.Refused[i].Reason)
	}
	return &redacted
}

// redactEvent removes known secrets from an event. Chunks are redacted by [chunks].
func redactEvent(secrets *secret.Redactor, e *toolroom.Event) {
	if secrets == nil {
		return
	}
	if e.Log != nil {
		log := *e.Log
		log.Message, log.Data = secrets.Text(log.Message), secrets.Redact(log.Data)
		log.Raw = secrets.Redact(log.Raw)
		e.Log = &log
	}
	if e.Progress != nil {
		progress := *e.Progress
		progress.Message, progress.Raw = secrets.Text(progress.Message), secrets.Redact(progress.Raw)
		e.Progress = &progress
	}
	if e.Notice != nil {
		notice := *e.Notice
		notice.Params = secrets.Redact(notice.Params)
		e.Notice = &notice
	}
	if e.Approval != nil {
		notice := *e.Approval
		notice.Reason = secrets.Text(notice.Reason)
		e.Approval = &notice
	}
}

// chunks holds back chunks that may end with the beginning of a secret until the next ones show
// whether they do. Chunks keep their order; other events may overtake them.
type chunks struct {
	mu       sync.Mutex
	redactor *secret.Chunks
	held     []toolroom.Event
}

// add adds a chunk and sends those that need not be held back any longer.
func (c *chunks) add(m *secret.Redactor, e toolroom.Event, send func(toolroom.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.redactor == nil {
		c.redactor = m.Chunks()
	}
	c.held = append(c.held, e)
	c.send(c.redactor.Add(e.Chunk), send)
}

// flush sends the chunks that are held back. No more chunks may follow.
func (c *chunks) flush(send func(toolroom.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.redactor != nil {
		c.send(c.redactor.Flush(), send)
	}
}

func (c *chunks) send(ready []json.RawMessage, send func(toolroom.Event)) {
	for i, doc := range ready {
		c.held[i].Chunk = doc
		send(c.held[i])
	}
	c.held = append([]toolroom.Event(nil), c.held[len(ready):]...)
}
