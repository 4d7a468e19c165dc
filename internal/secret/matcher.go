package secret

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// headSize is the number of first bytes by which a pattern is looked up: the length of the
// shortest one.
const headSize = MinRedacted

const (
	// minFourByteWindow is the smallest window whose last four bytes decide how far it moves;
	// for smaller ones it is the last three. Four bytes match less often by chance, also if
	// both the patterns and the text are base64.
	minFourByteWindow = 8
	// maxWindow is the largest window. A larger one moves further, but more blocks stop it.
	maxWindow = 16
	// slotsPerBlock is the size of the skip table per block, so that few blocks share a slot
	// while the table fits in the processor's cache.
	slotsPerBlock              = 16
	minTableBits, maxTableBits = 12, 18
)

// matcher finds many patterns in one pass, after Wu and Manber, "A fast algorithm for
// multi-pattern searching" (1994): the last bytes of a window decide how far it can move to
// the next place where a pattern can begin. A matcher is immutable; with copies its tables,
// but not its patterns.
type matcher struct {
	// window is the size of the window, at most that of the shortest pattern.
	window int
	// block is how many of the window's last bytes are looked up.
	block int
	// skip is how far the window can move, by the hash of its last block. Zero means that a
	// pattern may begin there.
	skip  []uint8
	shift int // of the hash
	drop  int // bits of four bytes that are not in the block
	// patterns are linked in chains, one for each entry of heads.
	patterns []pattern
	// heads is the last pattern, counted from 1, by the hash of its first bytes.
	heads []int32
	// beginnings has a bit for each beginning of 1 to headSize-1 bytes of all patterns, by
	// its hash. If two share a bit, this only delays the output of a stream.
	beginnings []uint64
	longest    int
}

type pattern struct {
	text string
	mark string
	next int32 // the next one in the chain, counted from 1; 0 ends it
}

// newMatcher returns a matcher for patterns, or nil if there are none.
func newMatcher(all []pattern) *matcher {
	if len(all) == 0 {
		return nil
	}
	m := &matcher{window: maxWindow, block: 3}
	for _, p := range all {
		m.window = min(m.window, len(p.text))
	}
	if m.window >= minFourByteWindow {
		m.block = 4
	}
	m.drop = 32 - 8*m.block
	// Leave room for twice as many.
	size := bits.Len(uint(slotsPerBlock * len(all) * (m.window - m.block + 1)))
	size = min(max(size, minTableBits), maxTableBits)
	m.shift = 32 - size
	m.skip = bytes.Repeat([]byte{uint8(m.window - m.block + 1)}, 1<<size)
	m.heads = make([]int32, 1<<bits.Len(uint(2*len(all))))
	m.beginnings = make([]uint64, beginningBits/64)
	m.patterns = make([]pattern, 0, len(m.heads))
	m.addPatterns(all)
	return m
}

// with returns a matcher that also finds more patterns.
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
	grown.addPatterns(more)
	return &grown
}

// addPatterns adds patterns to the tables. It does not change those of an older matcher.
func (m *matcher) addPatterns(more []pattern) {
	for _, p := range more {
		at := m.headHash(p.text)
		m.patterns = append(m.patterns, pattern{p.text, p.mark, m.heads[at]})
		m.heads[at] = int32(len(m.patterns))
		m.longest = max(m.longest, len(p.text))
		for i := 1; i < headSize; i++ {
			bit := beginningHash(p.text[:i])
			m.beginnings[bit/64] |= 1 << (bit % 64)
		}
		for end := m.block; end <= m.window; end++ {
			// hash reads four bytes and ignores those before the block.
			at := m.hash(append(make([]byte, 4-m.block), p.text[end-m.block:end]...))
			m.skip[at] = min(m.skip[at], uint8(m.window-end))
		}
	}
}

// beginningBits is the size of the table beginnings, in bits.
const beginningBits = 1 << 18

func beginningHash[T string | []byte](text T) uint64 {
	key := uint64(len(text))
	for i := range len(text) {
		key = key<<8 | uint64(text[i])
	}
	return key * 0x9e3779b97f4a7c15 >> (64 - 18)
}

func (m *matcher) headHash(text string) uint64 { return m.hashOf(headKey([]byte(text[:headSize]))) }

func (m *matcher) hashOf(key uint64) uint64 {
	return key * 0x9e3779b97f4a7c15 >> 32 & uint64(len(m.heads)-1)
}

// hash returns the hash of the block at the end of four bytes, which it reads at once.
func (m *matcher) hash(four []byte) uint32 {
	return (binary.LittleEndian.Uint32(four) >> (m.drop & 31)) * 0x9e3779b1 >> (m.shift & 31)
}

// nextCandidate returns the first index from at on where a pattern may begin. ok is false if
// there is none; place is then the first index that is followed by less than a window.
func (m *matcher) nextCandidate(text []byte, at int) (place int, ok bool) {
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

// find returns the spans of text to replace, also those that only a view shows. They are in
// order and do not overlap.
func (m *matcher) find(text []byte, c surroundings) []span {
	spans := m.findPlain(text)
	views(text, c, func(chain []view, text []byte) {
		if found := m.findPlain(text); len(found) > 0 {
			spans = append(spans, toOutermost(chain, found)...)
		}
	})
	return mergeSpans(spans)
}

// mergeSpans sorts spans and merges those that overlap, so that no part of a value remains.
func mergeSpans(spans []span) []span {
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

// findPlain returns the spans of text that are patterns.
func (m *matcher) findPlain(text []byte) []span {
	var spans []span
	for at, ok := m.nextCandidate(text, 0); ok; at, ok = m.nextCandidate(text, at+1) {
		if p := m.longestAt(text[at:]); p != nil {
			spans = append(spans, span{at, at + len(p.text), p.mark})
		}
	}
	return mergeSpans(spans)
}

// longestAt returns the longest pattern at the beginning of text, or nil.
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

// unsettledFrom returns the index from which further bytes could complete a pattern, also in a
// view of text. It is len(text) if there is none.
func (m *matcher) unsettledFrom(text []byte, c surroundings) int {
	c.moreFollows = true
	at := min(m.unsettledPlainFrom(text), unfinishedEscape(text))
	var chains [][]view
	views(text, c, func(chain []view, text []byte) {
		chains = append(chains, chain)
		if from := min(m.unsettledPlainFrom(text), unfinishedEscape(text)); from < len(text) {
			at = min(at, toOutermost(chain, []span{{start: from, end: len(text)}})[0].start)
		}
	})
	for again := true; again; {
		before := at
		for _, chain := range chains {
			at = min(at, escapeBoundary(chain, at))
		}
		again = at < before
	}
	return at
}

func (m *matcher) unsettledPlainFrom(text []byte) int {
	at, whole := m.nextCandidate(text, max(0, len(text)-m.longest+1))
	for ; whole; at, whole = m.nextCandidate(text, at+1) {
		if m.mayBecomePattern(text[at:]) {
			return at
		}
	}
	for ; at < len(text); at++ {
		if m.mayBecomePattern(text[at:]) {
			return at
		}
	}
	return len(text)
}

func (m *matcher) mayBecomePattern(rest []byte) bool {
	if len(rest) < headSize {
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
	_ = b[headSize-1]
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}
