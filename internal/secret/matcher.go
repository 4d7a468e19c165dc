package secret

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// head is how many bytes of a form it is looked up by, the length of the
// shortest form.
const head = MinMasked

const (
	// A window is told how far it may move by its last three bytes, or by four
	// where it has room for them: fewer texts have those by chance, also where
	// forms and text are both base64.
	roomForFour = 8
	// maxWindow is the longest window: a longer one moves further, and has more
	// blocks that stop it.
	maxWindow = 16
	// A table of skips has sparse places for each block, so that few share one,
	// as long as it fits into the cache of a processor.
	sparse                     = 16
	minTableBits, maxTableBits = 12, 18
)

// matcher finds many patterns in one pass, after Wu and Manber, "A fast
// algorithm for multi-pattern searching" (1994): the last bytes of a window say
// how far the next place where a pattern can begin is. It is immutable.
type matcher struct {
	// window is how many bytes are looked at at once, no more than the shortest
	// pattern has.
	window int
	// block is how many of its last bytes are looked up.
	block int
	// skip is, by the hash of the last block of a window, how far the window may
	// move; zero means that a pattern may begin at it.
	skip  []uint8
	shift int // of the hash
	drop  int // bits of four bytes that are not of the block
	// patterns are those with the same head, longest first.
	patterns map[uint64][]pattern
	// beginnings are the first 1 to head-1 bytes of all patterns.
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
	var all []pattern
	for value, mark := range marks {
		for _, form := range forms(value) {
			all = append(all, pattern{[]byte(form), mark})
		}
	}
	m := &matcher{patterns: map[uint64][]pattern{}, beginnings: map[string]bool{}}
	for _, p := range all {
		key := headKey(p.text)
		m.patterns[key] = append(m.patterns[key], p)
		m.longest = max(m.longest, len(p.text))
		for i := 1; i < head; i++ {
			m.beginnings[string(p.text[:i])] = true
		}
	}
	for _, p := range m.patterns {
		slices.SortFunc(p, func(a, b pattern) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), bytes.Compare(a.text, b.text), cmp.Compare(a.mark, b.mark))
		})
	}
	m.tabulate(all)
	return m
}

// tabulate makes the table of skips, with a window as long as the patterns and
// the size of the table permit.
func (m *matcher) tabulate(all []pattern) {
	m.window = maxWindow
	for _, p := range all {
		m.window = min(m.window, len(p.text))
	}
	m.block = 3
	if m.window >= roomForFour {
		m.block = 4
	}
	m.drop = 32 - 8*m.block
	size := bits.Len(uint(sparse * len(m.patterns) * (m.window - m.block + 1)))
	size = min(max(size, minTableBits), maxTableBits)
	m.shift = 32 - size
	m.skip = bytes.Repeat([]byte{uint8(m.window - m.block + 1)}, 1<<size)
	for _, p := range all {
		for end := m.block; end <= m.window; end++ {
			// The hash reads four bytes; one before the block does not count.
			at := m.hash(append(make([]byte, 4-m.block), p.text[end-m.block:end]...))
			m.skip[at] = min(m.skip[at], uint8(m.window-end))
		}
	}
}

// hash is of the last bytes of four, which are read at once.
func (m *matcher) hash(four []byte) uint32 {
	return (binary.LittleEndian.Uint32(four) >> (m.drop & 31)) * 0x9e3779b1 >> (m.shift & 31)
}

// next is the first place from at on where a pattern may begin; from the last
// places, which have less than a window, none does.
func (m *matcher) next(text []byte, at int) (place int, ok bool) {
	for end := at + m.window; end <= len(text); {
		skip := m.skip[m.hash(text[end-4:])]
		if skip == 0 {
			return end - m.window, true
		}
		end += int(skip)
		at = end - m.window
	}
	return at, false
}

// find gives the parts of text to replace, in order and apart. Where matches
// overlap they become one part, so that no rest of a value stays.
func (m *matcher) find(text []byte) []span {
	var spans []span
	for at, ok := m.next(text, 0); ok; at, ok = m.next(text, at+1) {
		if p, ok := m.longestAt(text[at:]); ok {
			found := span{at, at + len(p.text), p.mark}
			if n := len(spans); n > 0 && found.start < spans[n-1].end {
				spans[n-1].end = max(spans[n-1].end, found.end)
			} else {
				spans = append(spans, found)
			}
		}
	}
	return spans
}

func (m *matcher) longestAt(text []byte) (pattern, bool) {
	for _, p := range m.patterns[headKey(text)] {
		if bytes.HasPrefix(text, p.text) {
			return p, true
		}
	}
	return pattern{}, false
}

// unsettled is where the last part of text begins that further bytes could make
// a pattern of; len(text) when there is none.
func (m *matcher) unsettled(text []byte) int {
	at, whole := m.next(text, max(0, len(text)-m.longest+1))
	for ; whole; at, whole = m.next(text, at+1) {
		if m.mayGrow(text[at:]) {
			return at
		}
	}
	for ; at < len(text); at++ {
		if m.mayGrow(text[at:]) {
			return at
		}
	}
	return len(text)
}

func (m *matcher) mayGrow(rest []byte) bool {
	if len(rest) < head {
		return m.beginnings[string(rest)]
	}
	for _, p := range m.patterns[headKey(rest)] {
		if len(p.text) > len(rest) && bytes.HasPrefix(p.text, rest) {
			return true
		}
	}
	return false
}

func headKey(b []byte) uint64 {
	_ = b[head-1]
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}
