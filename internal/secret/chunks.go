package secret

import (
	"bytes"
	"encoding/json"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Chunks redacts a sequence of JSON documents, such as the chunks of a tool's
// output. It also redacts values that are split over several documents: the first
// string of a document continues in the first string of the next, the second in
// the second, and so on. A Chunks must not be used concurrently.
type Chunks struct {
	redactor *Redactor
	docs     []heldDocument // oldest first
	streams  []*stream
}

// heldDocument is a document that waits for later ones, because it may end with the
// beginning of a value.
type heldDocument struct {
	doc []byte
	// strings are the positions of its strings, and texts the lengths of their values
	// in the streams.
	strings []span
	texts   []int
}

// Chunks returns a new Chunks.
func (m *Redactor) Chunks() *Chunks { return &Chunks{redactor: m} }

// maxHeldDocuments limits the documents that wait, and so the memory and the time that they cost.
// Only documents without text can be so many: other text soon shows how a value goes on.
const maxHeldDocuments = 1000

// Add adds a document and returns the redacted documents that later ones cannot
// change, in order. Each document is returned once, by Add or Flush. If too many wait, Add
// returns them all, and a value that began in them is not found.
func (p *Chunks) Add(doc json.RawMessage) []json.RawMessage {
	m := p.redactor.matcher()
	if m == nil && len(p.docs) == 0 {
		return []json.RawMessage{doc}
	}
	p.appendDocument(doc)
	if len(p.docs) > maxHeldDocuments {
		return p.Flush()
	}
	return p.emit(p.countSettled(m))
}

// Flush returns the remaining documents, redacted.
func (p *Chunks) Flush() []json.RawMessage { return p.emit(len(p.docs)) }

func (p *Chunks) appendDocument(doc json.RawMessage) {
	held := heldDocument{doc: append([]byte(nil), doc...)}
	if json.Valid(doc) {
		held.strings = stringSpans(doc)
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

// countSettled returns the number of documents that later ones cannot change.
func (p *Chunks) countSettled(m *matcher) int {
	n := len(p.docs)
	for i, l := range p.streams {
		settled, end := l.settledLength(m), 0
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

func (p *Chunks) emit(n int) []json.RawMessage {
	if n == 0 {
		return nil // without a copy of those that wait
	}
	m := p.redactor.matcher()
	out := make([]json.RawMessage, 0, n)
	for _, held := range p.docs[:n] {
		out = append(out, p.redactor.Redact(p.redactStrings(m, held)))
	}
	p.docs = append([]heldDocument(nil), p.docs[n:]...)
	return out
}

// redactStrings returns the oldest document with the values in its strings redacted.
// Strings without values keep their bytes.
func (p *Chunks) redactStrings(m *matcher, held heldDocument) []byte {
	var changed []span
	for i, length := range held.texts {
		text, spans := p.streams[i].take(m, length)
		if len(spans) == 0 {
			continue
		}
		quoted, err := jsonx.Marshal(string(replace(text, spans)))
		if err != nil { // cannot happen: the text was a JSON string
			quoted = []byte(`"[secret]"`)
		}
		changed = append(changed, span{held.strings[i].start, held.strings[i].end, string(quoted)})
	}
	if len(changed) == 0 {
		return held.doc
	}
	return replace(held.doc, changed)
}

// stringSpans returns the positions of the strings in a valid document, including
// their quotes. It omits the names of members, which do not continue in other
// documents.
func stringSpans(doc []byte) []span {
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
