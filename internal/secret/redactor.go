package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolroom/toolroom"
)

// MinRedacted is the length of the shortest value, in bytes, that is redacted. Shorter ones
// occur by chance everywhere.
const MinRedacted = 6

// Redactor replaces known values by a mark such as [secret github/token], also if they are
// encoded in base64, hex, JSON or a URL. The zero Redactor and a nil one know no values and are
// ready to use. Its methods are safe for concurrent use.
type Redactor struct {
	mu sync.Mutex // held while learning
	// learned has the values of each reference over time, newest last.
	learned map[Ref][]valueSet
	values  map[string]*knownValue
	// forgotten is how many values are in the matcher but no longer in values.
	forgotten int

	published atomic.Pointer[matcher]
}

// valueSet is the values of a reference at one time, sorted.
type valueSet []string

type knownValue struct {
	patterns []pattern
	uses     int // how often it is in learned
}

// keptValues is how many values of a reference are known: the current one, and earlier ones
// that may still be in use somewhere.
const keptValues = 3

// Learn adds values. The latest keptValues values of a reference stay known.
func (m *Redactor) Learn(values map[Ref]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var fresh []pattern
	for ref, value := range values {
		fresh = m.learn(fresh, ref, valueSet{value})
	}
	m.publish(fresh)
}

// LearnAll adds several values that a reference has at once, such as the tokens of a login.
func (m *Redactor) LearnAll(ref Ref, values []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publish(m.learn(nil, ref, slices.Compact(slices.Sorted(slices.Values(values)))))
}

// learn appends the patterns of new values to fresh.
func (m *Redactor) learn(fresh []pattern, ref Ref, values valueSet) []pattern {
	values = slices.DeleteFunc(values, func(value string) bool { return len(value) < MinRedacted })
	old := m.learned[ref]
	if len(values) == 0 || len(old) > 0 && slices.Equal(old[len(old)-1], values) {
		return fresh
	}
	if m.learned == nil {
		m.learned, m.values = map[Ref][]valueSet{}, map[string]*knownValue{}
	}
	for _, value := range values {
		k := m.values[value]
		if k == nil {
			k = &knownValue{}
			for _, form := range searchForms(value) {
				k.patterns = append(k.patterns, pattern{text: form, mark: ref.mark()})
			}
			m.values[value] = k
			fresh = append(fresh, k.patterns...)
		}
		k.uses++
	}
	all := append(slices.Clone(old), values)
	if again := slices.IndexFunc(old, func(before valueSet) bool { return slices.Equal(before, values) }); again >= 0 {
		m.forget(all[again])
		all = slices.Delete(all, again, again+1)
	}
	for ; len(all) > keptValues; all = all[1:] {
		m.forget(all[0])
	}
	m.learned[ref] = all
	return fresh
}

func (m *Redactor) forget(values valueSet) {
	for _, value := range values {
		if k := m.values[value]; k.uses > 1 {
			k.uses--
		} else {
			delete(m.values, value)
			m.forgotten++
		}
	}
}

// publish makes the methods use new patterns. It rebuilds the tables without forgotten values
// once there are many of these.
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

// Redact returns text with known values redacted, or text itself, not a copy, if it has none. A
// valid JSON document stays valid.
func (m *Redactor) Redact(text []byte) []byte {
	matcher := m.matcher()
	if matcher == nil {
		return text
	}
	spans := matcher.find(text, surroundings{})
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

// Empty reports whether no values are known.
func (m *Redactor) Empty() bool { return m.matcher() == nil }

func (m *Redactor) matcher() *matcher {
	if m == nil {
		return nil
	}
	return m.published.Load()
}

// span is a part of a text and the mark that replaces it.
type span struct {
	start, end int
	mark       string
}

// replace replaces spans by their marks. It returns text itself if there are none.
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

// Error returns a copy of e with known values redacted, or e itself if no values are
// known.
func (m *Redactor) Error(e *toolroom.Error) *toolroom.Error {
	if e == nil || m.matcher() == nil {
		return e
	}
	redacted := *e
	redacted.Message, redacted.Hint, redacted.CLIHint = m.Text(e.Message), m.Text(e.Hint), m.Text(e.CLIHint)
	if e.Cause != nil {
		if said := e.Cause.Error(); m.Text(said) != said {
			redacted.Cause = errors.New(m.Text(said))
		}
	}
	if len(e.Details) > 0 {
		redacted.Details = m.details(e.Details)
	}
	if e.RPC != nil {
		rpc := *e.RPC
		rpc.Message, rpc.Data, rpc.Sent = m.Text(rpc.Message), m.Redact(rpc.Data), m.Redact(rpc.Sent)
		redacted.RPC = &rpc
	}
	if e.Missing != nil {
		redacted.Missing = m.details(map[string]any{"": e.Missing})[""]
	}
	return &redacted
}

func (m *Redactor) details(details map[string]any) map[string]any {
	text, err := json.Marshal(details)
	if err != nil {
		return nil // drop what cannot be redacted
	}
	redacted := m.Redact(text)
	if string(redacted) == string(text) {
		return details
	}
	var out map[string]any
	if json.Unmarshal(redacted, &out) != nil {
		return nil
	}
	return out
}
