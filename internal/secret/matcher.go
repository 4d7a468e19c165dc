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
const head = MinRedacted

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
// how far the next place where a pattern can begin is. It is immutable; with adds
// to a copy of its tables, not of its patterns.
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
	// patterns has those with the same place in heads in chains.
	patterns []pattern
	// heads is by the hash of the first bytes the last such pattern, from 1 on.
	heads []int32
	// beginnings has a bit for each of the first 1 to head-1 bytes of all
	// patterns, by their hash. A bit of two only delays the end of a stream.
	beginnings []uint64
	longest    int
}

type pattern struct {
	text string
	mark string
	next int32 // in the chain, from 1 on; 0 ends it
}

// newMatcher returns nil when there is nothing to find.
func newMatcher(all []pattern) *matcher {
	if len(all) == 0 {
		return nil
	}
	m := &matcher{window: maxWindow, block: 3}
	for _, p := range all {
		m.window = min(m.window, len(p.text))
	}
	if m.window >= roomForFour {
		m.block = 4
	}
	m.drop = 32 - 8*m.block
	// There is room to grow to twice as many.
	size := bits.Len(uint(sparse * len(all) * (m.window - m.block + 1)))
	size = min(max(size, minTableBits), maxTableBits)
	m.shift = 32 - size
	m.skip = bytes.Repeat([]byte{uint8(m.window - m.block + 1)}, 1<<size)
	m.heads = make([]int32, 1<<bits.Len(uint(2*len(all))))
	m.beginnings = make([]uint64, beginningBits/64)
	m.patterns = make([]pattern, 0, len(m.heads))
	m.put(all)
	return m
}

// with is a matcher that finds more patterns.
func (m *matcher) with(more []pattern) *matcher {
	if m == nil {
		return newMatcher(more)
	}
	rebuild := len(m.patterns)+len(more) > len(m.heads)
	for _, p := range more {
		rebuild = rebuild || len(p.text) < m.window
	}
	if rebuild {
		return newMatcher(slices.Concat(m.patterns, more))
	}
	grown := *m
	grown.skip, grown.heads, grown.beginnings = bytes.Clone(m.skip), slices.Clone(m.heads), slices.Clone(m.beginnings)
	grown.put(more)
	return &grown
}

// put adds patterns to the tables. Patterns of an older matcher stay as they are.
func (m *matcher) put(more []pattern) {
	for _, p := range more {
		at := m.headHash(p.text)
		m.patterns = append(m.patterns, pattern{p.text, p.mark, m.heads[at]})
		m.heads[at] = int32(len(m.patterns))
		m.longest = max(m.longest, len(p.text))
		for i := 1; i < head; i++ {
			bit := beginningHash(p.text[:i])
			m.beginnings[bit/64] |= 1 << (bit % 64)
		}
		for end := m.block; end <= m.window; end++ {
			// The hash reads four bytes; one before the block does not count.
			at := m.hash(append(make([]byte, 4-m.block), p.text[end-m.block:end]...))
			m.skip[at] = min(m.skip[at], uint8(m.window-end))
		}
	}
}

// beginningBits is the size of the table of beginnings.
const beginningBits = 1 << 18

func beginningHash[T string | []byte](text T) uint64 {
	key := uint64(len(text))
	for i := range len(text) {
		key = key<<8 | uint64(text[i])
	}
	return key * 0x9e3779b97f4a7c15 >> (64 - 18)
}

func (m *matcher) headHash(text string) uint64 { return m.hashOf(headKey([]byte(text[:head]))) }

func (m *matcher) hashOf(key uint64) uint64 {
	return key * 0x9e3779b97f4a7c15 >> 32 & uint64(len(m.heads)-1)
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

// find gives the parts of text to replace, in order and apart, also those that
// only a view of it shows.
func (m *matcher) find(text []byte, c around) []span {
	spans := m.findPlain(text)
	views(text, c, func(chain []view, text []byte) {
		if found := m.findPlain(text); len(found) > 0 {
			spans = append(spans, outward(chain, found)...)
		}
	})
	return joined(spans)
}

// joined puts spans in order. Where some overlap they become one, so that no rest
// of a value stays.
func joined(spans []span) []span {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.start < out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// findPlain gives the parts of text that are patterns.
func (m *matcher) findPlain(text []byte) []span {
	var spans []span
	for at, ok := m.next(text, 0); ok; at, ok = m.next(text, at+1) {
		if p := m.longestAt(text[at:]); p != nil {
			spans = append(spans, span{at, at + len(p.text), p.mark})
		}
	}
	return joined(spans)
}

// longestAt is nil where no pattern begins.
func (m *matcher) longestAt(text []byte) *pattern {
	var longest *pattern
	for i := m.heads[m.hashOf(headKey(text))]; i > 0; i = m.patterns[i-1].next {
		p := &m.patterns[i-1]
		if len(p.text) > len(text) || string(text[:len(p.text)]) != p.text {
			continue
		}
		if longest == nil || len(p.text) > len(longest.text) || len(p.text) == len(longest.text) && p.mark < longest.mark {
			longest = p
		}
	}
	return longest
}

// unsettled is where the last part of text begins that further bytes could make
// a pattern of, also in a view of it; len(text) when there is none.
func (m *matcher) unsettled(text []byte, c around) int {
	c.open = true
	at := min(m.unsettledPlain(text), unfinished(text))
	var chains [][]view
	views(text, c, func(chain []view, text []byte) {
		chains = append(chains, chain)
		if from := min(m.unsettledPlain(text), unfinished(text)); from < len(text) {
			at = min(at, outward(chain, []span{{start: from, end: len(text)}})[0].start)
		}
	})
	for again := true; again; {
		before := at
		for _, chain := range chains {
			at = min(at, boundary(chain, at))
		}
		again = at < before
	}
	return at
}

func (m *matcher) unsettledPlain(text []byte) int {
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
		bit := beginningHash(rest)
		return m.beginnings[bit/64]&(1<<(bit%64)) != 0
	}
	for i := m.heads[m.hashOf(headKey(rest))]; i > 0; i = m.patterns[i-1].next {
		if p := &m.patterns[i-1]; len(p.text) > len(rest) && p.text[:len(rest)] == string(rest) {
			return true
		}
	}
	return false
}

func headKey(b []byte) uint64 {
	_ = b[head-1]
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}
