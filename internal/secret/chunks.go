package secret

import (
	"bytes"
	"encoding/json"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Chunks redacts JSON documents that a tool sends one after the other, such as
// the chunks of its output, also values of which each document has a part. The
// first string of a document goes on in the first string of the next, the
// second in the second, and so on. A Chunks is for one goroutine at a time.
type Chunks struct {
	redactor *Redactor
	docs     []piece // held back, oldest first
	streams  []*stream
}

// piece is one document that is held back.
type piece struct {
	doc []byte
	// strings are where its strings stand, and texts how long they are in the
	// streams.
	strings []span
	texts   []int
}

// Chunks makes a Chunks.
func (m *Redactor) Chunks() *Chunks { return &Chunks{redactor: m} }

// Add takes a document and returns those that are decided by now, in order, as
// many in the end as were taken. Without a beginning of a value in sight that
// is the document itself.
func (p *Chunks) Add(doc json.RawMessage) []json.RawMessage {
	m := p.redactor.matcher()
	if m == nil && len(p.docs) == 0 {
		return []json.RawMessage{doc}
	}
	p.hold(doc)
	return p.release(p.decided(m))
}

// Flush returns what is held back.
func (p *Chunks) Flush() []json.RawMessage { return p.release(len(p.docs)) }

func (p *Chunks) hold(doc json.RawMessage) {
	held := piece{doc: append([]byte(nil), doc...)}
	if json.Valid(doc) {
		held.strings = stringsIn(doc)
	}
	for i, s := range held.strings {
		var text string
		if json.Unmarshal(doc[s.start:s.end], &text) != nil {
			text = string(doc[s.start+1 : s.end-1])
		}
		if i == len(p.streams) {
			p.streams = append(p.streams, &stream{})
		}
		p.streams[i].held = append(p.streams[i].held, text...)
		held.texts = append(held.texts, len(text))
	}
	p.docs = append(p.docs, held)
}

// decided is how many documents hold nothing that later ones could change.
func (p *Chunks) decided(m *matcher) int {
	n := len(p.docs)
	for i, l := range p.streams {
		settled, end := l.settled(m), 0
		for k, held := range p.docs[:n] {
			if i >= len(held.texts) {
				continue
			}
			if end += held.texts[i]; end > settled {
				n = k
				break
			}
		}
	}
	return n
}

func (p *Chunks) release(n int) []json.RawMessage {
	m := p.redactor.matcher()
	out := make([]json.RawMessage, 0, n)
	for _, held := range p.docs[:n] {
		out = append(out, p.redactor.Redact(p.redacted(m, held)))
	}
	p.docs = append([]piece(nil), p.docs[n:]...)
	return out
}

// redacted is the oldest document without what its strings have of values. Its
// bytes stay where there is nothing to redact.
func (p *Chunks) redacted(m *matcher, held piece) []byte {
	var changed []span
	for i, length := range held.texts {
		text, spans := p.streams[i].take(m, length)
		if len(spans) == 0 {
			continue
		}
		quoted, err := jsonx.Marshal(string(replace(text, spans)))
		if err != nil { // a text that was JSON is JSON
			quoted = []byte(`"[secret]"`)
		}
		changed = append(changed, span{held.strings[i].start, held.strings[i].end, string(quoted)})
	}
	if len(changed) == 0 {
		return held.doc
	}
	return replace(held.doc, changed)
}

// stringsIn are where the strings of a valid document stand, quotes included.
// The names of members are not among them: they go on in no other document.
func stringsIn(doc []byte) []span {
	var all []span
	for at := 0; at < len(doc); {
		if doc[at] != '"' {
			at++
			continue
		}
		end := stringEnd(doc, at)
		if rest := bytes.TrimLeft(doc[end:], " \t\r\n"); len(rest) == 0 || rest[0] != ':' {
			all = append(all, span{start: at, end: end})
		}
		at = end
	}
	return all
}
