package secret

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// window is how many bytes are looked at at once, the length of the shortest
// form.
const window = MinMasked

// matcher finds many patterns in one pass, after Wu and Manber, "A fast
// algorithm for multi-pattern searching" (1994): the last two bytes of a window
// say how far the next place where a pattern can begin is. It is immutable.
type matcher struct {
	// skip is, by the last two bytes of a window, how far the window may move;
	// zero means that a pattern may begin at it.
	skip [1 << 16]uint8
	// patterns are those that begin with the bytes of a window, longest first.
	patterns map[uint64][]pattern
	// beginnings are the first 1 to window-1 bytes of all patterns.
	beginnings map[string]bool
	longest    int
}

type pattern struct {
	text []byte
	mark string
}

// newMatcher returns nil when there is nothing to find.
func newMatcher(marks map[string]string) *matcher {
	if len(marks) == 0 {
		return nil
	}
	m := &matcher{patterns: map[uint64][]pattern{}, beginnings: map[string]bool{}}
	for i := range m.skip {
		m.skip[i] = window - 1
	}
	for value, mark := range marks {
		for _, form := range forms(value) {
			m.add(pattern{[]byte(form), mark})
		}
	}
	for _, p := range m.patterns {
		slices.SortFunc(p, func(a, b pattern) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), bytes.Compare(a.text, b.text), cmp.Compare(a.mark, b.mark))
		})
	}
	return m
}

func (m *matcher) add(p pattern) {
	key := windowKey(p.text)
	m.patterns[key] = append(m.patterns[key], p)
	m.longest = max(m.longest, len(p.text))
	for i := 1; i < window; i++ {
		m.beginnings[string(p.text[:i])] = true
		block := &m.skip[blockKey(p.text[i-1:])]
		*block = min(*block, uint8(window-1-i))
	}
}

// find gives the parts of text to replace, in order and apart. Where matches
// overlap they become one part, so that no rest of a value stays.
func (m *matcher) find(text []byte) []span {
	var spans []span
	for at := 0; at+window <= len(text); {
		if skip := m.skip[blockKey(text[at+window-2:])]; skip > 0 {
			at += int(skip)
			continue
		}
		if p, ok := m.longestAt(text[at:]); ok {
			found := span{at, at + len(p.text), p.mark}
			if n := len(spans); n > 0 && found.start < spans[n-1].end {
				spans[n-1].end = max(spans[n-1].end, found.end)
			} else {
				spans = append(spans, found)
			}
		}
		at++
	}
	return spans
}

func (m *matcher) longestAt(text []byte) (pattern, bool) {
	for _, p := range m.patterns[windowKey(text)] {
		if bytes.HasPrefix(text, p.text) {
			return p, true
		}
	}
	return pattern{}, false
}

// unsettled is where the last part of text begins that further bytes could make
// a pattern of; len(text) when there is none.
func (m *matcher) unsettled(text []byte) int {
	for at := max(0, len(text)-m.longest+1); at < len(text); at++ {
		if m.mayGrow(text[at:]) {
			return at
		}
	}
	return len(text)
}

func (m *matcher) mayGrow(rest []byte) bool {
	if len(rest) < window {
		return m.beginnings[string(rest)]
	}
	for _, p := range m.patterns[windowKey(rest)] {
		if len(p.text) > len(rest) && bytes.HasPrefix(p.text, rest) {
			return true
		}
	}
	return false
}

func windowKey(b []byte) uint64 {
	_ = b[window-1]
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}

func blockKey(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
