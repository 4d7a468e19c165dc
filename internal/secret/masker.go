package secret

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"
	"sync/atomic"
)

// MinMasked is the shortest value, in bytes, that is masked: shorter ones occur
// by chance everywhere.
const MinMasked = 6

// Masker replaces known values, and what is left of them after base64, URL or
// JSON or hex encoding, by a mark such as [secret github/token]. The zero Masker knows
// nothing and is ready, and so does nil. Its methods are safe for concurrent use.
type Masker struct {
	mu    sync.Mutex // held while learning
	known atomic.Pointer[knowledge]
}

// knowledge is immutable once it is published.
type knowledge struct {
	marks   map[string]string // by value
	matcher *matcher
}

// Learn adds values. What was learned stays known, also after a value was
// replaced: somebody may still hold the old one.
func (m *Masker) Learn(values map[Ref]string) {
	if m.knows(values) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	marks := map[string]string{}
	if k := m.known.Load(); k != nil {
		marks = maps.Clone(k.marks)
	}
	for ref, value := range values {
		if _, ok := marks[value]; !ok && len(value) >= MinMasked {
			marks[value] = ref.mark()
		}
	}
	m.known.Store(&knowledge{marks, newMatcher(marks)})
}

func (m *Masker) knows(values map[Ref]string) bool {
	k := m.known.Load()
	for _, value := range values {
		if len(value) < MinMasked {
			continue
		}
		if k == nil {
			return false
		}
		if _, ok := k.marks[value]; !ok {
			return false
		}
	}
	return true
}

// Mask returns text without known values: text itself, not a copy, when it has
// none. A valid JSON document stays one.
func (m *Masker) Mask(text []byte) []byte {
	matcher := m.matcher()
	if matcher == nil {
		return text
	}
	spans := matcher.find(text)
	switch {
	case len(spans) == 0:
		return text
	case json.Valid(text):
		return replace(text, fitJSON(text, spans))
	default:
		return replace(text, spans)
	}
}

// Text is Mask for a string.
func (m *Masker) Text(text string) string {
	if m.matcher() == nil || text == "" {
		return text
	}
	return string(m.Mask([]byte(text)))
}

func (m *Masker) matcher() *matcher {
	if m == nil {
		return nil
	}
	if k := m.known.Load(); k != nil {
		return k.matcher
	}
	return nil
}

// span is a part of a text and what stands in its place.
type span struct {
	start, end int
	mark       string
}

// replace gives text itself where there is nothing to replace.
func replace(text []byte, spans []span) []byte {
	if len(spans) == 0 {
		return text
	}
	var out bytes.Buffer
	out.Grow(len(text))
	done := 0
	for _, s := range spans {
		out.Write(text[done:s.start])
		out.WriteString(s.mark)
		done = s.end
	}
	out.Write(text[done:])
	return out.Bytes()
}
