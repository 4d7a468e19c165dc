package run

import (
	"bytes"
	"encoding/json"
	"maps"
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
// whether they do. The chunks of a stream keep their order; others may overtake them.
type chunks struct {
	mu  sync.Mutex
	all chunkStream
	// streams are the streams that chunks name, such as stdout and stderr. A secret in one of
	// them may be interrupted by chunks of another, so that all does not find it.
	streams map[string]*chunkStream
}

// chunkStream holds back chunks of one stream, or of all.
type chunkStream struct {
	redactor *secret.Chunks
	held     []toolroom.Event
}

// maxStreams limits the streams of a call, whose names its tool chooses. In further ones, a secret
// that other chunks interrupt is not found.
const maxStreams = 8

// add adds a chunk and sends those that need not be held back any longer.
func (c *chunks) add(m *secret.Redactor, e toolroom.Event, send func(toolroom.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addToStreams(m, c.all.add(m, e), send)
}

// flush sends the chunks that are held back. No more chunks may follow.
func (c *chunks) flush(m *secret.Redactor, send func(toolroom.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addToStreams(m, c.all.flush(), send)
	for _, name := range slices.Sorted(maps.Keys(c.streams)) {
		for _, e := range c.streams[name].flush() {
			send(e)
		}
	}
}

// addToStreams adds chunks to their own streams and sends those that need not be held back there.
func (c *chunks) addToStreams(m *secret.Redactor, ready []toolroom.Event, send func(toolroom.Event)) {
	for _, e := range ready {
		released := []toolroom.Event{e}
		if one := c.streamOf(m, e.Chunk); one != nil {
			released = one.add(m, e)
		}
		for _, e := range released {
			send(e)
		}
	}
}

// streamOf returns the stream that a chunk names in its member stream, or nil if there are no
// secrets, it names none, or there are too many.
func (c *chunks) streamOf(m *secret.Redactor, chunk json.RawMessage) *chunkStream {
	var named struct{ Stream string }
	if m.Empty() || json.Unmarshal(chunk, &named) != nil || named.Stream == "" {
		return nil
	}
	one := c.streams[named.Stream]
	if one == nil && len(c.streams) < maxStreams {
		if c.streams == nil {
			c.streams = map[string]*chunkStream{}
		}
		one = &chunkStream{}
		c.streams[named.Stream] = one
	}
	return one
}

// add adds a chunk and returns those that later ones cannot change, redacted.
func (s *chunkStream) add(m *secret.Redactor, e toolroom.Event) []toolroom.Event {
	if s.redactor == nil {
		s.redactor = m.Chunks()
	}
	s.held = append(s.held, e)
	return s.release(s.redactor.Add(e.Chunk))
}

// flush returns the chunks that are held back, redacted.
func (s *chunkStream) flush() []toolroom.Event {
	if s.redactor == nil {
		return nil
	}
	return s.release(s.redactor.Flush())
}

// release returns the oldest held chunks with their redacted documents.
func (s *chunkStream) release(docs []json.RawMessage) []toolroom.Event {
	ready := s.held[:len(docs)]
	for i, doc := range docs {
		ready[i].Chunk = doc
	}
	if len(ready) > 0 {
		s.held = append([]toolroom.Event(nil), s.held[len(docs):]...)
	}
	return ready
}
