package secret

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
)

// MinRedacted is the shortest value, in bytes, that is redacted: shorter ones occur
// by chance everywhere.
const MinRedacted = 6

// Redactor replaces known values, and what is left of them after base64, URL or
// JSON or hex encoding, by a mark such as [secret github/token]. The zero Redactor knows
// nothing and is ready, and so does nil. Its methods are safe for concurrent use.
type Redactor struct {
	mu sync.Mutex // held while learning
	// learned has what each reference stood for, newest last.
	learned map[Ref][]learned
	values  map[string]*known
	// forgotten is how many values are in the matcher and not in values.
	forgotten int

	published atomic.Pointer[matcher]
}

// learned is what a reference stood for at a time, in order.
type learned []string

type known struct {
	patterns []pattern
	holders  int // how often it is in learned
}

// keptValues is how many values of a reference are known: the one that is in use
// and those that it replaced, which somebody may still hold.
const keptValues = 3

// Learn adds values. Those that a reference stood for before stay known, as far
// as keptValues goes.
func (m *Redactor) Learn(values map[Ref]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var fresh []pattern
	for ref, value := range values {
		fresh = m.learn(fresh, ref, learned{value})
	}
	m.publish(fresh)
}

// LearnAll adds the values that a reference stands for together, such as the
// tokens of a login.
func (m *Redactor) LearnAll(ref Ref, values []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publish(m.learn(nil, ref, slices.Compact(slices.Sorted(slices.Values(values)))))
}

// learn adds the patterns of values that are new to fresh.
func (m *Redactor) learn(fresh []pattern, ref Ref, values learned) []pattern {
	values = slices.DeleteFunc(values, func(value string) bool { return len(value) < MinRedacted })
	old := m.learned[ref]
	if len(values) == 0 || len(old) > 0 && slices.Equal(old[len(old)-1], values) {
		return fresh
	}
	if m.learned == nil {
		m.learned, m.values = map[Ref][]learned{}, map[string]*known{}
	}
	for _, value := range values {
		k := m.values[value]
		if k == nil {
			k = &known{}
			for _, form := range forms(value) {
				k.patterns = append(k.patterns, pattern{text: form, mark: ref.mark()})
			}
			m.values[value] = k
			fresh = append(fresh, k.patterns...)
		}
		k.holders++
	}
	all := append(slices.Clone(old), values)
	if again := slices.IndexFunc(old, func(before learned) bool { return slices.Equal(before, values) }); again >= 0 {
		m.forget(all[again])
		all = slices.Delete(all, again, again+1)
	}
	for ; len(all) > keptValues; all = all[1:] {
		m.forget(all[0])
	}
	m.learned[ref] = all
	return fresh
}

func (m *Redactor) forget(values learned) {
	for _, value := range values {
		if k := m.values[value]; k.holders > 1 {
			k.holders--
		} else {
			delete(m.values, value)
			m.forgotten++
		}
	}
}

// publish puts new patterns in force. The tables are made anew, without what was
// forgotten, once that is much of them.
func (m *Redactor) publish(fresh []pattern) {
	if m.forgotten > 8+len(m.values)/4 {
		m.forgotten = 0
		var all []pattern
		for _, k := range m.values {
			all = append(all, k.patterns...)
		}
		m.published.Store(newMatcher(all))
		return
	}
	if len(fresh) > 0 {
		m.published.Store(m.published.Load().with(fresh))
	}
}

// Redact returns text without known values: text itself, not a copy, when it has
// none. A valid JSON document stays one.
func (m *Redactor) Redact(text []byte) []byte {
	matcher := m.matcher()
	if matcher == nil {
		return text
	}
	spans := matcher.find(text, around{})
	switch {
	case len(spans) == 0:
		return text
	case json.Valid(text):
		return replace(text, alignJSON(text, spans))
	default:
		return replace(text, spans)
	}
}

// Text is Redact for a string.
func (m *Redactor) Text(text string) string {
	if m.matcher() == nil || text == "" {
		return text
	}
	return string(m.Redact([]byte(text)))
}

// Empty reports whether nothing is known, so that there is nothing to redact.
func (m *Redactor) Empty() bool { return m.matcher() == nil }

func (m *Redactor) matcher() *matcher {
	if m == nil {
		return nil
	}
	return m.published.Load()
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
