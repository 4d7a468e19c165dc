package secret

import (
	"bytes"
	"slices"
)

// A view is a text with one layer of encoding decoded: escapes, line breaks within a long word,
// or hex in pairs. Values that are found in a view are replaced in the text itself. Views are
// made of the text to search, not of the secrets, so that a few patterns find any mixture of
// escapes.
type view struct {
	src  []byte
	walk walk
}

// walk yields the parts of a view of src in order, until yield returns false. The view does not
// contain the parts of src that are not yielded.
type walk func(src []byte, yield func(part) bool)

// part is a part of a text and what the view has in its place.
type part struct {
	start, end int
	// out is the content of the view; it is src[start:end] if plain is set.
	out   []byte
	plain bool
}

// maxLayers is how many layers of escapes are decoded: JSON in JSON in JSON, and one more.
const maxLayers = 4

// views calls visit with each view of text. chain is the view with those that it was made of,
// outermost first. c describes the longer text from which text is cut.
func views(text []byte, c surroundings, visit func(chain []view, text []byte)) {
	var chain []view
	for {
		if c.moreFollows { // an escape that is cut off can become anything
			if end := unfinishedEscape(text); end < len(text) {
				text = text[:end]
				visit(chain, text)
			}
		}
		if walk := foldedLines(text, c); walk != nil {
			visitView(chain, text, walk, visit)
		}
		if walk := hexPairs(text, c); walk != nil {
			visitView(chain, text, walk, visit)
		}
		if len(chain) == maxLayers || !hasEscape(text) {
			return
		}
		chain = append(slices.Clip(chain), view{text, walkUnescaped})
		text = render(text, walkUnescaped)
		visit(chain, text)
	}
}

func visitView(chain []view, text []byte, walk walk, visit func([]view, []byte)) {
	visit(append(slices.Clip(chain), view{text, walk}), render(text, walk))
}

// surroundings describes what is before and after a text.
type surroundings struct {
	// before is how many characters of a word directly precede it.
	before int
	// moreFollows means that more text may follow.
	moreFollows bool
}

func render(src []byte, walk walk) []byte {
	out := make([]byte, 0, len(src))
	walk(src, func(p part) bool {
		out = append(out, p.out...)
		return true
	})
	return out
}

// toOutermost converts spans of a view to spans of the outermost text. Both are in order and do
// not overlap.
func toOutermost(chain []view, spans []span) []span {
	for _, v := range slices.Backward(chain) {
		spans = v.locate(spans)
	}
	return spans
}

// locate converts spans of the view to spans of its source, extended to whole escapes.
func (v view) locate(spans []span) []span {
	out := slices.Clone(spans)
	n, starts, at := 0, true, 0 // at is the index in the view
	v.walk(v.src, func(p part) bool {
		for n < len(spans) {
			switch s := spans[n]; {
			case starts && s.start < at+len(p.out):
				out[n].start, starts = p.start, false
				if p.plain {
					out[n].start += s.start - at
				}
			case !starts && s.end <= at+len(p.out):
				out[n].end, starts = p.end, true
				if p.plain {
					out[n].end = p.start + s.end - at
				}
				n++
			default:
				at += len(p.out)
				return true
			}
		}
		at += len(p.out)
		return n < len(spans)
	})
	if n < len(spans) && !starts {
		out[n].end = len(v.src)
	}
	return out
}

// escapeBoundary returns the last index up to at in the outermost text that is within no escape of
// any view.
func escapeBoundary(chain []view, at int) int {
	place := at // the index in the source of each view
	for i, v := range chain {
		cut, shown := v.cutBefore(place)
		if cut < place {
			at = cut
			for _, outer := range slices.Backward(chain[:i]) {
				at = outer.sourceIndex(at)
			}
		}
		place = shown
	}
	return at
}

// cutBefore returns the last index of the source up to place that is within no escape, and the
// length of the view up to it.
func (v view) cutBefore(place int) (at, shown int) {
	at = place
	v.walk(v.src, func(p part) bool {
		switch {
		case p.start >= place:
			return false
		case p.end <= place:
			shown += len(p.out)
		case p.plain:
			shown += place - p.start
		default:
			at = p.start
			return false
		}
		return true
	})
	return at, shown
}

// sourceIndex converts an index of the view to an index of its source.
func (v view) sourceIndex(place int) int {
	at, shown := 0, 0
	v.walk(v.src, func(p part) bool {
		switch {
		case shown+len(p.out) <= place:
			at = p.end
		case p.plain:
			at = p.start + place - shown
		default:
			at = p.start
		}
		shown += len(p.out)
		return shown < place
	})
	return at
}

// minFold is the shortest line that encoders write. Only words of this length are joined over a
// line break.
const minFold = 16

// isWordChar contains the characters of tokens and of both alphabets of base64.
var isWordChar = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=.~")

func byteSet(chars string) *[256]bool {
	var set [256]bool
	for _, c := range []byte(chars) {
		set[c] = true
	}
	return &set
}

// foldedLines returns the walk of a view with words joined over line breaks, such as base64 in
// (possibly indented) lines of 64 or 76 characters. It returns nil if text contains none.
func foldedLines(text []byte, c surroundings) walk {
	if _, _, ok := nextFold(text, 0, c); !ok {
		return nil
	}
	return func(src []byte, yield func(part) bool) {
		done := 0 // the end of what was yielded or belongs to no word
		for {
			end, next, ok := nextFold(src, done, c)
			if !ok {
				break
			}
			start := end
			for start > done && isWordChar[src[start-1]] {
				start--
			}
			if start > done {
				if done > 0 && !yield(wordAt(src, done)) || !yield(part{start: start, end: start, out: separator}) {
					return
				}
			}
			if !yield(part{start: start, end: end, out: src[start:end], plain: true}) {
				return
			}
			done = next
		}
		last := wordAt(src, done)
		if yield(last) && last.end < len(src) {
			yield(part{start: last.end, end: last.end, out: separator})
		}
	}
}

// wordAt returns the rest of the word at an index.
func wordAt(src []byte, at int) part {
	end := at
	for end < len(src) && isWordChar[src[end]] {
		end++
	}
	return part{start: at, end: end, out: src[at:end], plain: true}
}

// separator is put between two words, because no secret contains it.
var separator = []byte{0}

// nextFold finds the next line break within a word, from at on. end is where the word stops before
// the break, and next where it continues.
func nextFold(text []byte, at int, c surroundings) (end, next int, ok bool) {
	for from := at; ; {
		n := bytes.IndexByte(text[from:], '\n')
		switch {
		case n >= 0:
			end, next, from = from+n, from+n+1, from+n+1
		case c.moreFollows && from < len(text) && text[len(text)-1] == '\r':
			end, next, from = len(text), len(text), len(text)
		default:
			return 0, 0, false
		}
		if end > at && text[end-1] == '\r' {
			end--
		}
		for next < len(text) && (text[next] == ' ' || text[next] == '\t') {
			next++
		}
		if next < len(text) && !isWordChar[text[next]] || next == len(text) && !c.moreFollows {
			continue
		}
		start := end
		for start > 0 && end-start < minFold && isWordChar[text[start-1]] {
			start--
		}
		length := end - start
		if start == 0 {
			length += c.before
		}
		if length >= minFold {
			return end, next, true
		}
	}
}
