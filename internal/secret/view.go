package secret

import (
	"bytes"
	"slices"
)

// A view is a text with one layer of encoding taken off: escapes, line ends
// within a long word, or hex in pairs. What is found in a view is replaced in
// the text itself. Views are made of the text that is looked through, not of
// the secrets, so that any mixture of escapes is found with a few patterns.
type view struct {
	src  []byte
	walk walk
}

// walk yields the parts of src in order, until yield returns false. A part that
// yields nothing belongs to no view of the text.
type walk func(src []byte, yield func(part) bool)

// part is a part of a text and what a view shows in its place.
type part struct {
	start, end int
	// out is what the view shows; it is src[start:end] when plain is set.
	out   []byte
	plain bool
}

// maxLayers is how many layers of escapes are taken off: JSON in JSON in JSON,
// with one to spare.
const maxLayers = 4

// views calls visit with each view of text and the views that it was made of,
// outermost first. Around says how text is cut out of a longer one.
func views(text []byte, c around, visit func(chain []view, text []byte)) {
	var chain []view
	for {
		if c.open { // an escape that is cut off may become anything
			if end := unfinished(text); end < len(text) {
				text = text[:end]
				visit(chain, text)
			}
		}
		if walk := foldedLines(text, c); walk != nil {
			see(chain, text, walk, visit)
		}
		if walk := hexPairs(text, c); walk != nil {
			see(chain, text, walk, visit)
		}
		if len(chain) == maxLayers || !hasEscape(text) {
			return
		}
		chain = append(slices.Clip(chain), view{text, unescaped})
		text = render(text, unescaped)
		visit(chain, text)
	}
}

func see(chain []view, text []byte, walk walk, visit func([]view, []byte)) {
	visit(append(slices.Clip(chain), view{text, walk}), render(text, walk))
}

// around is what is known of the text around a text.
type around struct {
	// before is how many characters of a word stand directly before it.
	before int
	// open says that more may follow.
	open bool
}

func render(src []byte, walk walk) []byte {
	out := make([]byte, 0, len(src))
	walk(src, func(p part) bool {
		out = append(out, p.out...)
		return true
	})
	return out
}

// outward gives the parts of the outermost text that spans of a view stand for.
// Spans are in order and apart, as are those that it returns.
func outward(chain []view, spans []span) []span {
	for _, v := range slices.Backward(chain) {
		spans = v.locate(spans)
	}
	return spans
}

// locate gives the parts of the source that spans of the view stand for, made
// larger to whole escapes.
func (v view) locate(spans []span) []span {
	out := slices.Clone(spans)
	n, starts, at := 0, true, 0 // at is how much of the view came so far
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

// boundary is the last place up to at in the outermost text that cuts no escape
// of any view in two.
func boundary(chain []view, at int) int {
	place := at // in the source of each view
	for i, v := range chain {
		cut, shown := v.cut(place)
		if cut < place {
			at = cut
			for _, outer := range slices.Backward(chain[:i]) {
				at = outer.source(at)
			}
		}
		place = shown
	}
	return at
}

// cut is the last place of the source up to place that is within no escape, and
// how much the view shows of what is before it.
func (v view) cut(place int) (at, shown int) {
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

// source is where in the source a place of the view is.
func (v view) source(place int) int {
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

// Lines of encoders are as long as this at least, so that only words of a
// certain length are joined over a line end.
const minFold = 16

// isWord holds the characters of tokens and of both kinds of base64.
var isWord = setOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=.~")

func setOf(chars string) *[256]bool {
	var set [256]bool
	for _, c := range []byte(chars) {
		set[c] = true
	}
	return &set
}

// foldedLines shows the words that go on over line ends, as base64 in lines of 64
// or 76 characters does, also indented. It is nil for a text without.
func foldedLines(text []byte, c around) walk {
	if _, _, ok := nextFold(text, 0, c); !ok {
		return nil
	}
	return func(src []byte, yield func(part) bool) {
		done := 0 // what was yielded so far, or belongs to no word
		for {
			end, next, ok := nextFold(src, done, c)
			if !ok {
				break
			}
			start := end
			for start > done && isWord[src[start-1]] {
				start--
			}
			if start > done {
				if done > 0 && !yield(wordAt(src, done)) || !yield(part{start: start, end: start, out: apart}) {
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
			yield(part{start: last.end, end: last.end, out: apart})
		}
	}
}

// wordAt is the word that goes on at a place.
func wordAt(src []byte, at int) part {
	end := at
	for end < len(src) && isWord[src[end]] {
		end++
	}
	return part{start: at, end: end, out: src[at:end], plain: true}
}

// apart keeps two words apart: no secret goes over it.
var apart = []byte{0}

// nextFold finds the next line end from at on that a word goes over: where the
// word stops before it and goes on behind it.
func nextFold(text []byte, at int, c around) (end, next int, ok bool) {
	for from := at; ; {
		n := bytes.IndexByte(text[from:], '\n')
		switch {
		case n >= 0:
			end, next, from = from+n, from+n+1, from+n+1
		case c.open && from < len(text) && text[len(text)-1] == '\r':
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
		if next < len(text) && !isWord[text[next]] || next == len(text) && !c.open {
			continue
		}
		start := end
		for start > 0 && end-start < minFold && isWord[text[start-1]] {
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
